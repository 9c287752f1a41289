"""DuckDB and DataFusion return the rows of the scan, and read no unnecessary file."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lazydelta import Config, Table, write
from lazydelta.config import ReadOptions
from lazydelta.errors import ConfigError, DataFileNotFoundError, MissingExtraError, QueryError
from lazydelta.interop import (
    QueryBuilder,
    duckdb_relation,
    query,
    register_datafusion,
    to_pyarrow_dataset,
)
from tests.interop.tables import (
    ROWS,
    Watched,
    canonical,
    deltalake,
    rows_of_file,
    write_table,
    write_table_with_vectors,
    write_tall_table,
)

ONE_BY_ONE = ReadOptions(files_at_once=1, memory_limit=0)


@pytest.fixture(params=["duckdb", "datafusion"])
def engine(request):
    pytest.importorskip(request.param, reason=f"pip install 'lazydelta[{request.param}]' runs this")
    return request.param


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_table(tmp_path_factory.mktemp("engines") / "table")


@pytest.fixture
def watched(path):
    return Watched(path)


QUERIES = [
    pytest.param("select * from t", "true", 8, id="everything"),
    pytest.param("select * from t where id between 210 and 215", "id between 210 and 215", 1, id="between"),
    pytest.param("select * from t where id in (1, 1201)", "id in (1, 1201)", 2, id="in"),
    pytest.param("select * from t where id not in (1, 2) and part = 'p1'", "part = 'p1'", 2, id="not-in"),
    pytest.param("select * from t where part is null", "part is null", 2, id="null-partition"),
    pytest.param("select * from t where day = date '2026-01-03'", "day = '2026-01-03'", 1, id="date"),
    pytest.param("select * from t where id < 20 or id >= 1590", "id < 20 or id >= 1590", 2, id="or"),
    pytest.param("select * from t where \"Mixed Case\" = 'name 3'", "`Mixed Case` = 'name 3'", 8, id="mixed-case"),
    pytest.param("select * from t where number is null and id < 300", "number is null and id < 300", 2, id="is-null"),
    pytest.param("select * from t where \"Mixed Case\" like '%5'", "`Mixed Case` like '%5'", 8, id="like"),
    pytest.param("select * from t where flag and id < 200", "flag = true and id < 200", 1, id="boolean"),
    pytest.param("select * from t where not flag and id < 200", "flag = false and id < 200", 1, id="not-boolean"),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "where", "files"), QUERIES)
def test_a_query_returns_the_rows_of_the_scan_and_opens_few_files(
    watched, engine, sql, where, files
):
    expected = watched.table.scan(where=where).to_arrow()
    watched.opened()
    found = QueryBuilder(engine).register("t", watched.table).execute(sql).read_all()
    assert watched.opened() <= files
    assert found.num_rows == expected.num_rows > 0
    assert canonical(found.cast(expected.schema)) == canonical(expected)


def test_columns_are_pushed_down(watched, engine):
    builder = QueryBuilder(engine).register("t", watched.table)
    found = builder.execute(
        'select "Mixed Case", count(*) n from t where small = 3 group by 1'
    ).read_all()
    assert sum(found["n"].to_pylist()) == 8 * ROWS // 50
    assert set(builder._latest["t"]._latest.columns) == {"Mixed Case", "small"}


def test_a_count_reads_no_unnecessary_column(watched, engine):
    builder = QueryBuilder(engine).register("t", watched.table)
    assert builder.execute("select count(*) n from t").read_all()["n"].to_pylist() == [8 * ROWS]
    assert builder.explain("t")["files"]["emitted"] == 8
    assert len(builder._latest["t"]._latest.columns) <= 1


def test_a_limit_stops_early(tmp_path, engine):
    watched = Watched(write_tall_table(tmp_path / "table"))
    builder = QueryBuilder(engine).register("t", watched.table, ONE_BY_ONE)
    assert builder.execute("select id from t limit 5").read_all().num_rows == 5
    assert watched.opened() < 12


def test_a_result_streams(tmp_path, engine):
    watched = Watched(write_tall_table(tmp_path / "table"))
    reader = (
        QueryBuilder(engine).register("t", watched.table, ONE_BY_ONE).execute("select id from t")
    )
    assert reader.read_next_batch().num_rows > 0
    assert watched.opened() < 16
    reader.close()


def test_several_tables_and_versions(watched, engine):
    builder = (
        QueryBuilder(engine)
        .register("Now", watched.table)
        .register("Before", watched.table.snapshot(version=1))
        .register("few", watched.table.scan(where="id < 10", columns=["id"]))
    )
    sql = (
        "select Now.id, Before.part from Now join Before on Now.id = Before.id "
        "join few on few.id = Now.id order by 1"
    )
    found = builder.execute(sql).read_all()
    assert found["id"].to_pylist() == list(range(10))
    left = builder.execute("select count(*) n from Now where id not in (select id from Before)")
    assert left.read_all()["n"].to_pylist() == [6 * ROWS]


def test_a_query_can_be_repeated(watched, engine):
    builder = QueryBuilder(engine).register("t", watched.table)
    for _ in range(2):
        found = builder.execute("select sum(id) s from t where id < 100").read_all()
        assert found["s"].to_pylist() == [4950]


def test_deleted_rows_stay_deleted(tmp_path, engine):
    left = write_table_with_vectors(tmp_path / "table")
    builder = QueryBuilder(engine).register("t", Table.open(tmp_path / "table"))
    assert builder.execute("select id from t order by id").read_all()["id"].to_pylist() == left
    assert builder.execute("select count(*) n from t").read_all()["n"].to_pylist() == [len(left)]
    found = builder.execute("select id from t where id < 10 order by id").read_all()
    assert found["id"].to_pylist() == [1, 2, 4, 5, 7, 8]


def test_an_empty_table(tmp_path, engine):
    path = str(tmp_path / "table")
    deltalake.write_deltalake(path, rows_of_file(0).slice(0, 0))
    builder = QueryBuilder(engine).register("t", Table.open(path))
    assert builder.execute("select * from t where id > 3").read_all().num_rows == 0
    assert builder.execute("select count(*) n from t").read_all()["n"].to_pylist() == [0]


def test_a_missing_file_keeps_its_error_type(tmp_path, engine):
    path = write_table(tmp_path / "table", files=2, partitioned=False)
    table = Table.open(path)
    (tmp_path / "table" / next(table.scan().files()).path).unlink()
    with pytest.raises(DataFileNotFoundError, match="vacuum"):
        QueryBuilder(engine).register("t", table).execute("select sum(id) from t").read_all()


@pytest.mark.parametrize(
    "sql", ["selec 1", "select * from nope", "select nope from t", "copy t to 'x.csv'"]
)
def test_a_query_rejected_by_the_engine(watched, engine, sql, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(QueryError, match=engine) as caught:
        QueryBuilder(engine).register("t", watched.table).execute(sql).read_all()
    assert caught.value.sql == sql
    assert list(tmp_path.iterdir()) == []


def test_sql_sees_only_the_registered_tables(engine, path):
    somewhere = pa.table({"a": [1]})
    builder = QueryBuilder(engine)
    for sql in ("select * from somewhere", f"select * from '{path}/part=p1/*.parquet'"):
        with pytest.raises(QueryError):
            builder.execute(sql).read_all()
    assert somewhere.num_rows == 1


def test_names_that_differ_only_in_case(watched, engine):
    builder = QueryBuilder(engine).register("Trips", watched.table)
    with pytest.raises(ConfigError, match="Trips"):
        builder.register("trips", watched.table)
    with pytest.raises(ConfigError, match="name"):
        builder.register("", watched.table)
    assert "Trips" in repr(builder)
    with pytest.raises(ConfigError, match="no query"):
        builder.explain("Trips")


def test_engines_that_are_not_installed(monkeypatch):
    monkeypatch.setattr(query, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"lazydelta\[duckdb\]"):
        QueryBuilder()
    with pytest.raises(MissingExtraError, match=r"lazydelta\[datafusion\]"):
        QueryBuilder("datafusion")
    with pytest.raises(ConfigError, match="sqlite"):
        QueryBuilder("sqlite")


def test_the_default_is_the_installed_engine(monkeypatch):
    found = {"datafusion": object()}
    monkeypatch.setattr(query, "find_spec", found.get)
    assert QueryBuilder().engine == "datafusion"


# --- the engines' own APIs ----------------------------------------------------------------------


def test_a_duckdb_relation(watched):
    duckdb = pytest.importorskip("duckdb", reason="pip install 'lazydelta[duckdb]' runs this")
    with duckdb.connect() as connection:
        relation = duckdb_relation(connection, watched.table)
        assert watched.opened() == 0
        assert relation.filter("id < 7").aggregate("sum(id)").fetchall() == [(21,)]
        assert watched.opened() == 1


def test_a_duckdb_replacement_scan_of_a_dataset(watched):
    duckdb = pytest.importorskip("duckdb", reason="pip install 'lazydelta[duckdb]' runs this")
    trips = to_pyarrow_dataset(watched.table)
    with duckdb.connect() as connection:
        assert connection.sql("select max(id) from trips where part = 'p1'").fetchall() == [(1599,)]
    assert trips.explain()["files"]["emitted"] == 2


def test_register_describes_the_integration_path(watched):
    datafusion = pytest.importorskip(
        "datafusion", reason="pip install 'lazydelta[datafusion]' runs this"
    )
    context = datafusion.SessionContext()
    assert "pyarrow dataset" in register_datafusion(context, "Trips", watched.table)
    found = context.sql("select max(id) m from \"Trips\" where part = 'p1'").collect()
    assert found[0].column(0).to_pylist() == [1599]
    assert watched.opened() == 2


def test_arguments_of_the_wrong_type_are_rejected(tmp_path):
    datafusion = pytest.importorskip("datafusion", reason="pip install 'lazydelta[datafusion]'")
    pytest.importorskip("duckdb", reason="pip install 'lazydelta[duckdb]' runs this")
    table = write_and_open(tmp_path)
    context = datafusion.SessionContext()
    for refused in (
        lambda: table.to_duckdb(5),
        lambda: table.scan(columns=[]).to_duckdb(),
        lambda: table.register(5, "x"),
        lambda: table.register(context, 5),
        lambda: table.register(context, ""),
        lambda: QueryBuilder().register(5, table),
        lambda: QueryBuilder().register("x", table).explain([]),
        lambda: table.to_arrow(ReadOptions(file_column_name="")),
        lambda: table.to_arrow(ReadOptions(file_column_name="ID")),
        lambda: table.snapshot().check_retention("14 days"),
        lambda: Config(allowed_roots=5),
        lambda: Table.open_bundle("{}"),
        lambda: Table.open_bundle("[]"),
        lambda: Table.open_bundle("5"),
    ):
        with pytest.raises(ConfigError):
            refused()


def test_conditions_that_datafusion_folds_to_a_constant(tmp_path):
    pytest.importorskip("datafusion", reason="pip install 'lazydelta[datafusion]' runs this")
    builder = QueryBuilder("datafusion").register("t", write_and_open(tmp_path))
    for where in ("not (id = null) and name like 'x%'", "id not in (1, null)", "id = null"):
        assert builder.execute(f"select * from t where {where}").read_all().num_rows == 0


def write_and_open(path):
    write(path / "t", pa.table({"id": [1, 2], "name": ["x", None]}))
    return Table.open(path / "t")
