"""NaN in filters: each engine returns the same rows as for its own in-memory data."""

from __future__ import annotations

import math

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds
import pytest

from lazydelta.interop import QueryBuilder, register_datafusion, to_pyarrow_dataset
from lazydelta.interop.float_semantics import with_nan_greatest
from tests.unit.scan.read.tables import Rows, field

datafusion = pytest.importorskip("datafusion")

NAN, INFINITY = math.nan, math.inf
F = [NAN, -0.0, 0.0, 1.5, None, INFINITY, -INFINITY, 2.0]
G = [NAN, 0.0, -0.0, NAN, NAN, 1.0, None, 2.0]
STRUCTS = [None if value is None else {"x": value} for value in F]
ROWS = pa.table(
    {"i": range(8), "f": F, "g": G, "h": pa.array(F, pa.float32()), "s": pa.array(STRUCTS)}
)
FIELDS = [
    field("i", "long"),
    field("f", "double"),
    field("g", "double"),
    field("h", "float"),
    field("s", {"type": "struct", "fields": [field("x", "double")]}),
]
CONDITIONS = [
    *(f"f {op} {value}" for op in ("=", "<>", "<", "<=", ">", ">=") for value in (0, 1.5, "{nan}")),
    *(f"f {op} g" for op in ("=", "<>", "<", "<=", ">", ">=")),
    "h > 1",
    "f > 'Infinity'",
    "not (f <= 1)",
    "not (f > 1 and i > 3)",
    "f > 1 or i = 1",
    "f not between 1 and 3",
    "f in (0.0, {nan})",
    "f not in (1.5, {nan})",
    "f in (1.0, 2.0, 3.0, 4.0, 5.0, 0.0)",
    "f is null",
    "f is not null and f > 0",
]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    made = Rows(tmp_path_factory.mktemp("nan") / "t", FIELDS)
    return made.file("f.parquet", ROWS, row_group_size=3).open()


@pytest.fixture(scope="module")
def own():
    """The same rows in each engine's own memory format."""
    context = datafusion.SessionContext()
    context.register_record_batches("t", [ROWS.to_batches()])
    connection = duckdb.connect()
    connection.register("t", ROWS)
    return {
        "datafusion": lambda sql: pa.table(context.sql(sql)),
        "duckdb": lambda sql: connection.sql(sql).to_arrow_table(),
    }


NAN_OF = {"datafusion": "arrow_cast('NaN', 'Float64')", "duckdb": "'NaN'::double"}


def numbers(found):
    return sorted(pa.table(found).column("i").to_pylist())


@pytest.mark.parametrize("engine", ["datafusion", "duckdb"])
@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_filter_keeps_the_semantics_of_its_engine(table, own, engine, condition):
    sql = f"select i from t where {condition.format(nan=NAN_OF[engine])}"
    found = QueryBuilder(engine).register("t", table).execute(sql)
    assert numbers(found) == numbers(own[engine](sql))


def test_a_field_in_a_struct(table, own):
    sql = "select i from t where s['x'] > 1"
    found = QueryBuilder("datafusion").register("t", table).execute(sql)
    assert numbers(found) == numbers(own["datafusion"](sql))


def test_a_context_of_the_caller(table, own):
    context = datafusion.SessionContext()
    register_datafusion(context, "t", table)
    sql = "select i from t where f > 1"
    assert numbers(context.sql(sql)) == numbers(own["datafusion"](sql)) == [0, 3, 5, 7]


def test_pyarrow_keeps_its_own_semantics(table):
    found = to_pyarrow_dataset(table).to_table(filter=pds.field("f") > 1)
    assert numbers(found) == [3, 5, 7]


def test_an_unknown_expression_is_unchanged():
    given = pc.field("f").cast(pa.int64()) > 1
    assert with_nan_greatest(given, ROWS.schema) is given
