"""`python -P -m lazydelta.ffi.worker`: one scan at a time, for the process at the other end.

Standard input is a stream socket. A worker that loses its host ends at once, whatever it does.
"""

from __future__ import annotations

import os
import queue
import signal
import socket
import struct
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from lazydelta.errors import DeltaError, InternalError
from lazydelta.ffi.arrow_frames import batch_frame, schema_frame
from lazydelta.ffi.requests import OpenTables
from lazydelta.ffi.status import status_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lazydelta.ffi.requests import Answer

__all__ = ["main"]

PROTOCOL = 1
_HEAD = struct.Struct("=iIq")  # kind, number of the request, length of the payload

# Kinds of frames; capi/wire.h has the same.
HELLO, SCHEMA, BATCH, END, ERROR = 1, 2, 3, 4, 5
OPEN, LAZY, PLAN, CANCEL = 11, 12, 13, 14


class Frame(NamedTuple):
    """A frame of the host."""

    kind: int
    number: int
    payload: bytes


class Worker:
    """Serves the host at the other end of a socket."""

    def __init__(self, host: socket.socket) -> None:
        self._host = host
        self._requests: queue.SimpleQueue[Frame] = queue.SimpleQueue()
        self._cancelled = 0  # number of the latest request that the host cancelled
        self._tables = OpenTables()

    def run(self) -> None:
        """Serve until the host is gone."""
        threading.Thread(target=self._receive, name="ffi-host", daemon=True).start()
        self._send(HELLO, 0, struct.pack("=i", PROTOCOL))
        while True:
            request = self._requests.get()
            try:
                self._answer(request)
            except DeltaError as error:
                self._send_error(request.number, error)
            except (ArithmeticError, LookupError, TypeError, ValueError, OSError) as error:
                wrapped = InternalError(f"{type(error).__name__}: {error}")
                self._send_error(request.number, wrapped)

    def _answer(self, request: Frame) -> None:
        fields = request.payload.decode().split("\0")
        answers = {OPEN: self._tables.open, LAZY: self._tables.lazy, PLAN: self._tables.plan}
        answer = answers[request.kind](*fields)
        with suppress(BrokenPipeError), answer.batches as batches:
            self._send_batches(request.number, answer, batches)

    def _send_batches(self, number: int, answer: Answer, batches: Iterable) -> None:
        self._send(SCHEMA, number, struct.pack("=q", answer.version), schema_frame(answer.schema))
        for batch, token in batches:
            if self._cancelled == number:
                break
            positions, block = batch_frame(batch, token)
            self._send(BATCH, number, positions, memoryview(block))
        self._send(END, number)

    def _send_error(self, number: int, error: DeltaError) -> None:
        name = type(error).__name__.encode()
        text = struct.pack("=i", status_of(error)) + name + b"\0" + str(error).encode() + b"\0"
        self._send(ERROR, number, text)

    def _send(self, kind: int, number: int, *parts: bytes | memoryview) -> None:
        length = sum(map(len, parts))
        self._host.sendall(b"".join((_HEAD.pack(kind, number, length), *parts[:-1])))
        if parts:
            self._host.sendall(parts[-1])

    def _receive(self) -> None:
        """Queue requests; a cancellation overtakes them."""
        with suppress(OSError):
            while len(head := self._host.recv(_HEAD.size, socket.MSG_WAITALL)) == _HEAD.size:
                kind, number, length = _HEAD.unpack(head)
                payload = self._host.recv(length, socket.MSG_WAITALL) if length else b""
                if kind == CANCEL:
                    self._cancelled = number
                else:
                    self._requests.put(Frame(kind, number, payload))
        os._exit(0)


def main() -> None:
    """Serve standard input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the host, which then ends this
    # What the host left open is not ours: a pipe would stay open for as long as this process.
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    with socket.socket(fileno=0) as host:
        Worker(host).run()


if __name__ == "__main__":
    main()
