"""A client that stops, breaks off or is killed frees its slot; one that does not read loses it."""

from __future__ import annotations

import contextlib
import gc
import json
import subprocess
import sys
import threading

import pyarrow as pa
import pyarrow.flight as fl
import pytest

import lazydelta.flight
from lazydelta.errors import OverloadedError, ScanCancelledError, ScanDeadlineError
from lazydelta.scan import Delivered
from lazydelta.serving import ServeConfig
from lazydelta.serving.exposition import ServerMetrics
from lazydelta.serving.flight_delivery import Delivery
from lazydelta.serving.limits import Admission, Limits
from tests.builders import TableBuilder
from tests.serving.flight_servers import CAPABLE, flight_door, until

FILES, NAME_LENGTH = 12_000, 800  # more than gRPC buffers for a client that does not read
BATCH = 200


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A table of one commit of many files."""
    path = tmp_path_factory.mktemp("cancel") / "table"
    TableBuilder(path).commit(" ".join(f"+{number:0{NAME_LENGTH}}" for number in range(FILES)))
    return str(path)


@pytest.fixture
def door(path):
    limits = Limits(batch_files=BATCH, scans=2, queue=0, stall_seconds=60.0)
    with flight_door(ServeConfig.for_tables({"t": path}, limits=limits)) as door:
        yield door


def running(door):
    return door._service.admission.running


def ticket(client):
    command = fl.FlightDescriptor.for_command(
        json.dumps({"table": "t", "capabilities": ["deletionVectors"]})
    )
    return client.get_flight_info(command).endpoints[0].ticket


def started(door, client):
    reader = client.do_get(ticket(client))
    reader.read_chunk()
    assert running(door) == 1
    return reader


def test_the_end_of_a_stream_frees_its_slot(door):
    with fl.connect(door.uri) as client:
        rows = sum(chunk.data.num_rows for chunk in client.do_get(ticket(client)))
    assert rows == FILES
    assert until(lambda: running(door) == 0)


def test_a_cancelled_reader_frees_its_slot(door):
    with fl.connect(door.uri) as client:
        started(door, client).cancel()
        assert until(lambda: running(door) == 0)


def test_a_deleted_reader_frees_its_slot(door):
    with fl.connect(door.uri) as client:
        reader = started(door, client)
        del reader
        gc.collect()
        assert until(lambda: running(door) == 0)


def test_a_ticket_that_is_never_read_holds_no_slot(door):
    with fl.connect(door.uri) as client:
        ticket(client)
        assert running(door) == 0


def test_a_closed_connection_of_ours_frees_its_slots(door):
    connection = lazydelta.flight.connect(door.uri)
    batches = connection.table("t").scan().file_batches(records=CAPABLE)
    next(batches)
    assert running(door) == 1
    connection.close()
    assert until(lambda: running(door) == 0)
    batches.close()


def test_a_closed_stream_of_ours_frees_its_slot(door):
    with lazydelta.flight.connect(door.uri) as connection:
        with connection.table("t").scan().file_batches(records=CAPABLE) as batches:
            next(batches)
            assert running(door) == 1
        assert until(lambda: running(door) == 0)


_STALLS = """
import sys, pyarrow.flight as fl
client = fl.connect(sys.argv[1])
command = fl.FlightDescriptor.for_command(b'{"table": "t", "capabilities": ["deletionVectors"]}')
reader = client.do_get(client.get_flight_info(command).endpoints[0].ticket)
reader.read_chunk()
print("reading", flush=True)
sys.stdin.read()
"""


def test_a_killed_client_frees_its_slot(door):
    command = [sys.executable, "-c", _STALLS, door.uri]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as client:
        assert client.stdout.readline() == b"reading\n"
        assert running(door) == 1
        client.kill()
        assert until(lambda: running(door) == 0)


@pytest.mark.parametrize(
    ("limits", "kind"),
    [
        pytest.param({"stall_seconds": 0.3}, ScanCancelledError, id="does-not-read"),
        pytest.param({"scan_seconds": 0.3}, ScanDeadlineError, id="is-past-its-deadline"),
    ],
)
def test_a_client_that_stalls_loses_its_slot_and_sees_no_clean_end(path, limits, kind):
    config = ServeConfig.for_tables({"t": path}, limits=Limits(batch_files=BATCH, **limits))
    with (
        flight_door(config) as door,
        lazydelta.flight.connect(door.uri) as connection,
        without_collection(),
    ):
        batches = connection.table("t").scan().file_batches(records=CAPABLE)
        next(batches)
        assert until(lambda: running(door) == 0)
        with pytest.raises(kind, match="resume token"):
            list(batches)
        assert until(lambda: not door._server._deliveries.running()), "a drain waits for it"


def test_a_scan_that_is_ended_while_it_reads_is_closed_when_it_has_read():
    class Scan:
        rows, is_closed = 0, False

        def __next__(self):
            delivery.end(ScanCancelledError("the server is shutting down"))
            return Delivered(pa.record_batch({"id": [1]}), "token")

        def close(self):
            self.is_closed = True

    scan = Scan()
    metrics = ServerMetrics(Admission(Limits()))
    delivery = Delivery(scan, mode="files", metrics=metrics, translate=lambda error: error)
    with pytest.raises(ScanCancelledError):
        next(delivery)
    assert scan.is_closed


@contextlib.contextmanager
def without_collection():
    """Keep reference cycles alive."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def test_beyond_the_slots_a_scan_is_refused_at_once(door):
    with lazydelta.flight.connect(door.uri) as connection:
        scans = [connection.table("t").scan().file_batches(records=CAPABLE) for _ in range(2)]
        for batches in scans:
            next(batches)
        with pytest.raises(OverloadedError, match="runs 2 scans"):
            next(connection.table("t").scan().file_batches(records=CAPABLE))
        for batches in scans:
            batches.close()
        assert until(lambda: running(door) == 0)


def test_a_shutdown_ends_streams_with_an_error(path):
    config = ServeConfig.for_tables({"t": path}, limits=Limits(batch_files=BATCH))
    with flight_door(config) as door, lazydelta.flight.connect(door.uri) as connection:
        batches = connection.table("t").scan().file_batches(records=CAPABLE)
        next(batches)
        door.shutdown(0)
        with pytest.raises(OverloadedError, match="shutting down"):
            list(batches)


def test_a_drain_waits_for_running_streams(path):
    config = ServeConfig.for_tables({"t": path})
    with flight_door(config) as door, lazydelta.flight.connect(door.uri) as connection:
        batches = connection.table("t").scan().file_batches(records=CAPABLE)
        first = next(batches).num_rows
        stopped = []
        drain = threading.Thread(target=lambda: stopped.append(door.shutdown(20)))
        drain.start()
        assert until(lambda: connection_is_refused(connection))
        assert first + sum(batch.num_rows for batch in batches) == FILES
        drain.join(20)
        assert stopped == [True]


def connection_is_refused(connection):
    try:
        connection.table("t").scan().plan()
    except OverloadedError as error:
        return "shutting down" in str(error)
    return False
