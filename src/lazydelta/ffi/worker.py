"""`python -P -m lazydelta.ffi.worker`: one scan at a time, for the process at the other end.

Standard input is a stream socket; capi/wire.c is the other side. A worker that loses its host ends
at once, whatever it does.
"""

from __future__ import annotations

import gc
import os
import queue
import signal
import socket
import struct
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from lazydelta._cancellation import Cancellation
from lazydelta.errors import ConfigError, DeltaError, InternalError
from lazydelta.ffi import tuning
from lazydelta.ffi.arrow_frames import batch_frame, schema_frame
from lazydelta.ffi.open_tables import OpenTables
from lazydelta.ffi.status import status_of
from lazydelta.serving import error_kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lazydelta.ffi.open_tables import Answer
    from lazydelta.scan import Delivered

__all__ = ["main"]

_PROTOCOL = 1
_HEAD = struct.Struct("=iIq")  # kind, number of the request, length of the payload

# Kinds of frames; capi/internal.h has the same.
_HELLO, _SCHEMA, _BATCH, _END, _ERROR = 1, 2, 3, 4, 5
_OPEN, _LAZY, _PLAN, _CANCEL = 11, 12, 13, 14


class Request(NamedTuple):
    """A frame of the host."""

    kind: int
    number: int
    payload: bytes
    work: Cancellation


class Worker:
    """Serves the host at the other end of a socket."""

    def __init__(self, host: socket.socket) -> None:
        self._host = host
        self._requests: queue.SimpleQueue[Request] = queue.SimpleQueue()
        self._tables = OpenTables()

    def run(self) -> None:
        """Serve until the host is gone."""
        threading.Thread(target=self._receive, name="ffi-host", daemon=True).start()
        self._send(_HELLO, 0, struct.pack("=i", _PROTOCOL))
        while True:
            request = self._requests.get()
            try:
                self._answer(request)
            except DeltaError as error:
                self._send_error(request.number, error)
            except Exception as error:  # noqa: BLE001 - the entry point: the host gets a status
                problem = InternalError(f"{type(error).__name__}: {error}")
                self._send_error(request.number, problem)

    def _answer(self, request: Request) -> None:
        with request.work.active():
            answer = self._start(request.kind, _fields(request.payload))
            with answer.batches as batches:
                self._send_batches(request, answer, batches)
        # After the stream is closed: the host may send the next request now.
        self._send(_END, request.number)

    def _start(self, kind: int, fields: list[str]) -> Answer:
        if kind == _OPEN:
            return self._tables.open(*fields)
        return self._tables.lazy(*fields) if kind == _LAZY else self._tables.plan(*fields)

    def _send_batches(self, request: Request, answer: Answer, batches: Iterable[Delivered]) -> None:
        version = struct.pack("=q", answer.version)
        self._send(_SCHEMA, request.number, version, schema_frame(answer.schema))
        for batch, token in batches:
            if request.work.is_set:
                break
            positions, block = batch_frame(batch, token)
            self._send(_BATCH, request.number, positions, memoryview(block))

    def _send_error(self, number: int, error: DeltaError) -> None:
        strings = (error_kind(error), str(error))
        encoded = (text.replace("\0", "").encode(errors="replace") + b"\0" for text in strings)
        self._send(_ERROR, number, struct.pack("=i", status_of(error)), b"".join(encoded))

    def _send(self, kind: int, number: int, *parts: bytes | memoryview) -> None:
        length = sum(map(len, parts))
        try:
            self._host.sendall(b"".join((_HEAD.pack(kind, number, length), *parts[:-1])))
            if parts:
                self._host.sendall(parts[-1])
        except OSError:
            os._exit(0)  # the host is gone

    def _receive(self) -> None:
        """Queue requests, and cancel the newest one: the host sends the next when it has ended."""
        newest: Request | None = None
        with suppress(OSError):
            while len(head := self._host.recv(_HEAD.size, socket.MSG_WAITALL)) == _HEAD.size:
                kind, number, length = _HEAD.unpack(head)
                payload = self._host.recv(length, socket.MSG_WAITALL) if length else b""
                if kind != _CANCEL:
                    newest = Request(kind, number, payload, Cancellation())
                    self._requests.put(newest)
                elif newest is not None and newest.number == number:
                    newest.work.cancel()
        os._exit(0)


def _fields(payload: bytes) -> list[str]:
    """Return the strings of a request.

    Raises:
        ConfigError: They are not UTF-8.
    """
    try:
        return payload.decode().split("\0")
    except UnicodeDecodeError as error:
        raise ConfigError("arguments", f"must be UTF-8: {error}") from None


def main() -> None:
    """Serve standard input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the host, which then ends this
    gc.set_threshold(tuning.OBJECTS_PER_COLLECTION)
    with socket.socket(fileno=0) as host:
        Worker(host).run()


if __name__ == "__main__":
    main()
