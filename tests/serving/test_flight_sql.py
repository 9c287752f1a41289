"""Flight SQL: queries over served tables, the catalog, and what neither may do."""

from __future__ import annotations

import json
from datetime import date

import pyarrow as pa
import pyarrow.flight as fl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lazydelta as ld
from lazydelta.errors import ConfigError
from lazydelta.serving import ServeConfig
from lazydelta.serving.config import Endpoint, TableEntry
from lazydelta.serving.flight_sql_messages import parse_message
from lazydelta.serving.limits import Limits
from tests.serving.flight_servers import flight_door, until
from tests.serving.recording import TOKENS, principal
from tests.serving.sql_messages import message

pytest.importorskip("duckdb", reason="DuckDB runs the queries of Flight SQL")

ROWS = 3000
ENDLESS = "SELECT sum(a.range * b.range) FROM range(100000000) a, range(100000) b"


@pytest.fixture(scope="module")
def trips(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("sql") / "trips")
    table = ld.Table.open(path)
    for day in (1, 2):
        numbers = list(range(ROWS * (day - 1), ROWS * day))
        days = pa.array([date(2026, 5, day)] * ROWS)
        table.write(pa.table({"id": numbers, "day": days}), partition_by=["day"])
    return path


@pytest.fixture(scope="module")
def door(trips):
    """A server of `mine` for the reader and `theirs` for another principal."""
    config = ServeConfig(
        tables=(
            TableEntry(name="mine", url=trips, principals=("reader", "other")),
            TableEntry(name="theirs", url=trips, principals=("other",)),
        ),
        principals=(principal("reader"), principal("other")),
        http=Endpoint(port=0),
        limits=Limits(sql_queries=1, sql_memory=64 * 2**20, scan_seconds=60.0),
    )
    with flight_door(config) as door:
        yield door


@pytest.fixture
def client(door):
    with fl.connect(door.uri) as client:
        yield client


def options(name="reader", **more):
    header = (b"authorization", f"Bearer {TOKENS[name]}".encode())
    return fl.FlightCallOptions(headers=[header], **more)


def ask(client, command, **caller):
    info = client.get_flight_info(fl.FlightDescriptor.for_command(command), options(**caller))
    return info, client.do_get(info.endpoints[0].ticket, options(**caller)).read_all()


def query(client, sql, **caller):
    return ask(client, message("CommandStatementQuery", sql), **caller)[1]


def refusal(client, sql, **caller):
    with pytest.raises(fl.FlightServerError) as caught:
        query(client, sql, **caller)
    return json.loads(caught.value.extra_info)


def test_a_query_over_several_tables(client):
    sql = "SELECT day, count(*) n FROM mine JOIN theirs USING (id, day) GROUP BY day ORDER BY day"
    info, rows = ask(client, message("CommandStatementQuery", sql), name="other")
    assert rows.to_pydict() == {"day": [date(2026, 5, 1), date(2026, 5, 2)], "n": [ROWS, ROWS]}
    assert info.schema == rows.schema
    descriptor = fl.FlightDescriptor.for_command(message("CommandStatementQuery", sql))
    assert client.get_schema(descriptor, options("other")).schema == rows.schema


def test_a_result_is_streamed_in_small_messages(client):
    sql = "SELECT id, repeat('x', 4000) AS wide FROM mine;"
    info, rows = ask(client, message("CommandStatementQuery", sql))
    assert rows.num_rows == 2 * ROWS
    chunks = client.do_get(info.endpoints[0].ticket, options())
    assert max(chunk.data.nbytes for chunk in chunks) < 4 * 2**20


def test_a_prepared_statement_is_its_text(client):
    request = message("ActionCreatePreparedStatementRequest", "SELECT max(id) AS m FROM mine")
    (result,) = client.do_action(fl.Action("CreatePreparedStatement", request), options())
    prepared = parse_message(result.body.to_pybytes())
    assert prepared.name == "ActionCreatePreparedStatementResult"
    assert pa.ipc.read_schema(pa.py_buffer(prepared.fields[2][0])).names == ["m"]
    command = message("CommandPreparedStatementQuery", prepared.text(1))
    assert ask(client, command)[1].to_pydict() == {"m": [2 * ROWS - 1]}
    close = message("ActionClosePreparedStatementRequest", prepared.text(1))
    assert not list(client.do_action(fl.Action("ClosePreparedStatement", close), options()))


def test_the_catalog_names_tables_that_queries_find(client):
    with_schema = message("CommandGetTables", None, "ma_n", "%i%", tail=b"\x28\x01")
    (row,) = ask(client, with_schema)[1].to_pylist()
    assert (row["table_name"], row["table_type"]) == ("mine", "TABLE")
    assert pa.ipc.read_schema(pa.py_buffer(row["table_schema"])).names == ["id", "day"]
    (place,) = ask(client, message("CommandGetDbSchemas"))[1].to_pylist()
    assert ask(client, message("CommandGetCatalogs"))[1]["catalog_name"].to_pylist() == [
        place["catalog_name"]
    ]
    full = f"{place['catalog_name']}.{place['db_schema_name']}.{row['table_name']}"
    assert query(client, f"SELECT count(*) AS n FROM {full}")["n"].to_pylist() == [2 * ROWS]


