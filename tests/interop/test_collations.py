"""Columns with a collation: engines compare them as plain strings, and nothing is pruned."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pyarrow.dataset as pds
import pytest

from lazydelta.errors import PredicateError
from lazydelta.interop import QueryBuilder, scan_polars, to_pyarrow_dataset
from tests.unit.scan.read.tables import Rows, field

COLLATED = {"metadata": {"__COLLATIONS": {"any": "spark.UTF8_LCASE"}}}


@pytest.fixture
def table(tmp_path):
    """Three files with the same string in a column and in a partition column."""
    collated = [field(name, "string") | COLLATED for name in ("s", "p")]
    made = Rows(tmp_path / "t", [field("i", "long"), *collated], partition_columns=["p"])
    for at, value in enumerate(["A", "a", "b"]):
        rows = pa.table({"i": [at], "s": [value]})
        made.file(f"{at}.parquet", rows, partition={"p": value})
    return made.open()


@pytest.mark.parametrize("column", ["s", "p"])
def test_engines_filter_with_their_own_semantics(table, column):
    for engine in ("duckdb", "datafusion"):
        sql = f"select i from t where {column} = 'A'"
        found = QueryBuilder(engine).register("t", table).execute(sql).read_all()
        assert found.to_pydict() == {"i": [0]}, engine
    lazy = scan_polars(table).filter(pl.col(column) == "A").select("i").collect()
    assert lazy.to_dicts() == [{"i": 0}]
    dataset = to_pyarrow_dataset(table).to_table(filter=pds.field(column) == "A")
    assert dataset.column("i").to_pylist() == [0]


@pytest.mark.parametrize("column", ["s", "p"])
def test_predicates_reject_columns_with_a_collation(table, column):
    with pytest.raises(PredicateError, match="collation"):
        table.scan(f"{column} = 'A'").to_arrow()
    assert table.scan(f"{column} is not null").count() == 3
