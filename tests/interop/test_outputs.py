"""Every source of rows has the same outputs, and each output returns the same rows."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds
import pytest

from lazydelta import Config, QueryBuilder, ReadOptions, Table, interop
from lazydelta.errors import ConfigError, MissingExtraError, SchemaError
from lazydelta.outputs import Adapters
from tests.interop.tables import ROWS, canonical, deltalake, rows_of_file, write_table

FILES = 4


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("outputs") / "table"
    deltalake.write_deltalake(
        path,
        rows_of_file(0).slice(0, 0),
        partition_by=["part"],
        configuration={"delta.enableChangeDataFeed": "true"},
    )
    return write_table(path, files=FILES)


SOURCES = {
    "table": lambda table: table,
    "snapshot": lambda table: table.snapshot(),
    "scan": lambda table: table.scan(where="id < 350"),
    "changes": lambda table: table.changes(starting_version=2, ending_version=3),
}


@pytest.fixture(params=SOURCES)
def source(request, path):
    return SOURCES[request.param](Table.open(path))


def needs(engine):
    return pytest.importorskip(engine, reason=f"pip install 'lazydelta[{engine}]' runs this")


def duckdb_rows(source, options):
    needs("duckdb")
    relation = source.to_duckdb(options=options)
    return (getattr(relation, "to_arrow_table", None) or relation.fetch_arrow_table)()


def datafusion_rows(source, options):
    context = needs("datafusion").SessionContext()
    assert "pyarrow dataset" in source.register(context, "Rows", options)
    return context.sql('select * from "Rows"').to_arrow_table()


def pandas_rows(source, options):
    needs("pandas")
    return pa.Table.from_pandas(source.to_pandas(options), preserve_index=False)


OUTPUTS = {
    "reader": lambda source, options: source.to_reader(options).read_all(),
    "pandas": pandas_rows,
    "polars": lambda source, options: needs("polars") and source.to_polars(options).to_arrow(),
    "lazy-polars": lambda source, options: (
        needs("polars") and source.scan_polars(options).collect().to_arrow()
    ),
    "dataset": lambda source, options: source.to_pyarrow_dataset(options).to_table(),
    "duckdb": duckdb_rows,
    "datafusion": datafusion_rows,
}


@pytest.mark.parametrize("output", OUTPUTS)
def test_an_output_returns_the_rows(source, output):
    expected = source.to_arrow()
    # Types with one representation: data frames convert lists, and numbers with nulls.
    chosen = ["id", "Mixed Case", "price", "day", "part"]
    found = OUTPUTS[output](source, None).select(chosen)
    expected = expected.select(chosen)
    assert found.num_rows == expected.num_rows >= 350
    assert canonical(found.cast(expected.schema)) == canonical(expected)


@pytest.mark.parametrize("output", OUTPUTS)
def test_an_output_has_the_requested_schema(source, output):
    wanted = pa.schema([("part", pa.string()), ("later", pa.int8()), ("small", pa.int64())])
    found = OUTPUTS[output](source, ReadOptions(schema=wanted))
    assert found.schema.names == wanted.names
    whole = source.to_arrow()
    assert sorted(found["small"].to_pylist()) == sorted(whole["small"].to_pylist())
    assert sorted(map(str, found["part"].to_pylist())) == sorted(
        map(str, whole["part"].to_pylist())
    )
    assert found["later"].null_count == whole.num_rows


@pytest.mark.parametrize("output", OUTPUTS)
def test_an_output_has_dictionaries_and_views(source, output):
    options = ReadOptions(wrap_partition_values=True, schema_force_view_types=True)
    found = OUTPUTS[output](source, options).select(["id", "part", "Mixed Case"])
    plain = source.to_arrow().select(["id", "part", "Mixed Case"])
    assert canonical(found.cast(plain.schema)) == canonical(plain)
    if output in ("reader", "pandas", "polars", "lazy-polars", "dataset", "datafusion"):
        assert pa.types.is_dictionary(found.schema.field("part").type)
    if output == "reader":  # the others have one string type
        assert found.schema.field("Mixed Case").type == pa.string_view()


def test_a_source_is_an_arrow_stream(source):
    assert pa.table(source).num_rows == source.to_arrow().num_rows


@pytest.mark.parametrize(
    ("package", "call"),
    [
        pytest.param("pandas", lambda source: source.to_pandas(), id="pandas"),
        pytest.param("polars", lambda source: source.to_polars(), id="polars"),
        pytest.param("polars", lambda source: source.scan_polars(), id="lazy-polars"),
        pytest.param("duckdb", lambda source: source.to_duckdb(), id="duckdb"),
        pytest.param("datafusion", lambda source: source.register(None, "t"), id="datafusion"),
    ],
)
def test_a_missing_package_is_named(source, monkeypatch, package, call):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"pip install 'lazydelta\[{package}\]'"):
        call(source)


_READ = """
import sys
import lazydelta as ld
assert ld.Table.open(sys.argv[1]).to_arrow().num_rows
print([name for name in ("lazydelta.interop", "pyarrow.dataset", "polars", "duckdb", "datafusion")
       if name in sys.modules])