@pytest.mark.parametrize("filters", [("other",), (None, "x%"), (None, None, "m_")])
def test_the_catalog_is_filtered(client, filters):
    assert ask(client, message("CommandGetTables", *filters))[1].num_rows == 0
    assert ask(client, message("CommandGetTables"), name="other")[1].num_rows == 2


def test_the_server_says_what_it_is(client):
    infos = {r["info_name"]: r["value"] for r in ask(client, message("CommandGetSqlInfo"))[1].to_pylist()}  # fmt: skip
    assert (infos[0], infos[3]) == ("lazydelta", True)
    types = ask(client, message("CommandGetTableTypes"))[1]
    assert types["table_type"].to_pylist() == ["TABLE"]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM theirs",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM glob('/*')",
        "COPY (SELECT 1) TO '/tmp/lazydelta_copied.csv'",
        "ATTACH '/tmp/lazydelta_attached.db'",
        "INSTALL httpfs",
        "SET enable_external_access = true",
        "SET memory_limit = '100GB'; SELECT 1",
        "SELECT nothing FROM mine",
        "SELECT * FROM door",
        "",
    ],
)
def test_a_query_reads_its_tables_and_nothing_else(client, sql):
    found = refusal(client, sql)
    assert (found["error"], found["code"]) == ("QueryError", "INVALID_ARGUMENT")
    ticket = fl.Ticket(message("CommandStatementQuery", sql))
    with pytest.raises(fl.FlightServerError, match="duckdb cannot run"):  # without a plan
        client.do_get(ticket, options()).read_all()


def test_a_query_has_a_bound_of_memory(client, door):
    sql = "SELECT list(a.range ORDER BY -a.range) FROM range(50000000) a"
    assert "emory" in refusal(client, sql)["message"]
    assert until(lambda: door._service.admission.running == 0)
    assert query(client, "SELECT min(id) AS m FROM mine").to_pydict() == {"m": [0]}


def test_a_query_whose_client_leaves_is_interrupted(client, door):
    ticket = fl.Ticket(message("CommandStatementQuery", ENDLESS))
    with pytest.raises(fl.FlightTimedOutError):
        client.do_get(ticket, options(timeout=0.3)).read_all()
    assert until(lambda: door._service.admission.running == 0)
    assert query(client, "SELECT 1 AS one").to_pydict() == {"one": [1]}


def test_more_queries_are_refused_at_once(client, door):
    ticket = fl.Ticket(message("CommandStatementQuery", "SELECT * FROM range(100000000)"))
    reader = client.do_get(ticket, options())
    reader.read_chunk()
    with pytest.raises(fl.FlightUnavailableError, match="RESOURCE_EXHAUSTED"):
        query(client, "SELECT 1")
    reader.cancel()
    assert until(lambda: door._service.admission.running == 0)
    assert query(client, "SELECT 1 AS one").to_pydict() == {"one": [1]}


def test_a_query_ends_at_the_deadline_of_scans(trips):
    config = ServeConfig.for_tables({"t": trips}, limits=Limits(scan_seconds=0.3))
    with flight_door(config) as door, fl.connect(door.uri) as client:
        with pytest.raises(fl.FlightTimedOutError, match="DEADLINE_EXCEEDED"):
            client.do_get(fl.Ticket(message("CommandStatementQuery", ENDLESS))).read_all()
        assert until(lambda: door._service.admission.running == 0)


def test_a_server_may_refuse_queries(trips):
    config = ServeConfig.for_tables({"t": trips}, limits=Limits(sql_queries=0))
    ticket = fl.Ticket(message("CommandStatementQuery", "SELECT 1"))
    with (
        flight_door(config) as door,
        fl.connect(door.uri) as client,
        pytest.raises(fl.FlightServerError, match="this server runs no queries"),
    ):
        client.do_get(ticket).read_all()


@given(st.binary(max_size=40), st.integers(0, 60))
def test_damaged_messages_are_refused(damage, at):
    whole = message("CommandGetTables", "temp", "main", "%")
    for data in (b"\n" + damage, whole[:at] + damage + whole[at + len(damage) :]):
        try:
            found = parse_message(data)
            if found is not None:
                found.text(1)
        except ConfigError:
            pass


def test_an_unmodified_adbc_driver_reads(door):
    adbc = pytest.importorskip("adbc_driver_flightsql.dbapi", reason="ADBC is not installed")
    header = {"adbc.flight.sql.authorization_header": f"Bearer {TOKENS['reader']}"}
    with adbc.connect(door.uri, header, autocommit=True) as connection:
        objects = connection.adbc_get_objects(depth="columns").read_all().to_pylist()
        (schema,) = objects[0]["catalog_db_schemas"]
        (table,) = schema["db_schema_tables"]
        assert table["table_name"] == "mine"
        assert [c["column_name"] for c in table["table_columns"]] == ["id", "day"]
        assert connection.adbc_get_table_schema("mine").names == ["id", "day"]
        with connection.cursor() as cursor:
            cursor.execute("SELECT day, sum(id) FROM mine GROUP BY day ORDER BY day")
            sums = [sum(range(ROWS)), sum(range(ROWS, 2 * ROWS))]
            assert [row[1] for row in cursor.fetchall()] == sums
            cursor.execute("SELECT id FROM mine WHERE day = '2026-05-02'")
            assert cursor.fetch_arrow_table().num_rows == ROWS
            with pytest.raises(adbc.Error, match="Table with name theirs does not exist"):
                cursor.execute("SELECT count(*) FROM theirs")
