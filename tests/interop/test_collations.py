"""Columns with a collation: engines compare them by their own rules, and we leave them to it."""

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
    """Three files with the same text in a column and in a partition column."""
    texts = [field(name, "string") | COLLATED for name in ("s", "p")]
    made = Rows(tmp_path / "t", [field("i", "long"), *texts], partition_columns=["p"])
    for at, value in enumerate(["A", "a", "b"]):
        rows = pa.table({"i": [at], "s": [value]})
        made.file(f"{at}.parquet", rows, partition={"p": value})
    return made.open()


@pytest.mark.parametrize("column", ["s", "p"])
def test_engines_filter_by_their_own_rules(table, column):
    for engine in ("duckdb", "datafusion"):
        sql = f"select i from t where {column} = 'A'"
        found = QueryBuilder(engine).register("t", table).execute(sql).read_all()
        assert found.to_pydict() == {"i": [0]}, engine
    lazy = scan_polars(table).filter(pl.col(column) == "A").select("i").collect()
    assert lazy.to_dicts() == [{"i": 0}]
    dataset = to_pyarrow_dataset(table).to_table(filter=pds.field(column) == "A")
    assert dataset.column("i").to_pylist() == [0]


@pytest.mark.parametrize("column", ["s", "p"])
def test_our_own_predicates_refuse_what_they_would_get_wrong(table, column):
    with pytest.raises(PredicateError, match="collation"):
        table.scan(f"{column} = 'A'").to_arrow()
    assert table.scan(f"{column} is not null").count() == 3
