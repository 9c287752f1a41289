"""Faults of a store, by an S3 endpoint on loopback: right bytes or a typed error, in bounded time."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import threading
import time
import traceback
from functools import partial

import pytest
from obstore import exceptions

from lazydelta.config import Config
from lazydelta.errors import (
    ObjectNotFoundError,
    ObjectReplacedError,
    StoreAccessError,
    StoreError,
    TransientStoreError,
)
from lazydelta.store import open_output, open_store, tuning
from lazydelta.store.cloud.request_errors import to_store_error
from lazydelta.store.cloud.requests import run
from lazydelta.store.layers.metered_store import MeteredStore
from lazydelta.store.layers.retrying_store import RetryingStore

SECRET = "canary-secret-of-the-test"
DATA = bytes(range(256)) * 64
CONFIG = Config(retry_base_seconds=0.01, request_deadline_seconds=1.5)


class Endpoint:
    """An S3 endpoint with one object; each request runs the next fault, then there are none.

    A fault is a function of the connection, which sends an answer or none; after it the
    connection is closed. A lasting fault runs for every request.
    """

    def __init__(self):
        self.data = DATA
        self.etag = '"1"'
        self.faults = []
        self.lasting = None
        self.requests = []
        self.closed_early = threading.Event()
        self.stopped = threading.Event()
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._connections = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def close(self):
        self.stopped.set()
        for each in (self._socket, *self._connections):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for thread in self._threads:
            thread.join()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._connections.append(connection)
                thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _serve(self, connection):
        with connection, contextlib.suppress(OSError), connection.makefile("rb") as stream:
            if connection.recv(1, socket.MSG_PEEK) == b"\x16":  # a TLS handshake
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            while request := self._next_request(stream):
                self.requests.append(request)
                fault = self.lasting or (self.faults.pop(0) if self.faults else None)
                if fault is not None:
                    fault(self, connection, request)
                    return
                self.answer(connection, request)

    def _next_request(self, stream):
        line = stream.readline()
        if not line.endswith(b"HTTP/1.1\r\n"):
            return None
        method, path, _ = line.decode().split(" ")
        headers = {}
        while (line := stream.readline()) not in (b"\r\n", b""):
            name, _, value = line.decode().partition(":")
            headers[name.lower()] = value.strip()
        stream.read(int(headers.get("content-length", 0)))
        return method, path, headers

    def answer(self, connection, request, *, body_bytes=None):
        method, _, headers = request
        if method == "PUT":
            return self.send(connection, 200, b"")
        start, end, status = 0, len(self.data), 200
        if "range" in headers:
            first, last = headers["range"].removeprefix("bytes=").split("-")
            start, end, status = int(first), min(int(last) + 1, len(self.data)), 206
        extra = f"Content-Range: bytes {start}-{end - 1}/{len(self.data)}\r\n"
        return self.send(connection, status, self.data[start:end], extra, body_bytes=body_bytes)

    def send(self, connection, status, body, extra="", *, body_bytes=None):
        head = (
            f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\nETag: {self.etag}\r\n"
            "Connection: close\r\n"
            f"Last-Modified: Sun, 15 Nov 2026 12:00:00 GMT\r\n{extra}\r\n"
        )
        connection.sendall(head.encode() + body[:body_bytes])


def stall(endpoint, connection, _):
    """Never answer; note the end of the connection."""
    with contextlib.suppress(OSError):
        connection.recv(1)
    endpoint.closed_early.set()


def stall_in_the_body(endpoint, connection, request):
    endpoint.answer(connection, request, body_bytes=10)
    stall(endpoint, connection, request)


def cut(endpoint, connection, request):
    endpoint.answer(connection, request, body_bytes=10)


def reset(endpoint, connection, _):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


def drip(endpoint, connection, request):
    endpoint.answer(connection, request, body_bytes=0)
    while not endpoint.stopped.wait(0.05):
        connection.sendall(b"x")


def busy(endpoint, connection, _):
    endpoint.send(connection, 503, b"<Error><Code>SlowDown</Code></Error>", "Retry-After: 1\r\n")


def replies(status, body):
    def reply(endpoint, connection, request):
        endpoint.send(connection, status, body, body_bytes=0 if request[0] == "HEAD" else None)

    return reply


@pytest.fixture
def endpoint(monkeypatch):
    monkeypatch.setattr(tuning, "ATTEMPT_SECONDS", 0.5)
    monkeypatch.setattr(tuning, "HEDGE_AFTER_SECONDS", 30.0)
    server = Endpoint()
    yield server
    server.close()


def options(endpoint):
    return {
        "access_key_id": "id",
        "secret_access_key": SECRET,
        "endpoint": endpoint.url,
        "allow_http": "true",
    }


@pytest.fixture
def store(endpoint):
    return RetryingStore(open_store("s3://lake/t", options(endpoint)), CONFIG)


READS = [
    pytest.param(lambda store: bytes(store.read("a")) == DATA, id="read"),
    pytest.param(
        lambda store: bytes(store.read_ranges("a", [(5, 900)])[0]) == DATA[5:900], id="range"
    ),
    pytest.param(lambda store: store.open_input("a", size=len(DATA)).read() == DATA, id="file"),
]


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("fault", [stall, stall_in_the_body, cut, reset, drip, busy])
def test_a_fault_that_passes_is_retried(endpoint, store, fault, read):
    endpoint.faults = [fault]
    assert read(store)


@pytest.mark.parametrize("fault", [stall, stall_in_the_body, cut, reset, drip, busy])
def test_a_lasting_fault_ends_within_the_deadline(endpoint, store, fault):
    endpoint.lasting = fault
    started = time.monotonic()
    with pytest.raises(TransientStoreError, match="s3://lake/t/a"):
        store.read("a")
    # An order of magnitude, not a measurement: without the deadline this takes minutes.
    assert time.monotonic() - started < 10 * CONFIG.request_deadline_seconds


@pytest.mark.parametrize(
    "call",
    [
        lambda store: store.head("a"),
        lambda store: list(store.list_from("d")),
        lambda store: store.write("a", b"x", overwrite=True),
        lambda store: store.write("a", b"x", overwrite=False),
        lambda store: store.delete(["a"]),
    ],
)
def test_other_operations_do_not_hang(endpoint, store, call):
    endpoint.lasting = stall
    with pytest.raises(TransientStoreError, match="did not answer in time"):
        call(store)


def test_a_slow_body_that_moves_is_read_to_its_end(endpoint, store, monkeypatch):
    """Its chunks are in time, though the body takes longer than an attempt and the deadline."""
    monkeypatch.setattr(tuning, "SMALL_BODY", 1024)
    monkeypatch.setattr(tuning, "STREAM_CHUNK", 1024)
    monkeypatch.setattr(tuning, "CHUNK_SECONDS", 0.5)

    def slow(endpoint, connection, request):
        endpoint.answer(connection, request, body_bytes=0)
        for start in range(0, len(DATA), 1024):
            time.sleep(0.12)
            connection.sendall(DATA[start : start + 1024])

    endpoint.faults = [slow]
    assert bytes(store.read("a")) == DATA
    assert len(endpoint.requests) == 1


def test_a_long_body_that_stops_is_retried(endpoint, store, monkeypatch):
    monkeypatch.setattr(tuning, "SMALL_BODY", 1024)
    monkeypatch.setattr(tuning, "CHUNK_SECONDS", 0.2)
    endpoint.faults = [stall_in_the_body]
    assert bytes(store.read("a")) == DATA


@pytest.mark.parametrize("fault", [stall, stall_in_the_body])
@pytest.mark.parametrize("read", READS)
def test_a_second_request_overtakes_a_straggler(endpoint, store, monkeypatch, fault, read):
    monkeypatch.setattr(tuning, "ATTEMPT_SECONDS", 60.0)
    monkeypatch.setattr(tuning, "HEDGE_AFTER_SECONDS", 0.05)
    endpoint.faults = [fault]
    assert read(store)
    assert len(endpoint.requests) == 2
    assert endpoint.closed_early.wait(10), "the slower request is cancelled"


def test_a_straggler_may_still_win(endpoint, store, monkeypatch):
    monkeypatch.setattr(tuning, "HEDGE_AFTER_SECONDS", 0.05)

    def late(endpoint, connection, request):
        time.sleep(0.2)
        endpoint.answer(connection, request)

    endpoint.faults = [late, busy]
    assert bytes(store.read("a")) == DATA
    assert len(endpoint.requests) == 2


def test_a_long_body_is_not_requested_twice(endpoint, store, monkeypatch):
    monkeypatch.setattr(tuning, "HEDGE_AFTER_SECONDS", 0.05)
    monkeypatch.setattr(tuning, "HEDGE_BYTES", 1000)

    def late_body(endpoint, connection, request):
        endpoint.answer(connection, request, body_bytes=10)
        time.sleep(0.2)
        connection.sendall(DATA[10:])

    endpoint.faults = [late_body]
    assert bytes(store.read("a")) == DATA
    assert len(endpoint.requests) == 1


@pytest.mark.parametrize("read", READS[::2])
def test_a_long_read_repeats_only_the_part_that_failed(endpoint, store, monkeypatch, read):
    monkeypatch.setattr(tuning, "RANGE_PART", 1 << 12)
    endpoint.lasting = lambda e, c, r: cut(e, c, r) if flaky(r) else e.answer(c, r)
    failed = set()

    def flaky(request):
        span = request[2].get("range")
        is_first = span == "bytes=4096-8191" and span not in failed
        failed.add(span)
        return is_first

    assert read(store)
    spans = [headers["range"] for _, _, headers in endpoint.requests if "range" in headers]
    assert sorted(spans) == [
        "bytes=0-4095",
        "bytes=12288-16383",
        "bytes=4096-8191",
        "bytes=4096-8191",
        "bytes=8192-12287",
    ]


def test_progress_starts_the_attempts_anew(endpoint, monkeypatch):
    """The fourth part needs a fourth attempt, of two that are allowed without progress."""
    monkeypatch.setattr(tuning, "RANGE_PART", 1 << 12)
    config = Config(retry_attempts=2, retry_base_seconds=0.0, request_deadline_seconds=30)
    store = RetryingStore(open_store("s3://lake/t", options(endpoint)), config)

    def flaky(endpoint, connection, request):
        start = int(request[2]["range"].removeprefix("bytes=").partition("-")[0])
        same = [
            headers
            for _, _, headers in endpoint.requests
            if headers["range"] == request[2]["range"]
        ]
        reply = endpoint.answer if len(same) > start >> 12 else partial(busy, endpoint)
        reply(connection, request)

    endpoint.lasting = flaky
    assert bytes(store.read_ranges("a", [(0, len(DATA))])[0]) == DATA


@pytest.mark.parametrize(("etag", "data"), [('"2"', DATA), ('"1"', DATA + b"x")])
def test_an_object_replaced_between_two_reads_is_refused(endpoint, store, etag, data):
    with store.open_input("a", size=len(DATA)) as file:
        assert file.read_at(4, 0) == DATA[:4]
        endpoint.etag, endpoint.data = etag, data
        with pytest.raises(ObjectReplacedError, match=r"replaced while .* read it again"):
            file.read_at(4, 8)
    if data == DATA:
        assert store.open_input("a", size=len(DATA)).read() == DATA


def test_wrappers_keep_the_identity_of_an_open_file(endpoint, store):
    """As `FileStores` and an observer wrap it."""
    wrapped = RetryingStore(MeteredStore(store), CONFIG, errors=(ObjectNotFoundError,))
    file = wrapped.open_input("a", size=len(DATA))
    assert file.read_at(4, 0) == DATA[:4]
    endpoint.etag = '"2"'
    with pytest.raises(ObjectReplacedError):
        file.read_at(4, 8)


def test_an_object_replaced_after_its_head_is_refused(endpoint, store):
    file = store.open_input("a")
    endpoint.etag = '"2"'
    with pytest.raises(ObjectReplacedError):
        file.read()


def test_the_parts_of_one_read_belong_to_one_object(endpoint, store, monkeypatch):
    monkeypatch.setattr(tuning, "RANGE_PART", 1 << 12)

    def replaced(endpoint, connection, request):
        if request[2]["range"].startswith("bytes=8192"):
            head = "HTTP/1.1 206 X\r\nContent-Length: 4096\r\nETag: other\r\n"
            span = f"Content-Range: bytes 8192-12287/{len(DATA)}\r\n"
            date = "Last-Modified: Sun, 15 Nov 2026 12:00:00 GMT\r\n\r\n"
            connection.sendall((head + span + date).encode() + bytes(4096))
        else:
            endpoint.answer(connection, request)

    endpoint.lasting = replaced
    with pytest.raises(ObjectReplacedError):
        store.read_ranges("a", [(0, len(DATA))])


def xml(code, message=""):
    return f"<Error><Code>{code}</Code><Message>{message}</Message></Error>".encode()


CREATE = lambda store: store.write("a", b"x", overwrite=False)  # noqa: E731
LIST = lambda store: list(store.list_from("d"))  # noqa: E731
READ = lambda store: store.read("a")  # noqa: E731


@pytest.mark.parametrize(
    ("call", "answer", "error", "cause"),
    [
        (CREATE, (501, xml("NotImplemented")), StoreError, "does not support conditional writes"),
        (READ, (501, b""), StoreError, "does not support this request"),
        (READ, (400, xml("ExpiredToken")), StoreAccessError, "expired.*get a new one"),
        (READ, (401, xml("X", "The token is expired.")), StoreAccessError, "expired"),
        (READ, (403, xml("RequestTimeTooSkewed")), StoreAccessError, "clock"),
        (READ, (403, xml("AccessDenied")), StoreAccessError, "check the credentials"),
        (LIST, (403, xml("AccessDenied")), StoreAccessError, "check the credentials"),
        (
            LIST,
            (404, xml("NoSuchBucket")),
            ObjectNotFoundError,
            "bucket or container does not exist",
        ),
        (LIST, (404, b"<p>no page"), ObjectNotFoundError, "endpoint answers 404"),
        (CREATE, (404, b"<p>no page"), ObjectNotFoundError, "endpoint answers 404"),
    ],
)
def test_a_permanent_error_names_its_cause_at_once(endpoint, store, call, answer, error, cause):
    endpoint.lasting = replies(*answer)
    with pytest.raises(StoreError, match=cause) as raised:
        call(store)
    assert type(raised.value) is error
    assert len(endpoint.requests) == 1


@pytest.mark.parametrize(
    ("body", "cause"),
    [
        (b"", "not a listing"),
        (b"garbage", "not a listing"),
        (b"<html><p>Sign in<br></html>", "not a listing"),
        (b"<html><p>Sign in</p></html>", "empty listing is not one"),  # well-formed
    ],
)
def test_an_answer_that_is_no_listing_is_an_error(endpoint, store, body, cause):
    endpoint.lasting = replies(200, body)
    with pytest.raises(TransientStoreError, match=cause):
        list(store.list_from("d"))


def test_an_empty_listing_is_confirmed_by_a_missing_object(endpoint, store):
    empty = replies(200, b"<ListBucketResult></ListBucketResult>")
    endpoint.lasting = lambda e, c, r: (empty if r[0] == "GET" else replies(404, b""))(e, c, r)
    assert list(store.list_from("d")) == []
    assert [method for method, _, _ in endpoint.requests] == ["GET", "HEAD"]
    assert list(store.list_from("d", after="a")) == []
    assert [method for method, _, _ in endpoint.requests] == ["GET", "HEAD", "GET"]


@pytest.mark.parametrize(
    ("url", "other", "error", "cause"),
    [
        ("{url}", {"allow_http": "false"}, StoreError, "allow_http=true"),
        ("https{tail}", {}, StoreError, "does not speak TLS"),
        ("https://no-such-host.invalid", {}, StoreError, "does not resolve"),
        ("http://127.0.0.1:9", {}, TransientStoreError, "connection was refused"),
    ],
)
def test_an_unreachable_endpoint_names_its_cause(endpoint, url, other, error, cause):
    where = url.format(url=endpoint.url, tail=endpoint.url.removeprefix("http"))
    inner = open_store("s3://lake/t", {**options(endpoint), "endpoint": where, **other})
    with pytest.raises(StoreError, match=cause) as raised:
        RetryingStore(inner, CONFIG).read("a")
    assert type(raised.value) is error
    assert where in str(raised.value), "the endpoint is named"


def test_an_untrusted_certificate_is_named():
    detail = "kind: Connect, source: InvalidData, error: InvalidCertificate(\n    UnknownIssuer,\n)"
    failed = exceptions.GenericError(f"error sending request\n\nDebug source:\n{detail}")
    error = to_store_error(exceptions, failed, "s3://lake/t/a", operation="read")
    assert type(error) is StoreError
    assert "certificate of the endpoint is not trusted" in error.reason
    assert "UnknownIssuer" not in error.reason


def test_a_failed_credential_provider_is_an_access_error():
    failed = exceptions.UnauthenticatedError("External credential provider: run az login")
    error = to_store_error(exceptions, failed, "az://lake/t/a", operation="read")
    assert type(error) is StoreAccessError
    assert "run az login" in error.reason


@pytest.mark.parametrize("fault", [reset, replies(403, b"")])
def test_missing_credentials_name_what_was_tried(endpoint, monkeypatch, fault):
    for name in os.environ:
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    endpoint.lasting = fault
    given = {"metadata_endpoint": endpoint.url, "region": "eu-west-1", "allow_http": "true"}
    store = open_store("s3://lake/t", {**given, "endpoint": "https://s3.invalid"})
    with pytest.raises(StoreAccessError, match=f"no credentials: .*{endpoint.url}"):
        RetryingStore(store, CONFIG).read("a")
    assert {path for _, path, _ in endpoint.requests} == {"/latest/api/token"}


def test_a_small_output_is_put_again_after_a_failure(endpoint, store):
    endpoint.faults = [busy, reset]
    output = open_output(store, "new")
    output.file.write(b"data")
    output.publish()
    assert [method for method, _, _ in endpoint.requests] == ["PUT"] * 3


def test_an_output_is_discarded_after_a_failed_publication(endpoint, store):
    endpoint.lasting = busy
    output = open_output(store, "new")
    output.file.write(b"data")
    try:
        output.publish()
    except TransientStoreError:  # its traceback refers to the bytes
        output.discard()
    assert endpoint.requests


def test_secrets_are_in_no_message(endpoint, store, caplog):
    """The answer echoes the secret; the loser of a hedged request fails after the call."""
    caplog.set_level(logging.DEBUG)
    endpoint.lasting = replies(403, xml("SignatureDoesNotMatch", f"signed with {SECRET}"))
    for call in (READ, LIST, CREATE):
        with pytest.raises(StoreAccessError) as raised:
            call(store)
        shown = "".join(traceback.format_exception(raised.value))
        assert "***" in shown
        assert SECRET not in shown + repr(raised.value) + str(raised.value.__dict__)
        assert endpoint.url in shown
    gc.collect()
    assert SECRET not in caplog.text


def test_the_error_of_a_cancelled_straggler_is_not_logged(endpoint, monkeypatch, caplog):
    monkeypatch.setattr(tuning, "HEDGE_AFTER_SECONDS", 0.05)
    sas = f"sv=2023-11-03&sig={SECRET}"
    given = {"account_name": "a", "sas_token": sas, "endpoint": endpoint.url, "allow_http": "true"}
    store = open_store("az://lake/t", given)

    def late_failure(endpoint, connection, _):
        time.sleep(0.15)
        busy(endpoint, connection, None)

    def later_answer(endpoint, connection, request):
        time.sleep(0.3)
        endpoint.answer(connection, request)

    endpoint.faults = [late_failure, later_answer]
    assert bytes(store.read("a")) == DATA
    gc.collect()
    run(asyncio.sleep(0))
    assert SECRET in endpoint.requests[0][1]
    assert SECRET not in caplog.text
    assert "never retrieved" not in caplog.text


def test_an_interrupt_ends_a_waiting_read(endpoint, store):
    endpoint.lasting = stall
    waiting = threading.Timer(0.2, signal.raise_signal, (signal.SIGINT,))
    waiting.start()
    with pytest.raises(KeyboardInterrupt):
        RetryingStore(store.inner, Config()).read("a")
    assert endpoint.closed_early.wait(10), "the request is cancelled"
    waiting.join()
