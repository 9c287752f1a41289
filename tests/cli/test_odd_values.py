"""Unusual values: extreme timestamps, and types that a Parquet file cannot hold."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from lazydelta.cli import column_formats
from tests.cli.support import run
from tests.unit.scan.read.tables import Rows, field

YEAR_10_000 = 253_402_300_800  # seconds
FAR = {
    "s": (YEAR_10_000, "+10000-01-01T00:00:00"),
    "ms": (YEAR_10_000 * 1000 + 5, "+10000-01-01T00:00:00.005"),
    "us": (2**62, "+148108-07-06T14:00:27.387904"),
}


@pytest.mark.parametrize("unit", FAR)
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_years_beyond_9999_are_written_as_spark_writes_them(unit, zone):
    number, expected = FAR[unit]
    times = pa.array([number, None, 0], pa.int64()).view(pa.timestamp(unit, zone))
    digits = {"s": "", "ms": ".000", "us": ".000000"}[unit]
    end = "" if zone is None else "Z"
    near = f"1970-01-01T00:00:00{digits}{end}"
    assert column_formats.iso(times).to_pylist() == [expected + end, None, near]
    assert column_formats.iso(times[1:]).to_pylist() == [None, near]


def test_years_before_the_first():
    times = pa.array([-(2**62)], pa.int64()).view(pa.timestamp("us"))
    assert column_formats.iso(times).to_pylist() == ["-144169-06-28T09:59:32.612096"]


def test_dates_of_every_year():
    days = pa.array([2_932_897, None, 2**31 - 1, 0], pa.int32()).view(pa.date32())
    shown = column_formats.to_string(days).to_pylist()
    assert shown == ["+10000-01-01", None, "+5881580-07-11", "1970-01-01"]
    assert column_formats.to_string(days[3:]).to_pylist() == ["1970-01-01"]


@pytest.fixture
def table(tmp_path):
    made = Rows(tmp_path / "t", [field("id", "long"), field("at", "timestamp")])
    times = pa.array([2**62], pa.int64()).view(pa.timestamp("us", "UTC"))
    made.file("f.parquet", pa.table({"id": [1], "at": times}))
    return made.commit().path


def test_a_timestamp_after_9999_in_a_table(table):
    found = json.loads(run("head", table, "--json").stdout)
    assert found == {"id": 1, "at": "+148108-07-06T14:00:27.387904Z"}


def test_unsupported_parquet_types_are_named_and_leave_no_file(table, tmp_path):
    out = tmp_path / "out.parquet"
    sql = "select interval 1 day as i from t"
    found = run("sql", sql, "--table", f"t={table}", "--parquet", out)
    assert found.exit_code == 1
    assert found.stderr.startswith("error: --parquet: a column does not fit")
    assert "unexpected" not in found.stderr
    assert not out.exists()


@pytest.mark.parametrize(
    ("columns", "found"),
    [
        ("id,`a,b`", {"id": 1, "a,b": 2}),
        (" `c``d` , id ", {"c`d": 3, "id": 1}),
        ("e f", {"e f": 4}),
    ],
)
def test_columns_with_any_name(tmp_path, columns, found):
    names = ["id", "a,b", "c`d", "e f"]
    made = Rows(tmp_path / "t", [field(name, "long") for name in names])
    made.file("f.parquet", pa.table({name: [at] for at, name in enumerate(names, 1)})).commit()
    shown = json.loads(run("head", made.path, "--json", "--columns", columns).stdout)
    assert list(shown.items()) == list(found.items())


@pytest.mark.parametrize("columns", ["", ",", "id,", "`id", "a`b", "``"])
def test_invalid_column_lists(tmp_path, columns):
    found = run("head", tmp_path, "--columns", columns)
    assert found.exit_code == 2
    assert "expected names separated by commas" in found.stderr
