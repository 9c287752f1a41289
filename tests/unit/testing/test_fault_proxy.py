"""Each fault of `FaultProxy`, in front of a trivial HTTP server."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest

from lazydelta.testing import FaultProxy, ProxyFault, ProxyRequest, dependency_depth, fault_proxy

BODY = bytes(range(256)) * 1000


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.server.seen.append((self.command, self.path, dict(self.headers)))
        self.send_response(200)
        if self.path.startswith("/chunked"):
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for start in range(0, len(BODY), 100_000):
                piece = BODY[start : start + 100_000]
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.write(b"0\r\n\r\n")
        elif self.path.startswith("/until-close"):
            self.end_headers()
            self.wfile.write(BODY)
            self.close_connection = True
        else:
            self.send_header("Content-Length", str(len(BODY)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(BODY)

    def do_HEAD(self):
        self.do_GET()

    def do_PUT(self):
        data = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append((self.command, self.path, data))
        self.send_response(201)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args):
        pass


class _Server(ThreadingHTTPServer):
    request_queue_size = 128


@pytest.fixture
def upstream():
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.seen = []
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def proxy(upstream):
    with FaultProxy(f"http://127.0.0.1:{upstream.server_address[1]}/base") as proxy:
        yield proxy


@pytest.fixture
def client(proxy):
    client = http.client.HTTPConnection(urlsplit(proxy.endpoint).netloc, timeout=0.5)
    yield client
    client.close()


def fetch(client, path="/a", method="GET", body=None, headers=None):
    client.request(method, path, body=body, headers=headers or {})
    response = client.getresponse()
    return response.status, response.read()


def test_responses_are_unchanged(proxy, client):
    for path in ("/a", "/chunked", "/until-close"):
        assert fetch(client, path) == (200, BODY)
    assert fetch(client, method="PUT", body=b"data") == (201, b"")
    assert fetch(client, method="PUT", body=iter([b"chunked ", b"data"])) == (201, b"")
    client.request("HEAD", "/a")
    response = client.getresponse()
    assert (response.getheader("Content-Length"), response.read()) == (str(len(BODY)), b"")
    assert fetch(client) == (200, BODY)


def test_the_upstream_receives_the_host_of_the_client(proxy, client, upstream):
    fetch(client, "/a%20b?c=%2F", headers={"X-Ms-Version": "1"})
    _, path, headers = upstream.seen[0]
    assert path == "/a%20b?c=%2F"
    assert headers["Host"] == urlsplit(proxy.endpoint).netloc
    assert headers["X-Ms-Version"] == "1"


def test_the_host_can_be_rewritten(upstream):
    host = f"127.0.0.1:{upstream.server_address[1]}"
    with FaultProxy(f"http://{host}", rewrite_host=True) as proxy:
        client = http.client.HTTPConnection(urlsplit(proxy.endpoint).netloc, timeout=30)
        fetch(client)
        client.close()
    assert upstream.seen[0][2]["Host"] == host


def test_the_endpoint_keeps_the_path_of_the_upstream(proxy):
    assert urlsplit(proxy.endpoint).path == "/base"


def test_requests_are_recorded(proxy, client):
    fetch(client, "/a?b=c", headers={"Range": "bytes=0-9"})
    fetch(client, "/d", method="PUT", body=b"data", headers={"x-ms-range": "bytes=1-2"})
    first, second = proxy.requests()
    assert (first.method, first.target, first.range) == ("GET", "/a?b=c", "bytes=0-9")
    assert (first.status, first.sent, first.received) == (200, len(BODY), 0)
    assert (second.method, second.status, second.sent, second.received) == ("PUT", 201, 0, 4)
    assert second.range == "bytes=1-2"
    assert first.start <= first.end <= second.start <= second.end
    summary = proxy.summary()
    assert (summary.requests, summary.sent, summary.received) == (2, len(BODY), 4)
    proxy.clear()
    assert proxy.requests() == []


def test_latency_delays_each_response(proxy, client):
    fetch(client)
    proxy.latency = 0.05
    fetch(client)
    request = proxy.requests()[-1]
    assert request.end - request.start >= 0.05


def test_small_responses_do_not_wait_for_a_delayed_ack(proxy, client, monkeypatch):
    options = []
    run = fault_proxy._Exchange.run

    async def record(exchange):
        connection = exchange._writer.get_extra_info("socket")
        options.append(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        return await run(exchange)

    monkeypatch.setattr(fault_proxy._Exchange, "run", record)
    fetch(client)
    assert all(options)
    assert options


def test_connections_are_served_concurrently(proxy):
    """All 64 requests wait for the latency together: none starts after another one ended."""
    proxy.latency = 1.0
    address = urlsplit(proxy.endpoint).netloc
    start = threading.Barrier(64)

    def one(_):
        client = http.client.HTTPConnection(address, timeout=30)
        client.connect()
        start.wait()
        try:
            return fetch(client)
        finally:
            client.close()

    with ThreadPoolExecutor(64) as pool:
        assert set(pool.map(one, range(64))) == {(200, BODY)}
    assert proxy.summary().requests == 64
    assert proxy.summary().depth == 1


def test_sequential_requests_form_a_chain(proxy, client):
    for _ in range(5):
        fetch(client)
    assert proxy.summary().depth == 5


@pytest.mark.parametrize(
    ("spans", "depth"),
    [
        ([], 0),
        ([(0, 9), (1, 2), (2, 3), (3, 4)], 3),
        ([(0, 1), (0, 1), (1, 2), (1, 5), (2, 3), (5, 6)], 4),
        ([(0, 3), (1, 3), (2, 3)], 1),
    ],
)
def test_dependency_depth(spans, depth):
    requests = [
        ProxyRequest(method="GET", target="/", range="", start=start, end=end)
        for start, end in spans
    ]
    assert dependency_depth(requests) == depth


# --- faults -----------------------------------------------------------------------------------


def test_answer(proxy, client, upstream):
    proxy.inject(ProxyFault(action="answer", status=429, retry_after=7, body=b"slow down"))
    client.request("GET", "/a")
    response = client.getresponse()
    assert (response.status, response.getheader("Retry-After")) == (429, "7")
    assert response.read() == b"slow down"
    assert upstream.seen == []
    assert fetch(client) == (200, BODY)
    assert [request.fault for request in proxy.requests()] == ["answer", None]


def test_garbage(proxy, client):
    proxy.inject(ProxyFault(action="answer"))
    status, body = fetch(client)
    assert status == 200
    assert body.startswith(b"<html>")


def test_reset(proxy, client, upstream):
    proxy.inject(ProxyFault(action="reset"))
    with pytest.raises(ConnectionResetError):
        fetch(client)
    assert upstream.seen == []
    assert proxy.requests()[0].status is None


def test_a_lost_answer_had_its_effect(proxy, client, upstream):
    proxy.inject(ProxyFault(action="lost", method="PUT"))
    with pytest.raises(ConnectionResetError):
        fetch(client, method="PUT", body=b"data")
    assert upstream.seen == [("PUT", "/a", b"data")]


def test_stall(proxy, client, upstream):
    proxy.inject(ProxyFault(action="stall"))
    with pytest.raises(TimeoutError):
        fetch(client)
    assert upstream.seen == []


def test_truncate(proxy, client):
    proxy.inject(ProxyFault(action="truncate", at=0.25))
    with pytest.raises(http.client.IncompleteRead) as raised:
        fetch(client)
    assert raised.value.partial == BODY[: len(BODY) // 4]


def test_without_a_body_the_head_is_truncated(proxy):
    proxy.inject(ProxyFault(action="truncate"))
    address = urlsplit(proxy.endpoint)
    with socket.create_connection((address.hostname, address.port), 30) as client:
        client.sendall(b"HEAD /a HTTP/1.1\r\nHost: a\r\n\r\n")
        received = b"".join(iter(lambda: client.recv(1000), b""))
    assert received.startswith(b"HTTP/1.1 200")
    assert b"\r\n\r\n" not in received


def test_flip(proxy, client):
    proxy.inject(ProxyFault(action="flip", at=0.0))
    status, body = fetch(client)
    assert (status, body[1:], body[0]) == (200, BODY[1:], BODY[0] ^ 0xFF)


def test_drip(proxy, client):
    proxy.inject(ProxyFault(action="drip", seconds=0.01))
    began = time.monotonic()
    assert fetch(client) == (200, BODY)
    assert time.monotonic() - began >= 0.15  # a lower bound: 15 pauses


def test_a_long_drip_stalls_within_the_body(proxy, client):
    proxy.inject(ProxyFault(action="drip", seconds=60))
    client.request("GET", "/a")
    response = client.getresponse()
    with pytest.raises(TimeoutError):
        response.read()


def test_which_requests_fail(proxy, client):
    proxy.inject(
        ProxyFault(action="answer", status=503, method="GET", path="^/a b", nth=2, times=2),
        ProxyFault(action="answer", status=500, path=r"\.json$", times=None),
    )
    paths = ["/a%20b", "/other", "/a%20b", "/a%20b", "/a%20b", "/x.json", "/x.json"]
    assert [fetch(client, path)[0] for path in paths] == [200, 200, 503, 503, 200, 500, 500]
    assert fetch(client, "/a%20b", method="PUT", body=b"")[0] == 201


def test_random_faults_are_reproducible(proxy, client):
    def run(seed):
        fault = ProxyFault(action="answer", status=503, times=None, probability=0.5, seed=seed)
        proxy.inject(fault)
        return [fetch(client)[0] for _ in range(30)]

    assert run(1) == run(1) != run(2)
    assert set(run(1)) == {200, 503}


def test_stopping_ends_stalled_requests(upstream):
    with FaultProxy(f"http://127.0.0.1:{upstream.server_address[1]}") as proxy:
        proxy.inject(ProxyFault(action="stall"))
        address = urlsplit(proxy.endpoint)
        client = socket.create_connection((address.hostname, address.port), 30)
        client.sendall(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
    with client, contextlib.suppress(ConnectionResetError):
        assert client.recv(1000) == b""


def test_an_unreachable_upstream_resets_the_connection():
    with FaultProxy("http://127.0.0.1:9") as proxy:
        client = http.client.HTTPConnection(urlsplit(proxy.endpoint).netloc, timeout=30)
        with pytest.raises((http.client.HTTPException, ConnectionError)):
            fetch(client)
        client.close()
