"""Polars returns the rows of the scan, and reads no unnecessary file."""

from __future__ import annotations

import sys
import threading
import time

import pyarrow as pa
import pytest

from lazydelta import Table, write
from lazydelta.config import ReadOptions
from lazydelta.errors import MissingExtraError
from lazydelta.interop import scan_polars, to_polars
from tests.interop.tables import (
    DAY_2,
    ROWS,
    TIME_2,
    Watched,
    deltalake,
    rows_of_file,
    write_table,
    write_table_with_vectors,
)

pl = pytest.importorskip("polars", reason="pip install 'lazydelta[polars]' runs this")


def reading_threads():
    return [t for t in threading.enumerate() if t.name.startswith("lazydelta-read")]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_table(tmp_path_factory.mktemp("polars") / "table")


@pytest.fixture
def watched(path):
    return Watched(path)


@pytest.mark.parametrize(
    ("expression", "files"),
    [
        pytest.param(pl.col("id") < 250, 2, id="numbers"),
        pytest.param(pl.col("id").is_between(210, 215), 1, id="between"),
        pytest.param(pl.col("id").is_in([1, 1201]), 2, id="in"),
        pytest.param((pl.col("id") < 5) | (pl.col("id") > 1590), 2, id="or"),
        pytest.param(pl.col("part") == "p1", 2, id="partition"),
        pytest.param(pl.col("part").is_null(), 2, id="null-partition"),
        pytest.param(pl.col("day") == DAY_2, 1, id="date"),
        pytest.param(pl.col("at") >= TIME_2, 6, id="time"),
        pytest.param(pl.col("local") < TIME_2.replace(tzinfo=None), 2, id="local-time"),
        pytest.param(pl.col("nested").struct.field("x") == 777, 1, id="nested"),
        pytest.param((pl.col("id") < 5) & (pl.col("small") % 2 == 0), 1, id="half-translated"),
        pytest.param(pl.col("small") % 7 == 0, 8, id="not-translated"),
        pytest.param(pl.col("Mixed Case") == "name 3", 8, id="mixed-case"),
        pytest.param(pl.col("number") > 1500.0, 8, id="floats"),
        pytest.param(~pl.col("flag") & (pl.col("id") < 100), 1, id="not-boolean"),
    ],
)
def test_a_filter_is_exact_and_opens_few_files(watched, expression, files):
    whole = to_polars(watched.table)
    watched.opened()
    found = scan_polars(watched.table).filter(expression).collect()
    assert watched.opened() <= files
    expected = whole.filter(expression)
    assert expected.height > 0
    assert found.sort("id").equals(expected.sort("id"))


def test_the_rows_equal_those_of_the_scan(watched):
    expected = pl.from_arrow(watched.table.scan().to_arrow())
    assert to_polars(watched.table).sort("id").equals(expected.sort("id"))
    some = watched.table.scan(where="part = 'p1'", columns=["id"])
    assert to_polars(some).columns == ["id"]
    assert to_polars(some).height == 2 * ROWS


def test_columns_are_pushed_down(watched, monkeypatch):
    seen = []
    original = Table.scan(watched.table).__class__.to_batches

    def to_batches(scan, options=None):
        seen.append(scan.columns)
        return original(scan, options)

    monkeypatch.setattr(Table.scan(watched.table).__class__, "to_batches", to_batches)
    lazy = scan_polars(watched.table)
    lazy.filter(pl.col("small") == 3).select("Mixed Case").collect()
    assert set(seen[-1]) == {"Mixed Case", "small"}


def test_head_reads_one_file(watched):
    lazy = scan_polars(watched.table, ReadOptions(files_at_once=1))
    assert lazy.head(5).collect().height == 5
    assert watched.opened() == 1


def test_a_filter_after_head_sees_only_the_head(watched):
    lazy = scan_polars(watched.table.scan(), ReadOptions(ordered=True))
    head = lazy.head(50).select("id").collect()
    found = lazy.head(50).filter(pl.col("id") % 2 == 0).select("id").collect()
    assert found.height == head.filter(pl.col("id") % 2 == 0).height == 25


def test_head_after_a_filter_stops_early(path):
    watched = Watched(path)
    lazy = scan_polars(watched.table, ReadOptions(files_at_once=1, memory_limit=0))
    assert lazy.filter(pl.col("small") % 2 == 0).head(5).collect().height == 5
    assert watched.opened() < 8
    # Polars releases an unfinished source only at one of its next calls.
    deadline = time.monotonic() + 5
    while reading_threads() and time.monotonic() < deadline:
        pl.LazyFrame({"a": [1]}).collect()
        time.sleep(0.02)
    assert not reading_threads()


def test_counting(watched):
    assert scan_polars(watched.table).select(pl.len()).collect().item() == 8 * ROWS
    found = scan_polars(watched.table).filter(pl.col("id") < 9).select(pl.len()).collect()
    assert found.item() == 9


def test_joins_and_groups(watched):
    lazy = scan_polars(watched.table)
    words = pl.LazyFrame({"id": [1, 2], "word": ["one", "two"]})
    joined = lazy.join(words, on="id").select("id", "word").sort("id").collect()
    assert joined.rows() == [(1, "one"), (2, "two")]
    groups = lazy.group_by("part").agg(pl.len()).collect()
    assert dict(groups.rows()) == {None: 400, "p0": 400, "p1": 400, "p2": 400}


def test_extra_columns(watched):
    lazy = scan_polars(watched.table, ReadOptions(file_column_name="file"))
    assert lazy.select("file").unique().collect().height == 8
    one = next(watched.table.scan().files()).path
    assert lazy.filter(pl.col("file") == one).select("id").collect().height == ROWS


def test_deleted_rows_stay_deleted(tmp_path):
    left = write_table_with_vectors(tmp_path / "table")
    lazy = scan_polars(Table.open(tmp_path / "table"))
    assert sorted(lazy.select("id").collect()["id"].to_list()) == left
    found = lazy.filter(pl.col("id") < 10).select("id").collect()
    assert sorted(found["id"].to_list()) == [1, 2, 4, 5, 7, 8]


def test_an_empty_table(tmp_path):
    path = str(tmp_path / "table")
    deltalake.write_deltalake(path, rows_of_file(0).slice(0, 0))
    frame = to_polars(Table.open(path))
    assert frame.height == 0
    assert frame.columns == rows_of_file(0).column_names


def test_polars_is_not_installed(watched, monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(MissingExtraError, match=r"lazydelta\[polars\]"):
        scan_polars(watched.table)


def test_floats_are_compared_as_floats(tmp_path):
    """Polars serializes a float32 constant as its shortest decimal."""
    values = [0.1, 0.7]
    for value in values:
        rows = pa.table({"f": pa.array([value], pa.float32())})
        rows = rows.append_column("s", pa.StructArray.from_arrays([rows["f"].chunk(0)], ["g"]))
        write(tmp_path / "t", rows, mode="append")
    frame = Table.open(tmp_path / "t").scan_polars()
    whole = frame.collect()
    for column in (pl.col("f"), pl.col("s").struct.field("g")):
        for condition in (
            column == 0.1, column <= 0.1, column >= 0.7, column != 0.1, ~(column != 0.1),
            column.is_in([0.1]), column.is_between(0.1, 0.7), column < 0.7,
        ):  # fmt: skip
            found = frame.filter(condition).collect().sort("f")
            assert found.equals(whole.filter(condition).sort("f")), condition
