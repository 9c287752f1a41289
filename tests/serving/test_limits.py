from __future__ import annotations

import socket
import threading
from urllib.parse import urlsplit

import pytest

from tests.serving.support import connect, error_of, get, json_batches, running, send, wait_until
from tests.serving.test_streams import GatedStore, store_of


@pytest.fixture
def gated():
    store = store_of(files=3000)
    store.close("_sidecars")
    yield store
    store.open()


def start(connection):
    """Start a scan that cannot end before its store is opened."""
    answer = send(connection, "/v1/tables/t/files", strategy="reverse")
    assert answer.status == 200
    answer.readline()
    return answer


def test_beyond_the_queue_a_scan_is_refused_at_once(gated):
    limits = {"scans": 1, "queue": 1}
    with (
        running({"t": "/t"}, {"t": gated}, limits=limits) as server,
        connect(server) as first,
        connect(server) as second,
    ):
        answer = start(first)
        second.request("GET", "/v1/tables/t/files")
        assert wait_until(lambda: server.service.admission.waiting == 1)
        for path in ("/v1/tables/t/rows", "/v1/tables/t"):
            refused = get(server, path)
            assert (refused[0], error_of(refused)) == (429, "OverloadedError")
            assert refused[1]["retry-after"] == "1"
        assert get(server, "/v1/tables")[0] == 200, "what reads no table is answered"
        gated.open()
        answer.read()
        assert json_batches(second.getresponse().read())[1]["end"] is True
        assert wait_until(lambda: server.service.admission.running == 0)


def test_a_scan_that_waits_too_long_is_refused(gated):
    limits = {"scans": 1, "queue_seconds": 0.1}
    with running({"t": "/t"}, {"t": gated}, limits=limits) as server, connect(server) as first:
        start(first)
        assert error_of(get(server, "/v1/tables/t/files")) == "OverloadedError"
        assert server.service.admission.waiting == 0
        gated.open()


def test_a_principal_has_a_quota(gated):
    limits = {"scans": 9, "scans_per_principal": 1}
    with running({"t": "/t"}, {"t": gated}, limits=limits) as server, connect(server) as first:
        answer = start(first)
        assert error_of(get(server, "/v1/tables/t/files")) == "OverloadedError"
        gated.open()
        answer.read()
        assert wait_until(lambda: get(server, "/v1/tables/t/files")[0] == 200)


def test_a_drain_lets_running_scans_end_and_refuses_new_ones(gated):
    with running({"t": "/t"}, {"t": gated}) as server, connect(server) as first:
        answer = start(first)
        assert get(server, "/readyz")[0] == 200
        server.drain()
        assert wait_until(lambda: server.service.admission.draining)
        refused = get(server, "/v1/tables/t/files")
        assert (refused[0], error_of(refused)) == (503, "OverloadedError")
        assert "retry-after" in refused[1]
        assert get(server, "/readyz")[0] == 503
        gated.open()
        assert b'"end":true' in answer.read().splitlines()[-1]
        server.join()


def test_after_the_drain_a_scan_ends_with_an_error_and_resumes_elsewhere(gated):
    limits = {"drain_seconds": 0.2, "batch_files": 4}
    with running({"t": "/t"}, {"t": gated}, limits=limits) as server, connect(server) as first:
        answer = send(first, "/v1/tables/t/files", strategy="reverse")
        server.drain()
        assert wait_until(server.service.streams._stopping.is_set)
        gated.open()
        batches, last = json_batches(answer.read())
    assert (last["error"], last["retryable"]) == ("ScanCancelledError", True)
    token = batches[-1][1]
    with running({"t": "/t"}, {"t": gated}) as other:
        rest, end = json_batches(
            get(other, "/v1/tables/t/files", strategy="reverse", resume=token)[2]
        )
    assert end["end"] is True
    parts = [row["uri"] for rows, _ in [*batches, *rest] for row in rows]
    assert len(parts) == len(set(parts)) == 3012


def test_silent_and_half_open_connections_are_closed():
    store = store_of()
    with running({"t": "/t"}, {"t": store}, limits={"handshake_seconds": 0.3}) as server:
        address = urlsplit(server.url)
        for sent in (b"", b"GET /v1/tables HTTP/1.1\r\nHost: 127", b"GET"):
            with socket.create_connection((address.hostname, address.port), timeout=10) as silent:
                silent.sendall(sent)
                assert silent.recv(100) == b""
        assert get(server, "/v1/tables/t/files")[0] == 200


def test_silent_connections_beyond_the_limit_are_refused_and_free_it_later():
    limits = {"connections": 5, "handshake_seconds": 0.5}
    with running({"t": "/t"}, {"t": store_of()}, limits=limits) as server:
        address = urlsplit(server.url)
        silent = [socket.create_connection((address.hostname, address.port)) for _ in range(8)]
        assert wait_until(lambda: get(server, "/healthz")[0] == 503)
        assert wait_until(lambda: get(server, "/healthz")[0] == 200)
        for connection in silent:
            connection.close()


def test_ten_times_overload_answers_everybody():
    """Every client gets its files or a refusal, and nothing is left behind."""
    limits = {"scans": 4, "queue": 4, "queue_seconds": 20}
    statuses, lock = [], threading.Lock()
    with running({"t": "/t"}, {"t": store_of(files=500)}, limits=limits) as server:

        def client():
            status, _, body = get(server, "/v1/tables/t/files", limit=100)
            if status == 200:
                assert json_batches(body)[1]["rows"] == 100
            with lock:
                statuses.append(status)

        threads = [threading.Thread(target=client) for _ in range(80)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(statuses) == 80
        assert set(statuses) <= {200, 429}
        assert statuses.count(200) >= 8
        assert wait_until(lambda: server.service.admission.running == 0)
        assert server.service.admission._scans == {}


def test_a_body_and_an_oversized_request_are_refused():
    with running({"t": "/t"}, {"t": GatedStore({})}, limits={"request_bytes": 5000}) as server:
        assert get(server, "/v1/tables", headers={"content-length": "5"})[0] == 400
        assert get(server, "/v1/tables/t/files", where="x" * 6000)[0] == 400
