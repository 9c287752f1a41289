"""Object stores against an HTTP server with scripted responses."""

from __future__ import annotations

import pickle
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

import pytest

from lazydelta.config import Config
from lazydelta.errors import (
    ObjectExistsError,
    ObjectNotFoundError,
    StoreAccessError,
    StoreError,
    TransientStoreError,
)
from lazydelta.store import open_store
from lazydelta.store.cloud import requests
from lazydelta.store.cloud.resumable_read import Fetched
from lazydelta.store.layers.retrying_store import RetryingStore

SECRET = "the-secret-of-the-test"


class Server(ThreadingHTTPServer):
    """Replies with the `(status, body)` responses in turn, then repeats the last one."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.responses = []
        self.requests = []


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _respond(self):
        size = int(self.headers.get("Content-Length") or 0)
        self.rfile.read(size)
        self.server.requests.append((self.command, self.path, dict(self.headers)))
        status, body = self.server.responses[0]
        if len(self.server.responses) > 1:
            self.server.responses.pop(0)
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Last-Modified", "Sun, 15 Nov 2026 12:00:00 GMT")
        self.send_header("ETag", '"1"')
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _respond  # noqa: N815

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    running = Server()
    thread = threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield running
    running.shutdown()
    running.server_close()
    thread.join()


def options(server):
    return {
        "access_key_id": "id",
        "secret_access_key": SECRET,
        "endpoint": f"http://127.0.0.1:{server.server_address[1]}",
        "allow_http": "true",
    }


@pytest.fixture
def store(server):
    retries = {
        "max_retries": "2",
        "retry_timeout": "5s",
        "backoff_config.init_backoff": "10ms",
        "backoff_config.max_backoff": "20ms",
    }
    return open_store("s3://lake/t", {**options(server), **retries})


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (404, ObjectNotFoundError),
        (403, StoreAccessError),
        (401, StoreAccessError),
        (400, StoreError),
        (416, StoreError),
        (429, TransientStoreError),
        (500, TransientStoreError),
        (503, TransientStoreError),
    ],
)
def test_typed_error_of_each_status(server, store, status, error):
    server.responses = [(status, b"<Error><Code>Why</Code></Error>")]
    with pytest.raises(StoreError) as raised:
        store.read("d/a")
    assert type(raised.value) is error
    assert "s3://lake/t/d/a" in str(raised.value)
    assert "Debug source" not in str(raised.value)
    assert SECRET not in repr(raised.value)


@pytest.mark.parametrize("status", [409, 412])
def test_a_failed_condition_means_it_exists(server, store, status):
    server.responses = [(status, b"")]
    with pytest.raises(ObjectExistsError):
        store.write("a", b"x", overwrite=False)
    method, path, headers = server.requests[0]
    assert (method, path) == ("PUT", "/lake/t/a")
    assert {key.lower(): value for key, value in headers.items()}["if-none-match"] == "*"


@pytest.mark.parametrize(
    ("url", "options", "header", "value"),
    [
        ("gs://lake/t", {"bearer_token": "x", "base_url": "{}"}, "x-goog-if-generation-match", "0"),
        (
            "az://lake/t",
            {"account_name": "a", "anon": "true", "endpoint": "{}"},
            "if-none-match",
            "*",
        ),
    ],
)
def test_conditional_put_of_other_providers(server, url, options, header, value):
    endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    formatted = {key: option.format(endpoint) for key, option in options.items()}
    server.responses = [(412, b"")]
    with pytest.raises(ObjectExistsError):
        open_store(url, {**formatted, "allow_http": "true"}).write("a b", b"x", overwrite=False)
    method, path, headers = server.requests[0]
    assert method == "PUT"
    assert unquote(path.partition("?")[0]).endswith("/lake/t/a b")
    assert {key.lower(): content for key, content in headers.items()}[header] == value


def test_an_overwrite_is_unconditional(server, store):
    server.responses = [(200, b"")]
    store.write("a", b"x", overwrite=True)
    assert "if-none-match" not in {key.lower() for key in server.requests[0][2]}


def test_retries_of_the_client_are_off_unless_requested(server, store):
    server.responses = [(503, b""), (200, b"hello")]
    with pytest.raises(TransientStoreError):
        open_store("s3://lake/t", options(server)).read("a")
    assert len(server.requests) == 1
    server.responses = [(503, b""), (200, b"hello")]
    assert bytes(store.read("a")) == b"hello"  # `max_retries` of the caller


def test_retrying_store_is_the_retry_layer(server):
    server.responses = [(503, b"")] * 2 + [(200, b"hello")]
    config = Config(retry_attempts=3, retry_base_seconds=0.01)
    store = RetryingStore(open_store("s3://lake/t", options(server)), config)
    assert bytes(store.read("a")) == b"hello"
    assert len(server.requests) == 3


def test_a_short_range_response_is_an_error(server, store):
    server.responses = [(200, b"0123456789")]
    with pytest.raises(StoreError):
        store.read_ranges("a", [(0, 20)])


def test_close_ranges_are_coalesced(store, monkeypatch):
    requested = []

    async def get(_, span):
        requested.append(span)
        return Fetched([bytes(span[1] - span[0])], 20_000_000, None)

    monkeypatch.setattr(store, "_fetch", get)
    far = 10_000_000
    parts = store.read_ranges("a", [(far, far + 1), (100, 200), (0, 10), (5, 5)])
    assert requested == [(0, 200), (far, far + 1)]
    assert [len(part) for part in parts] == [1, 100, 10, 0]


def test_requests_after_a_fork_raise(store, monkeypatch):
    monkeypatch.setattr(requests._ForkGuard, "forked_after_use", True)
    with pytest.raises(StoreError, match="spawn"):
        store.read("a")
    with pytest.raises(StoreError, match="spawn"):
        list(store.list_from("d"))


def test_pickle_holds_url_and_options_only(store):
    again = pickle.loads(pickle.dumps(store))
    assert again.root == "s3://lake/t"
    assert again.__reduce__() == store.__reduce__()
    assert SECRET not in repr(again)


def test_the_signature_of_a_url_is_not_shown():
    url = "https://acct.blob.core.windows.net/lake/t?sv=2023-11-03&sig=hush%3D"
    store = open_store(url)
    assert store.root == "https://acct.blob.core.windows.net/lake/t"
    assert "hush" not in repr(store)
