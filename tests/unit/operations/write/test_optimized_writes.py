"""Optimized writes: rows of more partitions than open files become few files of each partition."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lazydelta as ld
from lazydelta.errors import DeltaError

OPTIMIZED = {"delta.autoOptimize.optimizeWrite": "true"}
PARTITIONS = 40


def batches(count=20, rows=400):
    """Yield rows of all partitions in each batch; `n` has their order."""
    rng = np.random.default_rng(5)
    for start in range(0, count * rows, rows):
        p = rng.integers(0, PARTITIONS, rows)
        strings = [f"p{n}" if n else None for n in p]
        yield pa.record_batch({"p": strings, "n": np.arange(start, start + rows)})


def written(place, *, open_files=4, memory_limit=10_000, properties=OPTIMIZED, **options):
    source = pa.RecordBatchReader.from_batches(next(batches()).schema, batches())
    settings = ld.WriteOptions(open_files=open_files, memory_limit=memory_limit, **options)
    ld.write(place, source, partition_by="p", properties=properties, options=settings)
    return ld.Table.open(place)


def files_per_partition(table):
    return Counter(file.partition_values["p"] for file in table.scan().files())


def in_order(table):
    """Return the numbers of each partition in stored order."""
    found: dict[str, list[int]] = {}
    for row in table.to_arrow().to_pylist():
        found.setdefault(row["p"], []).append(row["n"])
    return found


def test_each_partition_gets_one_file_and_its_rows_keep_their_order(tmp_path, monkeypatch):
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    table = written(tmp_path / "t")
    counts = files_per_partition(table)
    assert len(counts) == PARTITIONS
    assert set(counts.values()) == {1}
    rows = in_order(table)
    assert sorted(n for numbers in rows.values() for n in numbers) == list(range(8000))
    assert all(numbers == sorted(numbers) for numbers in rows.values())
    assert not list((tmp_path / "tmp").iterdir())
    plain = written(tmp_path / "plain", properties={})
    assert max(files_per_partition(plain).values()) > 5  # what the property avoids
    assert in_order(plain).keys() == rows.keys()


def test_files_have_the_target_size(tmp_path):
    table = written(tmp_path, properties=OPTIMIZED, target_file_bytes=1000)
    one = max(file.size for file in table.scan().files())
    counts = files_per_partition(table)
    assert len(counts) == PARTITIONS
    assert max(counts.values()) <= 3
    assert one < 4000


@pytest.mark.parametrize(
    ("properties", "option", "optimized"),
    [
        ({}, None, False),
        ({}, True, True),
        (OPTIMIZED, False, False),
        ({"delta.autoOptimize.optimizeWrite": "false"}, None, False),
        ({"delta.autoOptimize": "true"}, None, False),
    ],
)
def test_the_option_overrides_the_property(tmp_path, properties, option, optimized):
    table = written(tmp_path, properties=properties, optimize_write=option)
    assert (max(files_per_partition(table).values()) == 1) is optimized


def test_few_partitions_need_no_temporary_files(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a temporary file")

    monkeypatch.setattr("tempfile.NamedTemporaryFile", refuse)
    table = written(tmp_path, open_files=PARTITIONS)
    assert set(files_per_partition(table).values()) == {1}


def test_a_failed_write_leaves_nothing(tmp_path, monkeypatch):
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))

    def broken():
        yield from batches(10)
        assert list((tmp_path / "tmp").iterdir())
        raise DeltaError("the source broke")

    source = pa.RecordBatchReader.from_batches(next(batches()).schema, broken())
    options = ld.WriteOptions(open_files=4, memory_limit=10_000)
    with pytest.raises(Exception, match="the source broke"):
        ld.write(tmp_path / "t", source, partition_by="p", properties=OPTIMIZED, options=options)
    assert not list((tmp_path / "tmp").iterdir())
    assert not list(Path(tmp_path / "t").rglob("*.parquet"))


def test_updates_obey_the_property(tmp_path):
    table = written(tmp_path, properties={**OPTIMIZED, "delta.targetFileSize": "1mb"})
    small = ld.Table.open(tmp_path, config=ld.Config(write=ld.WriteOptions(
        open_files=4, memory_limit=10_000)))  # fmt: skip
    small.update({"n": "n + 1"}, where="true")
    assert set(files_per_partition(table).values()) == {1}
    assert sorted(table.to_arrow()["n"].to_pylist()) == list(range(1, 8001))
