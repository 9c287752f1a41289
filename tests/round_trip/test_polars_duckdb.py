"""Tables that we write, as Polars reads them, and our data files, as DuckDB reads them.

Polars takes the log from deltalake, and reads the files and their statistics itself. DuckDB's own
reader of tables is an extension that is fetched from the network, so it gets the files alone.
"""

from __future__ import annotations

import pytest

from tests.round_trip.shapes import SHAPES
from tests.round_trip.story import OPERATORS, Story, assert_rows, conditions

POLARS = [
    "unpartitioned", "partitioned-by-text", "partitioned-by-times", "all-types", "change-feed",
    "schema-merge", "overwritten", "timestamp-ntz", "rules", "statistics-of-none",
]  # fmt: skip
REFUSED = {"column-mapping": "column mapping", "v2-checkpoint": "v2Checkpoint"}
"""What Polars does not read, by the feature that it names."""
UNPARTITIONED = [
    name
    for name, shape in SHAPES.items()
    if not shape.partition_by and name in ("unpartitioned", "all-types", "rules")
]


@pytest.mark.parametrize("name", POLARS)
def test_polars_reads_every_version_equal(tmp_path, name):
    pl = pytest.importorskip("polars")
    pytest.importorskip("deltalake")
    story = Story.told(name, tmp_path)
    for version, rows in story.versions.items():
        assert_rows(pl.scan_delta(story.path, version=version).collect().to_arrow(), rows)


@pytest.mark.parametrize(("name", "feature"), REFUSED.items())
def test_what_polars_cannot_read_it_refuses_by_name(tmp_path, name, feature):
    pl = pytest.importorskip("polars")
    pytest.importorskip("deltalake")
    story = Story.told(name, tmp_path)
    with pytest.raises(Exception, match=feature):
        pl.scan_delta(story.path).collect()


@pytest.mark.parametrize("name", ["unpartitioned", "partitioned-by-text", "overwritten"])
def test_polars_skips_by_our_statistics_and_loses_no_row(tmp_path, name):
    pl = pytest.importorskip("polars")
    pytest.importorskip("deltalake")
    story = Story.told(name, tmp_path)
    frame = pl.scan_delta(story.path)
    for condition in conditions(story.rows):
        column = pl.col(condition.column)
        if condition.operator == "is null":
            wanted = column.is_null()
        else:
            wanted = OPERATORS[condition.operator](column, condition.value)
        expected = [row for row in story.rows if condition.holds(row)]
        assert_rows(frame.filter(wanted).collect().to_arrow(), expected)


@pytest.mark.parametrize("name", UNPARTITIONED)
def test_duckdb_reads_our_files(tmp_path, name):
    duckdb = pytest.importorskip("duckdb")
    story = Story.told(name, tmp_path)
    found = (
        duckdb.connect()
        .read_parquet([file.uri for file in story.table.scan().files()])
        .to_arrow_table()
    )
    assert_rows(found, story.rows)
