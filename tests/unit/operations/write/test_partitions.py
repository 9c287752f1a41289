"""Partitioned writes: values, directories, bounded memory and open files."""

from __future__ import annotations

import json
import random
from datetime import UTC, date, datetime
from decimal import Decimal
from urllib.parse import unquote

import deltalake
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lazydelta as ld
from lazydelta.errors import SchemaError
from lazydelta.schema import from_arrow_schema
from lazydelta.store import MemoryStore, open_output, open_store
from lazydelta.writer.files.partition_router import PartitionRouter, encode_path

ODD = [
    "plain", "with space", "a/b", "..", ".", "../../etc", "%", "%41", "100%25", "a=b", "a+b&c", "?#",
    "x:y", "quote'\"", "back\\slash", "\x00", "\n\t\x7f\x85\u2028", "zürich ☃ 日本 \U0001f600", "null",
    "__HIVE_DEFAULT_PARTITION__", " lead and trail ", "v" * 300, "{[^*]}", "~!@$(),;",
]  # fmt: skip


def test_special_characters_round_trip_in_all_engines(tmp_path):
    data = pa.table({"p": [*ODD, None, ""], "n": list(range(len(ODD) + 2))})
    ld.write(tmp_path / "t", data, partition_by="p")
    expected = dict(
        enumerate([*ODD, None, None])
    )  # the log does not distinguish an empty string from null
    ours = ld.Table.open(tmp_path / "t").to_arrow()
    assert dict(zip(ours["n"].to_pylist(), ours["p"].to_pylist(), strict=True)) == expected
    theirs = deltalake.DeltaTable(tmp_path / "t").to_pyarrow_table()
    assert dict(zip(theirs["n"].to_pylist(), theirs["p"].to_pylist(), strict=True)) == expected
    assert [path.name for path in tmp_path.iterdir()] == ["t"]  # nothing escaped


def test_every_file_is_at_the_path_in_the_log(tmp_path):
    ld.write(tmp_path, {"p": ODD, "n": list(range(len(ODD)))}, partition_by="p")
    (commit,) = (tmp_path / "_delta_log").glob("*.json")
    paths = [
        json.loads(line)["add"]["path"]
        for line in commit.read_text().split("\n")
        if '"add"' in line
    ]
    assert len(paths) == len(ODD)
    for path in paths:
        assert path.isascii()
        assert (tmp_path / unquote(path)).is_file()
        assert (tmp_path / unquote(path)).resolve().is_relative_to(tmp_path.resolve())


def test_directories_are_hive_style(tmp_path):
    ld.write(
        tmp_path, {"day": [date(2026, 1, 31)], "c": ["a/b"], "x": [1]}, partition_by=["day", "c"]
    )
    (path,) = tmp_path.rglob("part-*.parquet")
    assert str(path.parent.relative_to(tmp_path)) == "day=2026-01-31/c=a%2Fb"
    (file,) = ld.Table.open(tmp_path).scan().files()
    assert file.partition_values == {"day": date(2026, 1, 31), "c": "a/b"}
    assert encode_path("c=a%2Fb") == "c=a%252Fb"


def test_long_partition_values_do_not_exceed_path_limits(tmp_path):
    columns = {f"p{n}": ["v" * 240] for n in range(20)}
    ld.write(tmp_path, {**columns, "x": [1]}, partition_by=list(columns))
    (path,) = tmp_path.rglob("part-*.parquet")
    assert len(str(path.relative_to(tmp_path))) < 100
    assert ld.Table.open(tmp_path).to_arrow().to_pydict() == {**columns, "x": [1]}


@pytest.mark.parametrize(
    ("kind", "values", "strings"),
    [
        (pa.int8(), [-128, 127], ["-128", "127"]),
        (pa.int64(), [-(2**63), 2**63 - 1], [str(-(2**63)), str(2**63 - 1)]),
        (pa.bool_(), [True, False], ["true", "false"]),
        (pa.date32(), [date(1, 1, 1), date(9999, 12, 31)], ["0001-01-01", "9999-12-31"]),
        (pa.decimal128(10, 2), [Decimal("1.50"), Decimal("-0.05")], ["1.50", "-0.05"]),
        (pa.float64(), [1.5, 1e300], ["1.5", "1e+300"]),
        (pa.timestamp("us", "UTC"), [datetime(2026, 1, 1, 1, 2, 3, 4, UTC)], ["2026-01-01T01:02:03.000004Z"]),
        (pa.timestamp("us"), [datetime(2026, 1, 1, 1, 2, 3, 4)], ["2026-01-01 01:02:03.000004"]),  # noqa: DTZ001
        (pa.binary(), [b"abc"], ["abc"]),
    ],
    ids=lambda value: str(value) if isinstance(value, pa.DataType) else "",
)  # fmt: skip
def test_values_of_every_type(tmp_path, kind, values, strings):
    data = pa.table({"p": pa.array([*values, None], kind), "n": list(range(len(values) + 1))})
    ld.write(tmp_path, data, partition_by="p")
    table = ld.Table.open(tmp_path)
    with table.scan().file_batches() as batches:
        found = [
            dict(row)["p"] for batch in batches for row in batch["partition_values"].to_pylist()
        ]
    assert sorted(map(str, found)) == sorted(map(str, [*strings, None]))
    assert table.to_arrow().sort_by("n")["p"].to_pylist() == [*values, None]


def test_values_that_cannot_be_serialized_are_refused(tmp_path):
    with pytest.raises(SchemaError, match=r"'p'.*UTF-8"):
        ld.write(tmp_path, pa.table({"p": [b"\xff"], "x": [1]}), partition_by="p")
    assert not list(tmp_path.rglob("*.parquet"))


