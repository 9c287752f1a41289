"""Small-file batching: the same rows as files read one by one."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from lazydelta import ReadOptions
from lazydelta.errors import DataFileError, DataFileNotFoundError
from lazydelta.parquet import FileTemplate
from lazydelta.scan.read.small_files import SmallFileBatches
from tests.native.support import plain, three_ways, without_decoder
from tests.unit.scan.read.tables import Rows, field, inline

FIELDS = [field("n", "long"), field("t", "string"), field("x", "double"), field("b", "binary")]
ORDERED = ReadOptions(ordered=True)


def rows_of(at, count=50):
    numbers = np.arange(at * 1000, at * 1000 + count)
    strings = [None if n % 7 == 0 else f"a text of some length, {n}" for n in numbers]
    return pa.table(
        {
            "n": numbers,
            "t": strings,
            "x": pa.array(numbers / 3, mask=numbers % 5 == 0),
            "b": pa.array([None if t is None else t.encode() for t in strings], pa.binary()),
        }
    )


@contextmanager
def counted():
    """Yield a list of requested and decoded files per batch."""
    read, seen = FileTemplate.read, []

    def watching(self, paths):
        found = read(self, paths)
        seen.append((len(paths), found[1]))
        return found

    with patch.object(FileTemplate, "read", watching):
        yield seen


def same_rows(table, **scan):
    """Read with and without the decoder; return the rows and the batches.

    By one thread: what is alike is what was seen last, and another thread may have seen it.
    """
    with counted() as seen:
        found = table.scan(**scan).to_arrow(replace(ORDERED, files_at_once=1))
    with without_decoder():
        expected = table.scan(**scan).to_arrow(ORDERED)
    assert found.schema.equals(expected.schema, check_metadata=True)
    assert plain(found).combine_chunks().equals(plain(expected).combine_chunks())
    return found, [go for go in seen if go[0] > 1]


def many(tmp_path, count=40, **options):
    made = Rows(tmp_path / "t", FIELDS)
    for at in range(count):
        made.file(f"{at:03}.parquet", rows_of(at), **options)
    made.commit()
    return made


@pytest.mark.parametrize("codec", ["none", "snappy", "zstd", "gzip"])
def test_files_of_one_layout(tmp_path, codec):
    made = many(tmp_path, compression=codec, row_group_size=20)
    found, seen = same_rows(made.open())
    assert found.num_rows == 2000
    together = sum(read for _, read in seen)
    assert together == 0 if codec == "gzip" else together > 20


def test_views(tmp_path):
    found, taken = three_ways(many(tmp_path).open().scan())
    assert found.num_rows == 2000
    assert found.schema.field("t").type == pa.string_view()
    assert len(taken) < 10, "the others were read together"


def test_a_predicate_on_other_columns(tmp_path):
    made = many(tmp_path)
    found, seen = same_rows(made.open(), where="x > 5000 and t like '%6'", columns=["b", "n"])
    assert found.schema.names == ["b", "n"]
    assert found.num_rows == 107
    assert seen


def test_partitions_and_deletion_vectors(tmp_path):
    made = Rows(
        tmp_path / "t", [*FIELDS, field("p", "integer")], partition_columns=["p"],
        features=["deletionVectors"],
    )  # fmt: skip
    for at in range(60):
        vector = inline([0, 3]) if at % 20 == 7 else None
        partition = {"p": None if at // 10 == 2 else str(at // 10)}
        made.file(f"{at:03}.parquet", rows_of(at), partition=partition, vector=vector)
    made.commit()
    found, seen = same_rows(made.open())
    assert found.num_rows == 60 * 50 - 6
    firsts = pc.divide(found["n"], 10_000)
    assert found["p"].to_pylist() == [None if n == 2 else n for n in firsts.to_pylist()]
    assert seen


def test_added_dropped_and_reordered_columns(tmp_path):
    made = Rows(tmp_path / "t", FIELDS)
    for at in range(60):
        rows = rows_of(at)
        if at % 10 == 4:
            rows = rows.drop_columns(["x"])
        elif at % 10 == 7:
            rows = rows.select(["b", "x", "t", "n"]).append_column("more", rows["n"])
        elif at % 10 == 8:
            rows = rows.set_column(1, "t", rows["t"].cast(pa.large_string()))
        made.file(f"{at:03}.parquet", rows)
    made.commit()
    found, seen = same_rows(made.open())
    assert found.num_rows == 3000
    assert any(read for _, read in seen)
    assert any(read < requested for requested, read in seen)


def test_files_without_rows(tmp_path):
    made = Rows(tmp_path / "t", FIELDS)
    for at in range(30):
        made.file(f"{at:03}.parquet", rows_of(at, at % 3))
    made.commit()
    found, seen = same_rows(made.open())
    assert found.num_rows == 30
    assert seen


def test_a_missing_directory(tmp_path):
    made = Rows(tmp_path / "t", FIELDS)
    for at in range(40):
        made.file(f"{at // 20}/{at:03}.parquet", rows_of(at))
    shutil.rmtree(made.path / "1")
    with pytest.raises(DataFileNotFoundError, match=r"1/0[23]\d\.parquet"):
        made.open().scan().to_arrow(ORDERED)


@pytest.mark.parametrize("what", ["missing", "cut off", "no Parquet", "a pipe"])
def test_an_error_names_the_file(tmp_path, what):
    made = many(tmp_path)
    place = made.path / "020.parquet"
    if what == "cut off":
        place.write_bytes(place.read_bytes()[:-20])
    elif what == "no Parquet":
        place.write_bytes(b"PAR1 and something else PAR1")
    else:
        place.unlink()
    if what == "a pipe":
        os.mkfifo(place)  # without a writer, opening it blocks forever
    expected = DataFileError if what in {"cut off", "no Parquet"} else DataFileNotFoundError
    with pytest.raises(expected, match=r"020\.parquet"):
        made.open().scan().to_arrow()


def test_batches_respect_batch_rows(tmp_path):
    with counted() as seen:
        options = ReadOptions(batch_rows=70, ordered=True)
        batches = list(many(tmp_path).open().scan().to_batches(options))
    assert any(read > 1 for _, read in seen)
    assert max(batch.num_rows for batch in batches) == 70
    assert sum(batch.num_rows for batch in batches) == 2000


def test_a_small_file_of_very_many_rows_is_read_alone(tmp_path):
    """A few bytes may encode any number of rows, too many to decode at once."""
    made = Rows(tmp_path / "t", [field("n", "long")])
    for at in range(20):
        count = 3_000_000 if at == 15 else 10
        made.file(f"{at:03}.parquet", pa.table({"n": np.full(count, at)}))
    made.commit()
    assert (made.path / "015.parquet").stat().st_size < 100_000
    with counted() as seen:
        batches = list(made.open().scan().to_batches())
    assert sum(batch.num_rows for batch in batches) == 3_000_190
    assert max(batch.num_rows for batch in batches) < 1_000_000
    assert any(read < requested for requested, read in seen)


def test_reads_that_need_single_files(tmp_path):
    table = many(tmp_path).open()
    named = ReadOptions(file_column_name="file")
    with counted() as seen:
        files = table.scan().to_arrow(named)["file"]
        assert table.scan(limit=120).to_arrow().num_rows == 120
    assert pc.count_distinct(files).as_py() == 40
    assert not seen


def facts(size, vector=False, **constants):
    return SimpleNamespace(size=size, first_group=0, has_vector=vector, constants=constants)


def sizes_of_groups(files, is_enabled=True):
    batches = SmallFileBatches(SimpleNamespace(is_enabled=is_enabled))
    return [len(batch) for batch in batches.of(files)]


def test_batches_grow_and_end_where_files_differ():
    assert sizes_of_groups([facts(10)] * 20) == [1, 2, 4, 8, 5]
    assert sizes_of_groups([facts(10)] * 5, is_enabled=False) == [1] * 5
    assert sizes_of_groups([facts(100_000)] * 200)[-3:] == [10, 10, 5]  # a megabyte together
    large, unknown, deleted = facts(10**6), facts(None), facts(10, vector=True)
    for other in (large, unknown, deleted, facts(10, p=2)):
        files = [facts(10)] * 7 + [other] + [facts(10)] * 3
        assert sizes_of_groups(files) == [1, 2, 4, 1, 3]


def test_files_of_another_calendar_are_not_batched(tmp_path):
    """Equal stored dates with another calendar; another writer version alone does not matter."""
    made = Rows(tmp_path / "t", [field("d", "date"), field("n", "long")])
    days = pa.array([-141_500, None, 0], pa.int32()).cast(pa.date32())
    for at in range(120):
        rows = pa.table({"d": days, "n": [at] * 3})
        made.file(f"{at:03}.parquet", rows)
        noted(tmp_path / "t" / f"{at:03}.parquet", rows, notes_of(at))
    for action in made.actions[2:]:
        action["add"]["size"] = (tmp_path / "t" / action["add"]["path"]).stat().st_size
    made.commit()
    found, seen = same_rows(made.open())
    first = found["d"].combine_chunks().take(pa.array(range(0, 360, 3))).cast(pa.int32())
    assert first.to_pylist() == [-141_510 if at % 60 >= 50 else -141_500 for at in range(120)]
    assert sum(read for _, read in seen) > 80
    filtered, _ = same_rows(made.open(), where="d = date '1582-07-24'")
    assert filtered.num_rows == 20


def notes_of(at):
    spark = "org.apache.spark."
    if at % 60 < 50:
        return {spark + "version": f"3.{5 + at % 2}.0"}
    if at % 60 < 55:
        return {spark + "version": "3.5.0", spark + "legacyDateTime": ""}
    return {spark + "version": "2.4.8"}


def noted(path, rows, notes):
    """Write a file with footer metadata of another writer, as Spark does."""
    with pq.ParquetWriter(path, rows.schema, store_schema=False) as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata(notes)
