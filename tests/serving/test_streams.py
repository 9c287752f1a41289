from __future__ import annotations

import http.client
import threading
import time

import pytest

from lazydelta.errors import StoreAccessError
from lazydelta.store import MemoryStore
from tests.builders import TableBuilder
from tests.serving.recording import PLAIN
from tests.serving.support import (
    ARROW,
    arrow_batches,
    connect,
    error_of,
    get,
    json_batches,
    running,
    send,
    wait_until,
)

COMMITS = 12
FILES, NAME_LENGTH = 12_000, 800


class GatedStore(MemoryStore):
    """Lets a number of requests for commits or checkpoints pass; the others wait for `open()`."""

    native_files = False

    def __init__(self, objects):
        super().__init__(objects)
        self.closed_for = ""
        self.waiting = 0
        self.fails = False
        self._gate = threading.Event()

    def close(self, part):
        self.closed_for = part
        self._gate.clear()

    def open(self):
        self._gate.set()

    def _pass(self, path):
        if self.closed_for and self.closed_for in path:
            self.waiting += 1
            self._gate.wait(20)
            self.waiting -= 1
            if self.fails:
                raise StoreAccessError(path, "denied at memory://gated")

    def read(self, path):
        self._pass(path)
        return super().read(path)

    def read_ranges(self, path, ranges):
        self._pass(path)
        return super().read_ranges(path, ranges)


def store_of(commits=COMMITS, *, files=40, checkpoint=True):
    """Return a table with a checkpoint of many files, and commits of one file after it."""
    store = GatedStore({})
    table = TableBuilder(store, protocol=PLAIN).commit(" ".join(f"+c{n:04d}" for n in range(files)))
    if checkpoint:
        table.checkpoint("v2-json", parts=2)
    for number in range(commits):
        table.commit(f"+t{number:04d}")
    return store


@pytest.fixture(scope="module")
def large():
    """A table whose list of files is more than the network buffers."""
    store = GatedStore({})
    names = " ".join(f"+{number:0{NAME_LENGTH}}" for number in range(FILES))
    TableBuilder(store, protocol=PLAIN).commit(names)
    return store


def test_the_first_batch_arrives_while_the_checkpoint_is_still_unread():
    store = store_of()
    store.close("_sidecars")
    tables, stores = {"t": "/t"}, {"t": store}
    with running(tables, stores, limits={"batch_files": 4}) as server, connect(server) as client:
        answer = send(client, "/v1/tables/t/files", strategy="reverse")
        first = answer.readline()
        assert b"t0011" in first
        assert answer.headers["delta-table-version"] == str(COMMITS)
        store.open()
        assert b'"end":true' in answer.read().splitlines()[-1]


def test_a_disconnected_client_frees_its_slot_while_the_server_waits_to_send(large):
    with running({"t": "/t"}, {"t": large}, limits={"batch_files": 100}) as server:
        with connect(server) as connection:
            answer = send(connection, "/v1/tables/t/files")
            answer.readline()
            assert server.service.admission.running == 1
        # The connection is closed: most of the stream was never read.
        answer.close()
        assert wait_until(lambda: server.service.admission.running == 0)
        assert wait_until(lambda: 'outcome="disconnected"' in server.service.metrics.text())


def test_a_client_that_leaves_before_the_first_batch_frees_its_slot():
    store = store_of()
    with running({"t": "/t"}, {"t": store}) as server:
        store.close(".json")
        with connect(server) as connection:
            connection.request("GET", "/v1/tables/t/files")
            assert wait_until(lambda: store.waiting)
        store.open()
        assert wait_until(lambda: server.service.admission.running == 0)


def test_a_client_that_leaves_the_queue_frees_its_place():
    store = store_of()
    with running({"t": "/t"}, {"t": store}, limits={"scans": 1}) as server:
        store.close(".json")
        with connect(server) as first, connect(server) as second:
            first.request("GET", "/v1/tables/t/files")
            assert wait_until(lambda: store.waiting)
            second.request("GET", "/v1/tables/t/files")
            assert wait_until(lambda: server.service.admission.waiting == 1)
            second.close()
            assert wait_until(lambda: server.service.admission.waiting == 0)
            store.open()
            assert first.getresponse().status == 200