SCHEMA = from_arrow_schema(pa.schema({"p": pa.string(), "q": pa.int64(), "n": pa.int64()}))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "b", "c", "", None]), st.sampled_from([1, 2, None])),
        max_size=60,
    )
)
def test_splitting_loses_no_row_and_keeps_the_order_within_a_partition(pairs):
    batch = pa.record_batch(
        {
            "p": pa.array([p for p, _ in pairs], pa.string()),
            "q": pa.array([q for _, q in pairs], pa.int64()),
            "n": pa.array(range(len(pairs)), pa.int64()),
        }
    )
    router = PartitionRouter(SCHEMA, ("p", "q"), "none")
    parts = list(router.split(batch, batch)) if pairs else []
    keys = [partition.values for partition, _ in parts]
    assert len(keys) == len(set(keys))
    expected: dict = {}
    for n, (p, q) in enumerate(pairs):
        key = (("p", p or None), ("q", None if q is None else str(q)))
        expected.setdefault(key, []).append(n)
    assert {part.values: rows["n"].to_pylist() for part, rows in parts} == expected


def test_many_combinations_of_values_are_distinct():
    random.seed(1)
    count = 3000
    columns = {name: [random.randrange(count) for _ in range(count)] for name in "abc"}
    batch = pa.record_batch({**columns, "n": list(range(count))})
    router = PartitionRouter(from_arrow_schema(batch.schema), tuple("abc"), "none")
    found = {part.values: rows["n"].to_pylist() for part, rows in router.split(batch, batch)}
    for n in range(count):
        key = tuple((name, str(columns[name][n])) for name in "abc")
        assert n in found[key]


# --- bounds


class Watched(MemoryStore):
    """Counts the outputs that are open at once."""

    def __init__(self):
        super().__init__()
        self.open = self.most = 0

    def open_output(self, path):
        output, store = open_output_of(self, path), self
        store.open += 1
        store.most = max(store.most, store.open)
        return output


def open_output_of(store, path):
    inner = MemoryStore.open_output(store, path)

    class Output:
        file = inner.file
        is_open = True

        def publish(self):
            inner.publish()
            self.close()

        def discard(self):
            inner.discard()
            self.close()

        def close(self):
            if self.is_open:
                self.is_open = False
                store.open -= 1

    return Output()


def spread(partitions: int, batches: int) -> pa.Table:
    count = partitions * batches
    return pa.table({"p": [n % partitions for n in range(count)], "n": list(range(count))})


def in_parts(data: pa.Table, size: int):
    return (data.slice(at, size) for at in range(0, data.num_rows, size))


@pytest.mark.parametrize("threads", [1, 3])
def test_open_files_are_bounded_however_many_partitions(threads):
    store = Watched()
    table = ld.Table(store, ld.Config())
    data = spread(100, 30)
    options = ld.WriteOptions(open_files=7, memory_limit=8_000, files_at_once=threads)
    result = table.write(in_parts(data, 500), partition_by="p", options=options)
    assert store.open == 0
    assert store.most <= 7 + threads
    assert result.files_added > 100  # files had to be closed before their partition was complete
    assert sorted(table.to_arrow()["n"].to_pylist()) == list(range(3000))


def test_a_partition_is_one_file_where_the_bound_allows(tmp_path):
    options = ld.WriteOptions(memory_limit=8_000)
    result = ld.write(tmp_path, in_parts(spread(50, 40), 500), partition_by="p", options=options)
    assert result.files_added == 50
    assert ld.Table.open(tmp_path).to_arrow().num_rows == 2000


def test_least_recently_written_files_are_closed_first():
    """Rows sorted by partition never need more files than partitions, under the smallest bound."""
    store = Watched()
    data = spread(40, 25).sort_by("p")
    options = ld.WriteOptions(open_files=2, memory_limit=2_000, files_at_once=1)
    result = ld.Table(store, ld.Config()).write(
        in_parts(data, 25), partition_by="p", options=options
    )
    assert result.files_added == 40
    assert store.most <= 3


def test_buffered_rows_are_bounded(monkeypatch):
    from lazydelta.writer.files import data_files

    most = 0
    flush = data_files._DataFileWriter._flush

    def watched(self):
        nonlocal most
        most = max(most, self._buffered_bytes)
        flush(self)

    monkeypatch.setattr(data_files._DataFileWriter, "_flush", watched)
    data = spread(10, 3000)
    piece = data.slice(0, 100).nbytes
    options = ld.WriteOptions(memory_limit=10 * piece)
    ld.Table(MemoryStore(), ld.Config()).write(
        in_parts(data, 100), partition_by="p", options=options
    )
    assert 0 < most <= 21 * piece  # buffered rows, and the rows being sorted


def test_a_staged_file_is_invisible_until_complete(tmp_path):
    store = open_store(tmp_path)
    output = open_output(store, "a/b.parquet")
    output.file.write(b"half")
    assert not (tmp_path / "a" / "b.parquet").exists()
    output.discard()
    assert not list((tmp_path / "a").iterdir())


def test_files_have_a_maximum_of_rows(tmp_path):
    rows = pa.table({"p": ["a"] * 5 + ["b"] * 2, "id": range(7)})
    options = ld.WriteOptions(max_rows_per_file=2)
    ld.write(tmp_path, rows, partition_by="p", options=options)
    counts = [file.num_records for file in ld.Table.open(tmp_path).scan().files()]
    assert sorted(counts) == [1, 2, 2, 2]
    assert ld.Table.open(tmp_path).count() == 7
