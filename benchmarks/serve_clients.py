"""Plain clients of both servers: what the cases of `benchmarks.serve` do with a scan."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlencode, urlsplit

import pyarrow.flight as fl

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.serve_process import ServerProcess

__all__ = ["FlightScan", "HttpScan", "RunningScan", "flight_readers"]

_CHUNK_BYTES = 2**20
_TAIL_BYTES = 2000
_RECEIVE_BYTES = 65_536


class RunningScan(Protocol):
    """A scan of the files of the table `t`. The server has answered that it runs."""

    def batch(self, size: int) -> None:
        """Read the next batch, of about this size."""

    def rest(self) -> None:
        """Read to the end.

        Raises:
            RuntimeError: The answer is incomplete.
        """

    def close(self) -> None:
        """Cancel it, and close the connection."""


class HttpScan:
    """A scan over HTTP, as an Arrow stream."""

    def __init__(self, server: ServerProcess, **parameters: Any) -> None:
        address = urlsplit(server.url)
        self._socket = socket.socket()
        # A client that reads slowly shall not have its batches in a buffer of the system.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BYTES)
        self._socket.settimeout(120)
        self._socket.connect((address.hostname, address.port))
        self._socket.sendall(
            f"GET /v1/tables/t/files?{urlencode(parameters)} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            "Accept: application/vnd.apache.arrow.stream\r\nConnection: close\r\n\r\n".encode()
        )
        if b" 200 " not in (head := self._socket.recv(64, socket.MSG_WAITALL)):
            raise RuntimeError(f"the server answered {head!r}")

    def batch(self, size: int) -> None:
        """Read the next batch, of about this size."""
        while size > 0 and (data := self._socket.recv(min(size, _CHUNK_BYTES))):
            size -= len(data)

    def rest(self) -> None:
        """Read to the end; see `RunningScan`."""
        tail = b""
        while data := self._socket.recv(_CHUNK_BYTES):
            tail = (tail + data)[-_TAIL_BYTES:]
        if b"end" not in tail or not tail.endswith(b"0\r\n\r\n"):
            raise RuntimeError("the answer is incomplete")

    def close(self) -> None:
        """Disconnect."""
        self._socket.close()


class FlightScan:
    """A scan over Arrow Flight."""

    def __init__(self, server: ServerProcess, **command: Any) -> None:
        self._client = fl.connect(f"grpc://127.0.0.1:{server.flight_port}")
        (self._reader,) = flight_readers(self._client, **command)

    def batch(self, size: int) -> None:
        """Read the next batch."""
        del size
        self._reader.read_chunk()

    def rest(self) -> None:
        """Read to the end; see `RunningScan`."""
        for _ in self._reader:
            pass

    def close(self) -> None:
        """Cancel the call, and close the connection."""
        self._reader.cancel()
        self._client.close()


def flight_readers(client: fl.FlightClient, **command: Any) -> Iterator[fl.FlightStreamReader]:
    """Yield a reader for each endpoint of a command."""
    descriptor = fl.FlightDescriptor.for_command(json.dumps({"table": "t", **command}))
    for endpoint in client.get_flight_info(descriptor).endpoints:
        yield client.do_get(endpoint.ticket)
