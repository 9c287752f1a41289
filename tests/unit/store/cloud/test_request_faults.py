"""Faults of a store, by an S3 endpoint on loopback: right bytes or a typed error, in bounded time."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import threading
import time
import traceback
from functools import partial

import pytest

from lazydelta.config import Config
from lazydelta.errors import (
    ObjectNotFoundError,
    ObjectReplacedError,
    StoreAccessError,
    TransientStoreError,
)
from lazydelta.store import open_output, open_store, tuning
from lazydelta.store.cloud.requests import run
from lazydelta.store.layers.metered_store import MeteredStore
from lazydelta.store.layers.retrying_store import RetryingStore
from tests.unit.store.cloud.endpoint import (
    CONFIG,
    CREATE,
    DATA,
    LIST,
    READ,
    SECRET,
    busy,
    cut,
    drip,
    options,
    replies,
    reset,
    stall,
    stall_in_the_body,
    xml,
)

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