def test_slow_clients_hold_the_scan_back(large):
    """Nothing is read ahead of a client beyond the buffers of the network and two batches."""
    limits = {"batch_files": 100, "scans": 4}
    with running({"t": "/t"}, {"t": large}, limits=limits) as server:
        streams = []
        opened = server.service.streams.open
        server.service.streams.open = lambda *a, **k: streams.append(opened(*a, **k)) or streams[-1]
        with connect(server) as connection:
            answer = send(connection, "/v1/tables/t/files")
            answer.readline()
            settled = [0, 1]
            assert wait_until(lambda: _is_settled(streams[0], settled))
            held = streams[0].rows
            assert held < FILES
            rest = answer.read()
        assert b'"rows":%d' % FILES in rest.splitlines()[-1]


def _is_settled(stream, last):
    time.sleep(0.2)
    last[0], last[1] = last[1], stream.rows
    return last[0] == last[1]


@pytest.mark.parametrize("accept", [ARROW, "application/x-ndjson"])
def test_an_error_in_the_middle_is_never_a_clean_end(accept):
    store = store_of()
    store.close("_sidecars")
    store.fails = True
    tables, stores = {"t": "/t"}, {"t": store}
    with running(tables, stores, limits={"batch_files": 4}) as server, connect(server) as client:
        headers = {"accept": accept}
        answer = send(client, "/v1/tables/t/files", headers=headers, strategy="reverse")
        assert answer.status == 200
        store.open()
        body, is_cut = read_all(answer)
    if accept == ARROW:
        assert is_cut
        assert arrow_batches(body)[1] is None, "the stream seems to be complete"
    else:
        batches, last = json_batches(body)
        assert batches
        assert last["status"] == 502
        assert "end" not in last
        assert "memory" not in last["message"]


def read_all(answer):
    """Return the body, and whether it was cut off."""
    parts = []
    try:
        while part := answer.read(1000):
            parts.append(part)
    except http.client.IncompleteRead as error:
        return b"".join(parts) + error.partial, True
    return b"".join(parts), False


def test_an_error_before_the_first_batch_has_its_own_status():
    with running({"t": "/nowhere"}) as server:
        answer = get(server, "/v1/tables/t/files")
        assert (answer[0], error_of(answer)) == (503, "TableNotFoundError")
        assert b"nowhere" not in answer[2]


def test_the_deadline_ends_a_scan_with_an_error_after_which_it_is_resumed():
    store = store_of(files=3000)
    limits = {"batch_files": 10, "scan_seconds": 0.3}
    with running({"t": "/t"}, {"t": store}, limits=limits) as server:
        store.close("_sidecars")
        with connect(server) as connection:
            answer = send(connection, "/v1/tables/t/files", strategy="reverse")
            time.sleep(0.4)
            store.open()
            batches, last = json_batches(answer.read())
        assert (last["error"], last["status"]) == ("ScanDeadlineError", 504)
        paths = {row["uri"] for rows, _ in batches for row in rows}
        token = batches[-1][1]
    with running({"t": "/t"}, {"t": store}, limits={"batch_files": 1000}) as server:
        body = get(server, "/v1/tables/t/files", strategy="reverse", resume=token)[2]
    rest, end = json_batches(body)
    assert end["end"] is True
    rest = {row["uri"] for rows, _ in rest for row in rows}
    assert not paths & rest
    assert len(paths | rest) == 3000 + COMMITS


def test_a_client_that_stops_reading_is_given_up(large):
    tables, stores = {"t": "/t"}, {"t": large}
    limits = {"stall_seconds": 0.3, "batch_files": 100}
    with running(tables, stores, limits=limits) as server, connect(server) as client:
        answer = send(client, "/v1/tables/t/files")
        answer.readline()
        assert wait_until(lambda: server.service.admission.running == 0)
        _, is_cut = read_all(answer)
        assert is_cut


def test_head_answers_without_a_body():
    with running({"t": "/t"}, {"t": store_of()}) as server:
        with connect(server) as connection:
            connection.request("HEAD", "/v1/tables/t/files")
            answer = connection.getresponse()
            assert (answer.status, answer.read()) == (200, b"")
        assert wait_until(lambda: server.service.admission.running == 0)
