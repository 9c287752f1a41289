"""`scan.partition_values()` is exact, and reads files only where statistics do not decide."""

from __future__ import annotations

import json
from datetime import date

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lazydelta.errors import ConfigError
from lazydelta.metrics import StoreCalled
from lazydelta.scan.aggregates import distinct_partitions, tuning
from tests.unit.scan.read.tables import Rows, field, inline

FIELDS = [field("day", "date"), field("kind", "string"), field("id", "long")]
PARTITIONS = ("kind", "day")


def new_table(path):
    return Rows(path, FIELDS, partition_columns=PARTITIONS, features=("deletionVectors",))


def write_file(table, name, kind, day, ids, *, with_stats=True, **more):
    """Write a file of a partition, with or without statistics."""
    bounds = {"minValues": {"id": min(ids)}, "maxValues": {"id": max(ids)}} if ids else {}
    stats = {"numRecords": len(ids), "nullCount": {"id": 0}, **bounds}
    table.file(
        name,
        pa.table({"id": pa.array(ids, pa.int64())}),
        partition={"kind": kind, "day": day},
        action={"stats": json.dumps(stats)} if with_stats else None,
        **more,
    )


def partitions(scan):
    found = scan.partition_values()
    assert found.schema.names == list(PARTITIONS)
    assert found.schema.types == [pa.string(), pa.date32()]
    return sorted((tuple(row.values()) for row in found.to_pylist()), key=str)


def with_rows(scan):
    return sorted({(row["kind"], row["day"]) for row in scan.to_arrow().to_pylist()}, key=str)


def files_read(events):
    paths = {event.path for event in events if isinstance(event, StoreCalled)}
    return sorted(path for path in paths if not path.startswith("_delta_log"))


@pytest.fixture
def table(tmp_path):
    table = new_table(tmp_path / "table")
    write_file(table, "a1", "a", "2026-01-01", [1, 2, 3])
    write_file(table, "a2", "a", "2026-01-01", [4, 5])
    write_file(table, "b1", "b", None, [6])
    write_file(table, "c1", None, "2026-01-02", [7, 8])
    return table


def test_partitions_are_typed_distinct_and_read_from_the_log(table):
    events = []
    scan = table.open(observer=events.append).scan()
    day = date(2026, 1, 1)
    assert partitions(scan) == [("a", day), ("b", None), (None, date(2026, 1, 2))]
    assert partitions(table.open(observer=events.append).scan("kind = 'a'")) == [("a", day)]
    assert files_read(events) == []
    assert scan.explain()["files"]["scanned"] == 4


def test_a_partition_with_all_rows_deleted_is_omitted(table):
    write_file(table, "d1", "d", "2026-01-03", [1, 2], vector=inline([0, 1]))
    write_file(table, "e1", "e", "2026-01-03", [1, 2], vector=inline([1]))
    events = []
    found = [kind for kind, _ in partitions(table.open(observer=events.append).scan())]
    assert found == ["a", "b", "e", None]
    assert files_read(events) == []


def test_empty_files_add_no_partition(table):
    write_file(table, "d1", "d", "2026-01-03", [])
    write_file(table, "e1", "e", "2026-01-03", [], with_stats=False)
    assert [kind for kind, _ in partitions(table.open().scan())] == ["a", "b", None]


def test_without_statistics_one_file_of_each_partition_is_read(tmp_path):
    table = new_table(tmp_path / "table")
    for kind in "ab":
        for at in range(5):
            write_file(table, f"{kind}{at}", kind, None, [at], with_stats=False)
    write_file(table, "b9", "b", None, [9])
    events = []
    assert partitions(table.open(observer=events.append).scan()) == [("a", None), ("b", None)]
    assert len(files_read(events)) == 1  # of `a`: statistics confirm a row of `b`


def test_files_are_read_until_a_row_matches(tmp_path):
    table = new_table(tmp_path / "table")
    for at in range(8):
        write_file(table, f"a{at}", "a", None, [at, 100])
        write_file(table, f"b{at}", "b", None, [0, 100])
    scan = table.open().scan("id > 6 and id < 100")
    assert partitions(scan) == with_rows(scan) == [("a", None)]


def test_bounds_confirm_partitions_without_reading_files(table):
    events = []
    scan = table.open(observer=events.append).scan("id > 3 and id < 7")
    assert [kind for kind, _ in partitions(scan)] == ["a", "b"]
    assert files_read(events) == []


def test_pending_files_beyond_the_maximum_are_read_early(table, monkeypatch):
    monkeypatch.setattr(tuning, "MAX_PENDING_FILES", 2)
    monkeypatch.setattr(tuning, "DISTINCT_BATCH_ROWS", 1)
    for at in range(9):
        write_file(table, f"z{at}", f"z{at % 4}", None, [at], with_stats=at % 2 == 0)
    scan = table.open(batch_rows=2).scan("id != 3")
    assert partitions(scan) == with_rows(scan)


def test_memory_grows_with_partitions_and_not_with_files(table, monkeypatch):
    monkeypatch.setattr(tuning, "DISTINCT_BATCH_ROWS", 4)
    held, whole = [], distinct_partitions._distinct
    monkeypatch.setattr(
        distinct_partitions, "_distinct", lambda rows: held.append(rows.num_rows) or whole(rows)
    )
    for at in range(40):
        write_file(table, f"z{at}", f"z{at % 2}", None, [at])
    assert len(partitions(table.open(batch_rows=1).scan())) == 5
    assert max(held) <= 2 * 5 + 1


def test_equal_values_in_different_strings_are_one_partition(tmp_path):
    table = Rows(tmp_path / "table", [field("n", "integer"), field("id", "long")],
                partition_columns=["n"])  # fmt: skip
    for name, value in (("a", "1"), ("b", "01")):
        table.file(name, pa.table({"id": [1]}), partition={"n": value})
    assert table.open().scan().partition_values().to_pylist() == [{"n": 1}]


@pytest.mark.parametrize(("ids", "rows"), [([1], 1), ([], 0)])
def test_an_unpartitioned_table_has_one_partition_unless_empty(tmp_path, ids, rows):
    table = Rows(tmp_path / "table", [field("id", "long")])
    table.file("a", pa.table({"id": pa.array(ids, pa.int64())}))
    scan = table.open().scan()
    assert scan.partition_values().shape == (rows, 0)
    assert table.open().scan("id > 1").partition_values().shape == (0, 0)


def test_a_limit_is_refused(table):
    with pytest.raises(ConfigError, match="limit"):
        table.open().scan(limit=3).partition_values()


@given(
    files=st.lists(
        st.tuples(
            st.sampled_from(["a", "b", None]),
            st.sampled_from(["2026-01-01", "2026-01-02", None]),
            st.lists(st.integers(0, 9), max_size=4),
            st.booleans(),
            st.sets(st.integers(0, 3)),
        ),
        max_size=12,
    ),
    where=st.sampled_from(
        [None, "id > 4", "id = 3", "kind = 'a'", "day is null and id < 5", "id is null"]
    ),
)
def test_partition_values_match_the_rows(files, where, tmp_path_factory):
    table = new_table(tmp_path_factory.mktemp("random") / "table")
    for at, (kind, day, ids, with_stats, deleted_rows) in enumerate(files):
        deleted = sorted(row for row in deleted_rows if row < len(ids))
        vector = inline(deleted) if deleted else None
        write_file(table, f"f{at}", kind, day, ids, with_stats=with_stats, vector=vector)
    scan = table.open().scan(where)
    assert partitions(scan) == with_rows(scan)
