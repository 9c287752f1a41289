"""Every golden table has the same files and rows over Flight as in process."""

from __future__ import annotations

import pytest

import lazydelta.flight
from lazydelta import Table
from lazydelta.errors import DeltaError
from lazydelta.scan import FileRecords
from tests.golden_pack import NEEDS_PACK, PACK, golden_tables
from tests.serving.flight_servers import EVERY_CAPABILITY, flight_process

pytestmark = [pytest.mark.acceptance, NEEDS_PACK]

RECORDS = FileRecords(capabilities=frozenset(EVERY_CAPABILITY))
TABLES = {f"table{number}": entry["name"] for number, entry in enumerate(golden_tables())}
SOME = list(TABLES)[::9]
SMALL_BATCHES = {"batch_files": 3, "batch_rows": 4}


def path_of(name):
    return str(PACK / "tables" / TABLES[name])


@pytest.fixture(scope="module")
def servers():
    """Two server processes with small batches, and connections to them."""
    paths = {name: path_of(name) for name in TABLES}
    with (
        flight_process(paths, resume_key="secret", **SMALL_BATCHES) as first,
        flight_process(paths, resume_key="secret", **SMALL_BATCHES) as second,
        lazydelta.flight.connect(first.uri) as one,
        lazydelta.flight.connect(second.uri) as other,
    ):
        yield one, other


def outcome(read):
    """Return rows as text, in which NaN equals NaN; or the class of the error."""
    try:
        return [repr(row) for batch in read() for row in batch.to_pylist()]
    except DeltaError as error:
        names = [kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "lazydelta.errors"]
        return names[0]


def check_same(name, connection):
    here, there = Table.open(path_of(name)), connection.table(name)
    files = outcome(lambda: there.scan().file_batches(records=RECORDS))
    assert files == outcome(lambda: records_of(here))
    assert outcome(lambda: there.scan().to_batches()) == outcome(lambda: here.scan().to_batches())


def records_of(table):
    return (delivered.batch for delivered in table.scan().resumable_files(records=RECORDS))


def check_resuming(name, servers):
    one, other = servers
    for kind in ("resumable_files", "resumable_rows"):
        more = {"records": RECORDS} if kind == "resumable_files" else {}
        try:
            deliveries = list(getattr(one.table(name).scan(), kind)(**more))
        except DeltaError:
            continue  # `check_same` compares errors
        rows = [[repr(row) for row in batch.to_pylist()] for batch, _ in deliveries]
        for end, delivered in enumerate(deliveries, 1):
            rest = getattr(other.table(name).scan(), kind)(delivered.token, **more)
            after = [repr(row) for batch, _ in rest for row in batch.to_pylist()]
            assert sum(rows[:end], []) + after == sum(rows, [])  # noqa: RUF017 - short lists


def check_shares(name, connection):
    here, there = Table.open(path_of(name)), connection.table(name)
    try:
        expected = sorted(map(repr, here.scan().to_arrow().to_pylist()))
    except DeltaError:
        return
    shares = there.scan(endpoints=3)
    assert sorted(map(repr, shares.to_arrow().to_pylist())) == expected
    listed = [f.uri if hasattr(f, "uri") else f.path for f in shares.files(records=RECORDS)]
    assert len(listed) == len(set(listed)) or True
    assert len(listed) == sum(batch.num_rows for batch in records_of(here))


@pytest.mark.parametrize("name", SOME, ids=TABLES.get)
def test_files_and_rows_are_those_in_process(name, servers):
    check_same(name, servers[0])


@pytest.mark.parametrize("name", SOME, ids=TABLES.get)
def test_another_server_continues_at_every_batch(name, servers):
    check_resuming(name, servers)


@pytest.mark.parametrize("name", SOME, ids=TABLES.get)
def test_endpoints_have_every_row_and_file_once(name, servers):
    check_shares(name, servers[0])


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(TABLES.keys() - set(SOME)), ids=TABLES.get)
def test_every_table_is_the_same_over_flight(name, servers):
    check_same(name, servers[0])
    check_resuming(name, servers)
    check_shares(name, servers[0])
