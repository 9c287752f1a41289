"""`scan.partition_values()`: exact, and from the log alone where that tells."""

from __future__ import annotations

import json
from datetime import date

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lazydelta.errors import ConfigError
from lazydelta.metrics import StoreCalled
from lazydelta.scan.aggregates import distinct_partitions as module
from tests.unit.scan.read.tables import Rows, field, inline

FIELDS = [field("day", "date"), field("kind", "string"), field("id", "long")]
PARTITIONS = ("kind", "day")


def new_table(path):
    return Rows(path, FIELDS, partition_columns=PARTITIONS, features=("deletionVectors",))


def put(table, name, kind, day, ids, *, told=True, **more):
    """Put a file of a partition there, with statistics if they are told."""
    bounds = {"minValues": {"id": min(ids)}, "maxValues": {"id": max(ids)}} if ids else {}
    stats = {"numRecords": len(ids), "nullCount": {"id": 0}, **bounds}
    table.file(
        name,
        pa.table({"id": pa.array(ids, pa.int64())}),
        partition={"kind": kind, "day": day},
        action={"stats": json.dumps(stats)} if told else None,
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
    made = new_table(tmp_path / "table")
    put(made, "a1", "a", "2026-01-01", [1, 2, 3])
    put(made, "a2", "a", "2026-01-01", [4, 5])
    put(made, "b1", "b", None, [6])
    put(made, "c1", None, "2026-01-02", [7, 8])
    return made


def test_partitions_are_typed_each_once_and_told_by_the_log(table):
    events = []
    scan = table.open(observer=events.append).scan()
    day = date(2026, 1, 1)
    assert partitions(scan) == [("a", day), ("b", None), (None, date(2026, 1, 2))]
    assert partitions(table.open(observer=events.append).scan("kind = 'a'")) == [("a", day)]
    assert files_read(events) == []
    assert scan.explain()["files"]["scanned"] == 4


def test_a_partition_of_which_all_rows_are_deleted_has_none(table):
    put(table, "d1", "d", "2026-01-03", [1, 2], vector=inline([0, 1]))
    put(table, "e1", "e", "2026-01-03", [1, 2], vector=inline([1]))
    events = []
    found = [kind for kind, _ in partitions(table.open(observer=events.append).scan())]
    assert found == ["a", "b", "e", None]
    assert files_read(events) == []


def test_files_without_rows_are_no_partition(table):
    put(table, "d1", "d", "2026-01-03", [])
    put(table, "e1", "e", "2026-01-03", [], told=False)
    assert [kind for kind, _ in partitions(table.open().scan())] == ["a", "b", None]


def test_without_statistics_one_file_of_each_partition_is_read(tmp_path):
    made = new_table(tmp_path / "table")
    for kind in "ab":
        for at in range(5):
            put(made, f"{kind}{at}", kind, None, [at], told=False)
    put(made, "b9", "b", None, [9])
    events = []
    assert partitions(made.open(observer=events.append).scan()) == [("a", None), ("b", None)]
    assert len(files_read(events)) == 1  # of `a`: the log tells of a row of `b`


def test_files_are_read_until_a_row_matches(tmp_path):
    made = new_table(tmp_path / "table")
    for at in range(8):
        put(made, f"a{at}", "a", None, [at, 100])
        put(made, f"b{at}", "b", None, [0, 100])
    scan = made.open().scan("id > 6 and id < 100")
    assert partitions(scan) == with_rows(scan) == [("a", None)]


def test_whole_files_that_match_are_told_by_their_bounds(table):
    events = []
    scan = table.open(observer=events.append).scan("id > 3 and id < 7")
    assert [kind for kind, _ in partitions(scan)] == ["a", "b"]
    assert files_read(events) == []


def test_more_files_than_are_held_at_once_are_read_on_the_way(table, monkeypatch):
    monkeypatch.setattr(module, "_PENDING_FILES", 2)
    monkeypatch.setattr(module, "_DISTINCT_AT_ONCE", 1)
    for at in range(9):
        put(table, f"z{at}", f"z{at % 4}", None, [at], told=at % 2 == 0)
    scan = table.open(batch_rows=2).scan("id != 3")
    assert partitions(scan) == with_rows(scan)


def test_what_is_held_grows_with_the_partitions_and_not_with_the_files(table, monkeypatch):
    monkeypatch.setattr(module, "_DISTINCT_AT_ONCE", 4)
    held, whole = [], module._distinct
    monkeypatch.setattr(module, "_distinct", lambda rows: held.append(rows.num_rows) or whole(rows))
    for at in range(40):
        put(table, f"z{at}", f"z{at % 2}", None, [at])
    assert len(partitions(table.open(batch_rows=1).scan())) == 5
    assert max(held) <= 2 * 5 + 1


def test_two_texts_of_one_value_are_one_partition(tmp_path):
    made = Rows(tmp_path / "table", [field("n", "integer"), field("id", "long")],
                partition_columns=["n"])  # fmt: skip
    for name, value in (("a", "1"), ("b", "01")):
        made.file(name, pa.table({"id": [1]}), partition={"n": value})
    assert made.open().scan().partition_values().to_pylist() == [{"n": 1}]


@pytest.mark.parametrize(("ids", "rows"), [([1], 1), ([], 0)])
def test_a_table_without_partition_columns_has_one_unless_it_has_no_rows(tmp_path, ids, rows):
    made = Rows(tmp_path / "table", [field("id", "long")])
    made.file("a", pa.table({"id": pa.array(ids, pa.int64())}))
    scan = made.open().scan()
    assert scan.partition_values().shape == (rows, 0)
    assert made.open().scan("id > 1").partition_values().shape == (0, 0)


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
def test_the_answer_is_that_of_the_rows(files, where, tmp_path_factory):
    made = new_table(tmp_path_factory.mktemp("random") / "table")
    for at, (kind, day, ids, told, gone) in enumerate(files):
        deleted = sorted(row for row in gone if row < len(ids))
        vector = inline(deleted) if deleted else None
        put(made, f"f{at}", kind, day, ids, told=told, vector=vector)
    scan = made.open().scan(where)
    assert partitions(scan) == with_rows(scan)
