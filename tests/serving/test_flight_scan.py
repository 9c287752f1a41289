"""A scan of `lazydelta.flight` has the surface and the results of a local scan."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lazydelta as ld
import lazydelta.flight
from lazydelta.errors import (
    ClientCapabilityError,
    ColumnNotFoundError,
    ConfigError,
    PredicateError,
    ResumeTokenError,
    ServerConnectionError,
    VersionNotCommittedError,
)
from lazydelta.scan import FileRecords
from lazydelta.serving import ServeConfig
from lazydelta.serving.limits import Limits
from tests.serving.flight_servers import flight_door

VECTORS = FileRecords(capabilities=frozenset({"deletionVectors"}))


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """A table with partitions, a change feed, and a deletion vector."""
    path = tmp_path_factory.mktemp("scan") / "table"
    options = {
        "partition_by": ["day"],
        "properties": {"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": "true"},
    }
    for day in range(5):
        rows = {
            "id": list(range(day * 20, day * 20 + 20)),
            "name": [f"it's {number}" if number % 3 else None for number in range(20)],
            "day": [f"2026-01-0{day + 1}"] * 20,
        }
        ld.write(path, rows, **(options if day == 0 else {}))
    table = ld.Table.open(str(path))
    table.delete("id % 20 = 7")
    return table


@pytest.fixture(scope="module")
def connection(local):
    limits = Limits(batch_rows=10, batch_files=2)
    config = ServeConfig.for_tables({"t": local.url}, limits=limits)
    with flight_door(config) as door, lazydelta.flight.connect(door.uri) as connection:
        yield connection


@pytest.fixture
def remote(connection):
    return connection.table("t")


SCANS = {
    "all": {},
    "where": {"where": "day >= '2026-01-03' and name = 'it''s 4'"},
    "predicate": {"where": (ld.col("id") > 30) & ld.col("name").is_null()},
    "tuples": {"where": [("id", "in", [1, 2, 55])]},
    "columns": {"columns": ["day", "id"]},
    "no-columns": {"columns": []},
    "limit": {"limit": 33},
    "forward": {"strategy": "forward"},
}


@pytest.mark.parametrize("arguments", SCANS.values(), ids=SCANS)
def test_rows_are_those_of_a_local_scan(local, remote, arguments):
    here, there = local.scan(**arguments), remote.scan(**arguments)
    assert there.to_arrow() == here.to_arrow()
    assert there.schema == here.to_arrow().schema
    assert there.count() == there.to_arrow().num_rows == here.to_arrow().num_rows


OUTPUTS = {
    "reader": lambda scan: scan.to_reader().read_all(),
    "stream": pa.table,
    "dataset": lambda scan: scan.to_pyarrow_dataset().to_table(filter=pc.field("id") < 50),
    "pandas": lambda scan: pa.Table.from_pandas(scan.to_pandas(), preserve_index=False),
    "polars": lambda scan: scan.to_polars().to_arrow(),
    "lazy-polars": lambda scan: scan.scan_polars().collect().to_arrow(),
    "duckdb": lambda scan: scan.to_duckdb().to_arrow_table(),
    "sql": lambda scan: (
        ld.QueryBuilder().register("t", scan).execute("select * from t where id < 50").read_all()
    ),
}


@pytest.mark.parametrize("output", OUTPUTS.values(), ids=OUTPUTS)
def test_an_output_returns_the_rows(local, remote, output):
    found = output(remote.scan("id < 50")).select(["id", "day"])
    expected = local.scan("id < 50", ["id", "day"]).to_arrow()
    assert sorted(found["id"].to_pylist()) == sorted(expected["id"].to_pylist())
    assert {*map(str, found["day"].to_pylist())} == {*expected["day"].to_pylist()}


def test_a_filter_of_polars_reaches_the_server(remote):
    import polars as pl

    found = remote.scan().scan_polars().filter(pl.col("day") == "2026-01-02").collect()
    assert found.height == 19


def test_a_query_reads_one_version(local, connection, tmp_path):
    path = str(tmp_path / "grows")
    ld.write(path, {"id": [1]})
    with (
        flight_door(ServeConfig.for_tables({"g": path})) as door,
        lazydelta.flight.connect(door.uri) as server,
    ):
        scan = server.table("g").scan()
        assert scan.version == 0
        ld.write(path, {"id": [2]})
        assert scan.count() == scan.narrowed(columns=["id"]).to_arrow().num_rows == 1
        assert server.table("g").scan().count() == 2
        assert server.table("g").version == 1
        assert server.table("g").scan(version=0).count() == 1


def test_files_need_a_declared_capability(local, remote):
    with pytest.raises(ClientCapabilityError, match="deletionVectors"):
        remote.scan().files()
    found = [(file.size, file.partition_values) for file in remote.scan().files(records=VECTORS)]
    with local.scan().files() as files:
        assert found == [(file.size, file.partition_values) for file in files]
    limited = list(remote.scan().files(limit=2, records=VECTORS))
    assert len(limited) == 2
    with pytest.raises(AttributeError, match="nonsense"):
        _ = limited[0].nonsense


def test_files_of_a_limited_scan_are_refused(remote):
    with pytest.raises(ConfigError, match="counts rows"):
        remote.scan(limit=1).files()


def test_changes_are_those_of_a_local_feed(local, remote):
    here, there = (table.changes(starting_version=3) for table in (local, remote))
    assert there.to_arrow() == here.to_arrow()
    assert there.count() == here.count()
    columns = ["_change_type", "id"]
    found = remote.changes(starting_version=5, columns=columns, where="_change_type = 'delete'")
    assert found.to_arrow().num_rows == 5
    assert found.version == 5


@pytest.mark.parametrize(
    "open_scan",
    [
        pytest.param(lambda table: table.scan("id > 10"), id="rows"),
        pytest.param(lambda table: table.changes(starting_version=1), id="changes"),
    ],
)
def test_every_batch_can_be_resumed_after(remote, open_scan):
    deliveries = list(open_scan(remote).resumable_rows())
    rows = pa.Table.from_batches([delivered.batch for delivered in deliveries])
    assert len(deliveries) > 3
    done = 0
    for delivered in deliveries:
        done += delivered.batch.num_rows
        rest = [after.batch for after in open_scan(remote).resume(delivered.token)]
        assert pa.Table.from_batches(rest, rows.schema) == rows.slice(done)


def test_a_token_of_another_scan_is_refused(remote):
    with remote.scan("id > 10").resumable_rows() as stream:
        token = next(stream).token
    with pytest.raises(ResumeTokenError, match="another scan"):
        next(remote.scan("id > 11").resume(token))


def test_endpoints_and_tickets_have_every_row_once(local, remote, connection):
    expected = sorted(local.to_arrow()["id"].to_pylist())
    shares = remote.scan(endpoints=3)
    assert sorted(shares.to_arrow()["id"].to_pylist()) == expected
    tickets = remote.scan().tickets(4)
    assert len(tickets) == 4
    found = [i for t in tickets for d in connection.read(t) for i in d.batch["id"].to_pylist()]
    assert sorted(found) == expected
    tickets = remote.scan().tickets(2, "files", records=VECTORS)
    found = [uri for t in tickets for d in connection.read(t) for uri in d.batch["uri"].to_pylist()]
    assert len(set(found)) == len(found) == len(list(local.scan().files()))


def test_options_present_rows_and_refuse_added_columns(remote):
    wanted = pa.schema([("id", pa.decimal128(20)), ("more", pa.string())])
    found = remote.scan(limit=1).to_arrow(ld.ReadOptions(schema=wanted))
    assert found.schema == wanted
    assert remote.scan().to_arrow(ld.ReadOptions(wrap_partition_values=True)).num_rows == 95
    with pytest.raises(ConfigError, match="row_index_column"):
        remote.scan().to_arrow(ld.ReadOptions(row_index_column="at"))


def test_a_table_describes_itself(local, remote, connection):
    assert connection.tables() == ["t"]
    assert (remote.version, remote.columns) == (local.version, local.columns)
    assert remote.schema == local.schema
    assert remote.head(3).num_rows == 3
    assert connection.health()["status"] == "ok"
    assert "lazydelta_serve_scans_running" in connection.metrics()
    explained = remote.scan("day = '2026-01-02'").explain()
    assert (explained["table"], explained["files"]["emitted"]) == ("t", 1)
    assert remote.changes().explain()["table"] == "t"
    assert local.url not in repr(explained)


@pytest.mark.parametrize(
    ("read", "kind"),
    [
        pytest.param(lambda t: t.scan("nope = 1").to_arrow(), ColumnNotFoundError, id="column"),
        pytest.param(lambda t: t.scan(columns=["x"]).to_arrow(), ColumnNotFoundError, id="select"),
        pytest.param(lambda t: t.scan("id >").to_arrow(), PredicateError, id="syntax"),
        pytest.param(lambda t: t.scan(version=99).schema, VersionNotCommittedError, id="version"),
        pytest.param(lambda t: t.scan(version=1, timestamp="2026").schema, ConfigError, id="both"),
        pytest.param(lambda t: t.scan(endpoints=0).schema, ConfigError, id="endpoints"),
    ],
)
def test_errors_are_those_of_a_local_scan(remote, local, read, kind):
    with pytest.raises(kind) as caught:
        read(remote)
    assert local.url not in str(caught.value)


def test_a_server_that_is_not_there_is_an_error_of_the_connection():
    with (
        lazydelta.flight.connect("grpc://127.0.0.1:1", timeout=5) as server,
        pytest.raises(ServerConnectionError, match=r"127\.0\.0\.1:1"),
    ):
        server.tables()
