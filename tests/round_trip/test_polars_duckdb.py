"""Polars reads our tables, and DuckDB reads our data files.

Polars reads the log with deltalake, and files and statistics itself. DuckDB's Delta reader is an
extension that it downloads, so here it reads the data files only.
"""

from __future__ import annotations

import pytest

from tests.round_trip.shapes import SHAPES
from tests.round_trip.table_model import OPERATORS, TableModel, assert_rows, conditions

POLARS = [
    "unpartitioned", "partitioned-by-string", "partitioned-by-times", "all-types", "change-feed",
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
def test_polars_reads_every_version(tmp_path, name):
    pl = pytest.importorskip("polars")
    pytest.importorskip("deltalake")
    model = TableModel.written(name, tmp_path)
    for version, rows in model.versions.items():
        assert_rows(pl.scan_delta(model.path, version=version).collect().to_arrow(), rows)


@pytest.mark.parametrize(("name", "feature"), REFUSED.items())
def test_tables_that_polars_cannot_read(tmp_path, name, feature):
    pl = pytest.importorskip("polars")
    pytest.importorskip("deltalake")
    model = TableModel.written(name, tmp_path)
    with pytest.raises(Exception, match=feature):
        pl.scan_delta(model.path).collect()


@pytest.mark.parametrize("name", ["unpartitioned", "partitioned-by-string", "overwritten"])
def test_polars_data_skipping_loses_no_row(tmp_path, name):
    pl = pytest.importorskip("polars")
    pytest.importorskip("deltalake")
    model = TableModel.written(name, tmp_path)
    frame = pl.scan_delta(model.path)
    for condition in conditions(model.rows):
        column = pl.col(condition.column)
        if condition.operator == "is null":
            wanted = column.is_null()
        else:
            wanted = OPERATORS[condition.operator](column, condition.value)
        expected = [row for row in model.rows if condition.holds(row)]
        assert_rows(frame.filter(wanted).collect().to_arrow(), expected)


@pytest.mark.parametrize("name", UNPARTITIONED)
def test_duckdb_reads_our_files(tmp_path, name):
    duckdb = pytest.importorskip("duckdb")
    model = TableModel.written(name, tmp_path)
    found = (
        duckdb.connect()
        .read_parquet([file.uri for file in model.table.scan().files()])
        .to_arrow_table()
    )
    assert_rows(found, model.rows)
