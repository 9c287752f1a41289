"""Every golden table has the same files and rows over Flight as in process."""

from __future__ import annotations

import pyarrow as pa
import pytest

import lazydelta.flight
from lazydelta import Table
from lazydelta.errors import DeltaError
from lazydelta.serving import ServeConfig, error_kind
from tests.golden_pack import NEEDS_PACK
from tests.serving.flight_servers import flight_door
from tests.serving.golden import (
    ENTRIES,
    MOST_ROWS,
    PATHS,
    RECORDS,
    REST,
    SOME,
    TABLES,
    in_process,
    is_same,
)

pytestmark = [pytest.mark.acceptance, NEEDS_PACK]

MODES = ("files", "rows")
MOST_ROWS_AS_TEXT = 10_000


@pytest.fixture(scope="module")
def pair(golden_servers):
    """Connections to two server processes that send small batches."""
    one, other = (lazydelta.flight.connect(process.uri) for process in golden_servers)
    with one, other:
        yield one, other


@pytest.fixture(scope="module")
def server():
    """A connection to a server with batches of the usual size."""
    with (
        flight_door(ServeConfig.for_tables(PATHS)) as door,
        lazydelta.flight.connect(door.uri) as connection,
    ):
        yield connection


def deliveries(connection, name, mode, token=None):
    limit = MOST_ROWS if mode == "rows" else None
    scan = connection.table(name).scan(limit=limit, strategy="reverse")
    if mode == "rows":
        return list(scan.resumable_rows(token))
    return list(scan.resumable_files(token, records=RECORDS))


def as_table(delivered, expected):
    return pa.Table.from_batches([batch for batch, _ in delivered], expected.schema)


def check_refused(connection, name, mode, expected):
    with pytest.raises(DeltaError) as caught:
        deliveries(connection, name, mode)
    if ENTRIES[name]["kind"] != "plan_only":  # which of several missing files is first varies
        assert type(caught.value).__name__ == error_kind(expected)


def check_resuming(pair, name, mode, expected):
    """Compare a stream, and what the other server continues after each of its batches."""
    delivered = deliveries(pair[0], name, mode)
    assert is_same(as_table(delivered, expected), expected)
    done = 0
    for batch, token in delivered:
        done += batch.num_rows
        rest = deliveries(pair[1], name, mode, token)
        assert is_same(as_table(rest, expected), expected.slice(done)), done
    return 1 + len(delivered)


def check_shares(connection, name):
    """Compare all rows and files of three endpoints, in any order; return the comparisons."""
    here, shares = Table.open(PATHS[name]), connection.table(name).scan(endpoints=3)
    try:
        expected = here.scan().to_arrow()
    except DeltaError:
        return 0
    assert in_order(shares.to_arrow()) == in_order(expected)
    listed = [repr(row) for b in shares.file_batches(records=RECORDS) for row in b.to_pylist()]
    with here.scan().resumable_files(records=RECORDS) as local:
        assert sorted(listed) == sorted(repr(row) for b, _ in local for row in b.to_pylist())
    return 2


def in_order(table):
    """Return rows in an order of their own; NaN equals NaN, unless there are very many rows."""
    if table.num_rows > MOST_ROWS_AS_TEXT:
        return table.combine_chunks().sort_by([(name, "ascending") for name in table.column_names])
    return sorted(map(repr, table.to_pylist()))


@pytest.mark.parametrize(
    "name", [*SOME, *(pytest.param(name, marks=pytest.mark.long) for name in REST)], ids=TABLES.get
)
def test_every_batch_and_share_is_the_same(pair, server, name, record_property):
    compared = check_shares(server, name)
    for mode in MODES:
        expected = in_process(name, mode)
        if isinstance(expected, DeltaError):
            check_refused(pair[0], name, mode, expected)
            compared += 1
        else:
            compared += check_resuming(pair, name, mode, expected)
    record_property("comparisons", compared)
