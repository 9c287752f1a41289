"""Counts, minima and maxima from the log match the rows, and few files are opened."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lazydelta import Config, Table, col
from lazydelta.errors import ColumnNotFoundError, ConfigError, SchemaError
from lazydelta.metrics import StoreCalled
from lazydelta.scan.aggregates.count_min_max import count, min_max
from tests.unit.scan.read.tables import Rows, field, inline

deltalake = pytest.importorskip(
    "deltalake", reason="deltalake writes the tables: pip install -r requirements/test.txt"
)

ROWS = 100


def rows_of_file(at):
    ids = list(range(at * ROWS, (at + 1) * ROWS))
    start = pa.scalar(1_767_225_600_000_000 + at * 86_400_000_000, pa.int64())
    micros = pc.add(pa.array(range(ROWS), pa.int64()), start)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "text": [f"{'long prefix ' * 6}{i:05}" for i in ids],
            "number": pa.array([float(i) for i in ids]),
            "price": pa.array([Decimal(i).scaleb(-2) for i in ids], pa.decimal128(10, 2)),
            "wide": pa.array([Decimal(10**25 + i) for i in ids], pa.decimal128(30, 0)),
            "at": micros.cast(pa.timestamp("us", "UTC")),
            "day": pa.array([date(2026, 1, 1 + at)] * ROWS),
            "flag": pa.array([i % 2 == 0 for i in ids]),
            "none": pa.nulls(ROWS, pa.int32()),
            "some": pa.array([i if i % 3 else None for i in ids], pa.int32()),
            "nested": [{"x": i} for i in ids],
            "part": pa.array([at % 2] * ROWS, pa.int32()),
        }
    )


class Watched:
    def __init__(self, path):
        self.events = []
        self.table = Table.open(path, config=Config(observer=self.events.append))

    def opened(self):
        found = {
            event.path
            for event in self.events
            if isinstance(event, StoreCalled)
            and event.path.endswith(".parquet")
            and not event.path.startswith("_delta_log/")
        }
        self.events.clear()
        return len(found)


def write(path, files=5, **settings):
    for at in range(files):
        deltalake.write_deltalake(
            path, rows_of_file(at), mode="append", partition_by=["part"], **settings
        )
    return str(path)


@pytest.fixture(scope="module", params=["commits", "checkpoint"])
def path(request, tmp_path_factory):
    found = write(tmp_path_factory.mktemp("answers") / "table")
    if request.param == "checkpoint":
        deltalake.DeltaTable(found).create_checkpoint()
    return found


@pytest.fixture
def watched(path):
    return Watched(path)


def without_stats(path, *files):
    """Remove the statistics from all or some commits of a table."""
    for commit in sorted(Path(path, "_delta_log").glob("*.json")):
        if files and int(commit.stem) not in files:
            continue
        lines = [json.loads(line) for line in commit.read_text().splitlines()]
        for line in lines:
            if "add" in line:
                line["add"].pop("stats", None)
        commit.write_text("\n".join(map(json.dumps, lines)))


# --- count --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "files"),
    [
        pytest.param(None, 0, id="all"),
        pytest.param("part = 1", 0, id="a-partition"),
        pytest.param("part = 1 or part = 0", 0, id="all-partitions"),
        pytest.param("part is null", 0, id="no-partition"),
        pytest.param("id >= 100", 0, id="whole-files"),
        pytest.param("id < 150", 1, id="part-of-one-file"),
        pytest.param("part = 0 and id < 450", 1, id="partition-and-part-of-a-file"),
        pytest.param("id != 250", 1, id="not-equal"),
        pytest.param("id in (1, 2, 3)", 1, id="in"),
        pytest.param("some > 0", 5, id="nulls-do-not-match"),
        pytest.param("some is null", 5, id="is-null"),
        pytest.param("none is null", 5, id="all-null"),
        pytest.param("some is not null or id >= 0", 5, id="or"),
        pytest.param("day <= '2026-01-02'", 0, id="dates"),
        pytest.param("nested.x < 150", 2, id="nested"),
        pytest.param("id + 1 > 100", 5, id="arithmetic"),
        pytest.param("id > 1000", 0, id="nothing"),
        pytest.param("text like 'long%'", 5, id="text"),
    ],
)
def test_count(watched, where, files):
    scan = watched.table.scan(where)
    expected = scan.to_arrow().num_rows
    watched.opened()
    assert count(scan) == expected
    assert watched.opened() <= files


def test_count_up_to_a_limit(watched):
    assert count(watched.table.scan(limit=7)) == 7
    assert count(watched.table.scan(limit=0)) == 0
    assert count(watched.table.scan(limit=10_000)) == 5 * ROWS
    assert watched.opened() == 0
    assert count(watched.table.scan("id < 150", limit=120)) == 120


def test_count_reads_only_the_footers_that_it_must(tmp_path):
    path = write(tmp_path / "table")
    without_stats(path, 2)
    watched = Watched(path)
    assert count(watched.table.scan()) == 5 * ROWS
    assert watched.opened() == 1
    assert count(watched.table.scan("part = 1")) == 2 * ROWS
    assert watched.opened() == 0


def deleted_rows_table(path, *, stats=True):
    """Write three files of 100 rows; vectors delete 0 to 9, nothing, and 281 to 299."""
    made = Rows(path, [field("id", "long")], features=("deletionVectors",))
    for start, deleted in ((0, range(10)), (100, ()), (200, range(81, 100))):
        ids = pa.table({"id": pa.array(range(start, start + 100), pa.int64())})
        stats_json = {
            "numRecords": 100,
            "minValues": {"id": start},
            "maxValues": {"id": start + 99},
            "nullCount": {"id": 0},
        }
        made.file(
            f"{start}.parquet",
            ids,
            vector=inline(list(deleted)) if deleted else None,
            action={"stats": json.dumps(stats_json)} if stats else None,
        )
    made.commit()
    return Watched(path)


def test_count_subtracts_deleted_rows(tmp_path):
    watched = deleted_rows_table(tmp_path / "table")
    assert count(watched.table.scan()) == 271
    assert watched.opened() == 0
    assert count(watched.table.scan("id < 160")) == 150
    assert watched.opened() == 1  # all live rows of the first file match
    assert count(watched.table.scan("id < 5")) == 0


def test_count_subtracts_deleted_rows_without_statistics(tmp_path):
    watched = deleted_rows_table(tmp_path / "table", stats=False)
    assert count(watched.table.scan()) == 271
    assert count(watched.table.scan("id >= 200")) == 81


def test_count_ignores_a_negative_row_count(tmp_path):
    path = write(tmp_path / "table", files=1)
    commit = Path(path, "_delta_log", f"{0:020}.json")
    lines = [json.loads(line) for line in commit.read_text().splitlines()]
    for line in lines:
        if "add" in line:
            stats = json.loads(line["add"]["stats"])
            line["add"]["stats"] = json.dumps(stats | {"numRecords": -3})
    commit.write_text("\n".join(map(json.dumps, lines)))
    watched = Watched(path)
    assert count(watched.table.scan()) == ROWS
    assert watched.opened() == 1


# --- minimum and maximum ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "files"),
    [
        ("id", 0),
        ("price", 0),
        ("day", 0),
        ("part", 0),
        ("none", 0),
        ("some", 0),
        ("at", 4),  # bounds are truncated to milliseconds
        ("text", 5),  # and strings to a prefix
        ("number", 5),  # and do not cover NaN
        ("wide", 5),
        ("flag", 5),
    ],
)
@pytest.mark.parametrize("where", [None, "part = 1", "id < 250", "id >= 1000"])
def test_min_max(watched, column, files, where):
    scan = watched.table.scan(where)
    expected = pc.min_max(scan.to_arrow()[column])
    watched.opened()
    found = min_max(scan, column)
    assert found == (expected["min"].as_py(), expected["max"].as_py())
    assert watched.opened() <= (files if where != "id < 250" else 5)


def test_min_max_reads_only_files_that_may_change_the_result(tmp_path):
    watched = Watched(write(tmp_path / "table", files=16))
    found = min_max(watched.table.scan(), "at")
    assert found.min < found.max
    assert watched.opened() < 16


@pytest.mark.parametrize("stats", [True, False])
def test_min_max_ignores_deleted_rows(tmp_path, stats):
    watched = deleted_rows_table(tmp_path / "table", stats=stats)
    found = min_max(watched.table.scan(), "id")
    assert (found.min, found.max) == (10, 280)
    assert watched.opened() == (2 if stats else 3)
    found = min_max(watched.table.scan("id < 5"), "id")
    assert (found.min, found.max) == (None, None)


def test_min_max_without_statistics(tmp_path):
    path = write(tmp_path / "table")
    without_stats(path, 0, 2)
    watched = Watched(path)
    found = min_max(watched.table.scan(), "id")
    assert (found.min, found.max) == (0, 499)
    assert watched.opened() == 2


def test_nan_is_the_greatest(tmp_path):
    path = str(tmp_path / "table")
    deltalake.write_deltalake(path, pa.table({"x": [1.0, math.nan, None]}))
    deltalake.write_deltalake(path, pa.table({"x": [-1.0, math.inf]}), mode="append")
    found = min_max(Table.open(path).scan(), "x")
    assert found.min == -1.0
    assert math.isnan(found.max)
    only = str(tmp_path / "only")
    deltalake.write_deltalake(only, pa.table({"x": [math.nan]}))
    assert math.isnan(min_max(Table.open(only).scan(), "x").min)


def test_wide_bounds_are_not_values(tmp_path):
    path = write(tmp_path / "table", files=2)
    commit = Path(path, "_delta_log", f"{0:020}.json")
    lines = [json.loads(line) for line in commit.read_text().splitlines()]
    for line in lines:
        if "add" in line:
            stats = json.loads(line["add"]["stats"])
            stats["minValues"]["id"] = -50
            line["add"]["stats"] = json.dumps(stats | {"tightBounds": False})
    commit.write_text("\n".join(map(json.dumps, lines)))
    assert min_max(Table.open(path).scan(), "id").min == 0


def test_min_max_are_python_values(tmp_path):
    values = {
        "Day": [date(2026, 1, 1), date(2026, 1, 2)],
        "at": [datetime(2026, 1, 1, 12, tzinfo=UTC), datetime(2026, 1, 2, 12, tzinfo=UTC)],
        "fare": [Decimal("1.50"), Decimal("2.50")],
        "name": ["a", "b"],
    }
    path = str(tmp_path / "table")
    deltalake.write_deltalake(path, pa.table(values))
    scan = Table.open(path).scan()
    for name, (low, high) in values.items():
        assert scan.min_max(name) == (low, high)
        assert scan.min_max(name.upper()) == (low, high)
    assert Table.open(path).scan("name = 'c'").min_max("Day") == (None, None)


def test_a_minimum_that_python_cannot_represent(tmp_path):
    path = str(tmp_path / "table")
    days = pa.array([3_000_000, 4_000_000], pa.int32()).cast(pa.date32())
    deltalake.write_deltalake(path, pa.table({"d": days}))
    with pytest.raises(SchemaError, match="column 'd'"):
        Table.open(path).scan().min_max("d")


def test_min_max_refuses_unordered_columns_and_limits(watched):
    with pytest.raises(ColumnNotFoundError, match="nope"):
        min_max(watched.table.scan(), "nope")
    with pytest.raises(SchemaError, match="nested"):
        min_max(watched.table.scan(), "nested")
    with pytest.raises(ConfigError, match="limit"):
        min_max(watched.table.scan(limit=3), "id")


# --- NULL among the constants of a predicate: no row is certain to match


@pytest.fixture
def two(tmp_path):
    made = Rows(tmp_path / "t", [field("i", "long"), field("p", "string")], partition_columns=["p"])
    for name, numbers in (("a", [1, 5]), ("b", [7])):
        bounds = {"minValues": {"i": numbers[0]}, "maxValues": {"i": numbers[-1]}}
        stats = {"numRecords": len(numbers), **bounds, "nullCount": {"i": 0}}
        action = {"stats": json.dumps(stats)}
        rows = pa.table({"i": numbers})
        made.file(f"{name}.parquet", rows, partition={"p": name}, action=action)
    return made.open()


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("i in (1, null)", [1]),
        ("i in (3, null)", []),
        ("i = 1 or null", [1]),
        ("i = 1 or i > null", [1]),
        ("p = 'a' and (i = 1 or null)", [1]),
        ("not (i in (1, null))", []),
        (col("i").isin([1, None]), [1]),
        ({"i": [1, None]}, [1]),
    ],
)
def test_null_among_constants(two, where, expected):
    scan = two.scan(where)
    assert scan.to_arrow()["i"].to_pylist() == expected
    assert scan.count() == len(expected)
    bounds = list(scan.min_max("i"))
    assert bounds == ([min(expected), max(expected)] if expected else [None, None])
    assert scan.partition_values()["p"].to_pylist() == ["a"] * bool(expected)


def test_a_limit_above_64_bits(two):
    assert two.scan(limit=2**80).to_arrow().num_rows == 3
    assert len(list(two.scan().files(2**63))) == 2