"""


def test_reading_rows_as_arrow_loads_no_adapter(path):
    done = subprocess.run(
        [sys.executable, "-c", _READ, path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


# --- options: the Config's, the scan's, the call's --------------------------------------------------


def test_options_of_a_call_override_those_of_the_scan_and_the_config(path):
    table = Table.open(path, config=Config(read=ReadOptions(file_column_name="from config")))
    assert "from config" in table.to_arrow().schema.names
    scan = table.scan(options=ReadOptions(file_column_name="from scan"))
    assert scan.to_arrow().schema.names[-1] == "from scan"
    assert pa.table(scan).schema.names[-1] == "from scan"
    called = ReadOptions(file_column_name="from call")
    assert scan.to_arrow(called).schema.names[-1] == "from call"
    dataset = scan.to_pyarrow_dataset()
    assert dataset.schema.names[-1] == "from scan"
    assert dataset.to_table(columns=["from scan"]).num_rows == FILES * ROWS
    assert scan.narrowed(limit=1).to_arrow().schema.names[-1] == "from scan"


def test_changes_omit_the_extra_columns_of_the_config(path):
    table = Table.open(path, config=Config(read=ReadOptions(file_column_name="file")))
    assert "file" not in table.changes(starting_version=1).schema.names
    with pytest.raises(ConfigError, match="file_column_name"):
        table.changes(options=ReadOptions(file_column_name="file"))


# --- filters over a requested schema -----------------------------------------------------------------


@pytest.fixture
def requested_schema():
    schema = pa.schema(
        [("id", pa.decimal128(20, 0)), ("part", pa.string()), ("day", pa.timestamp("us")),
         ("later", pa.string()), ("number", pa.float64())]
    )  # fmt: skip
    return ReadOptions(schema=schema, wrap_partition_values=True)


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        pytest.param("id < 7", 7, id="a-wider-type"),
        pytest.param("part = 'p1' and id >= 0", ROWS, id="a-dictionary"),
        pytest.param("part like 'p%' and part in ('p1', 'p2')", 2 * ROWS, id="functions"),
        pytest.param("day = timestamp '2026-01-03 00:00:00'", ROWS, id="a-date-as-a-time"),
        pytest.param("later is null and id = 3", 1, id="a-column-that-is-not-there"),
        pytest.param("later = 'x'", 0, id="a-value-of-a-column-that-is-not-there"),
    ],
)
@pytest.mark.parametrize("engine", ["duckdb", "datafusion"])
def test_sql_filters_the_requested_schema(path, requested_schema, engine, where, rows):
    needs(engine)
    query = QueryBuilder(engine).register("t", Table.open(path), requested_schema)
    found = query.execute(f"select count(*) n from t where {where}").read_all()
    assert found["n"].to_pylist() == [rows]


def test_polars_filters_the_requested_schema(path, requested_schema):
    pl = needs("polars")
    lazy = Table.open(path).scan_polars(requested_schema)
    assert lazy.filter(pl.col("id") < 7).collect().height == 7
    assert lazy.filter(pl.col("part") == "p1").collect().height == ROWS
    assert lazy.filter(pl.col("later").is_null(), pl.col("id") == 3).collect().height == 1


def test_a_dataset_passes_dictionaries_on_and_prunes_by_them(path):
    options = ReadOptions(wrap_partition_values=True)
    dataset = Table.open(path).to_pyarrow_dataset(options)
    assert isinstance(dataset, pds.Dataset)
    found = dataset.to_table(columns=["part", "id"], filter=pc.field("part") == "p1")
    assert found.schema.field("part").type == pa.dictionary(pa.uint16(), pa.string())
    assert found.num_rows == ROWS
    assert dataset.explain()["files"]["scanned"] == 1
    computed = dataset.to_table(columns={"double": pc.field("id") * 2, "part": pc.field("part")})
    assert computed.num_rows == FILES * ROWS


def test_a_dictionary_overflow_keeps_its_error_type_in_sql(path):
    needs("duckdb")
    schema = pa.schema([("price", pa.dictionary(pa.int8(), pa.decimal128(10, 2)))])
    query = QueryBuilder("duckdb").register("t", Table.open(path), ReadOptions(schema=schema))
    with pytest.raises(SchemaError, match="not in range"):
        query.execute("select price from t").read_all()


@pytest.mark.parametrize("output", ["reader", "dataset", "lazy-polars", "duckdb"])
def test_an_impossible_schema_is_rejected_before_a_read(path, output):
    narrow = ReadOptions(schema=pa.schema([("id", pa.int32())]))
    with pytest.raises(SchemaError, match="'id' is int64"):
        OUTPUTS[output](Table.open(path), narrow)


@pytest.mark.parametrize("name", [name for name in vars(Adapters) if not name.startswith("_")])
def test_the_adapters_have_the_signatures_that_outputs_call(name):
    parameters = list(inspect.signature(getattr(Adapters, name)).parameters)[1:]
    assert list(inspect.signature(getattr(interop, name)).parameters) == parameters
