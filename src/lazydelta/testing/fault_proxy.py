r"""Reverse proxy that adds latency, records requests and injects faults, for tests of stores.

    fault = ProxyFault(action="answer", status=503, method="GET", path=r"\.json$", times=2)
    with FaultProxy("http://127.0.0.1:10000/devstoreaccount1", latency=0.03) as proxy:
        proxy.inject(fault)
        table = Table.open("az://lake/t", storage_options={"endpoint": proxy.endpoint, ...})
        table.count()
        print(proxy.summary())

It speaks HTTP/1.1 with keep-alive on loopback. Request bodies are held in memory, response bodies
are streamed.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import socket
import struct
import threading
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Self
from urllib.parse import unquote, urlsplit, urlunsplit

from lazydelta.testing.http_messages import BUFFER, Head, has_body, read_body, read_head

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["FaultProxy", "ProxyFault", "ProxyRequest", "ProxySummary", "dependency_depth"]

Action = Literal["answer", "drip", "flip", "lost", "reset", "stall", "truncate"]

_ERROR_PAGE = b"<html><body><h1>This is not what you asked for</h1></body></html>\n"
_DRIP_PIECES = 16
_IDLE_SECONDS = 2.0  # Node.js closes idle connections after 5 s
_BACKLOG = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyFault:
    r"""A rule: which requests fail, and how.

    Actions before the request reaches the upstream: `answer` responds with `status` and `body`
    (with 200 it is a garbage response), `reset` closes the connection with a TCP reset, `stall`
    never responds. Actions on the response: `lost` drops it and resets the connection, `truncate`
    closes the connection within the body, `flip` inverts one byte of the body, `drip` sends the
    body in 16 pieces, one every `seconds`.

    >>> ProxyFault(action="answer", status=429, retry_after=1, path=r"\.json$").status
    429
    """

    action: Action
    method: str = ""
    """Any method by default."""
    path: str = ""
    """Regular expression, searched in the decoded path and query."""
    nth: int = 1
    """The first matching request that can fail, counted from 1."""
    times: int | None = 1
    """How many requests fail; `None` is all."""
    probability: float = 1.0
    """Probability that a matching request fails, drawn from `seed`."""
    seed: int = 0
    status: int = 200
    body: bytes = _ERROR_PAGE
    retry_after: int | None = None
    """The `Retry-After` header of an `answer`, in seconds."""
    at: float = 0.5
    """Where `truncate` and `flip` apply: 0 is the start of the body, 1 the end."""
    seconds: float = 1.0
    """Delay between two pieces of a `drip`; a large one stalls within the body."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyRequest:
    """One recorded request. Times are those of `time.monotonic`."""

    method: str
    target: str
    """Path and query as received."""
    range: str
    """The `Range` or `x-ms-range` header, or an empty string."""
    start: float
    """When the head of the request was received."""
    end: float = 0.0
    """When the last byte of the response was sent, or the connection was lost."""
    status: int | None = None
    """`None` if no response was sent."""
    sent: int = 0
    """Body bytes sent to the client."""
    received: int = 0
    """Body bytes received from the client."""
    fault: Action | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxySummary:
    """Totals of the recorded requests."""

    requests: int
    sent: int
    received: int
    depth: int


def dependency_depth(requests: Iterable[ProxyRequest]) -> int:
    """Return the length of the longest chain of requests that each start after the previous end.

    The number of round trips that no concurrency can hide. It is meaningful only with a latency
    well above the time that the client needs between two requests.

    >>> spans = [(0, 2), (1, 3), (2, 4), (5, 6)]
    >>> dependency_depth(
    ...     ProxyRequest(method="GET", target="/", range="", start=start, end=end)
    ...     for start, end in spans
    ... )
    3
    """
    depth, last = 0, float("-inf")
    # Of the requests that can extend a chain, the one that ends first leaves the most room.
    for request in sorted(requests, key=lambda request: request.end):
        if request.start >= last:
            depth, last = depth + 1, request.end
    return depth


class FaultProxy:
    """A reverse proxy on loopback, run by a background thread; use it as a context manager.

    Args:
        upstream: URL of the server, such as an emulator's endpoint. Only `http` is supported.
        latency: Seconds by which every response is delayed; may be set while running.
        rewrite_host: Whether the upstream receives its own `Host` header. By default it receives
            the client's, which signatures of S3 cover.
    """

    def __init__(self, upstream: str, *, latency: float = 0.0, rewrite_host: bool = False) -> None:
        self._upstream = urlsplit(upstream)
        self.host = self._upstream.netloc if rewrite_host else None
        self.latency = latency
        self._rules: list[_Rule] = []
        self._recorded: list[ProxyRequest] = []
        self._idle: list[tuple[float, asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._connections: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop
        self._listener: socket.socket
        self._stop = asyncio.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve()), name="fault-proxy", daemon=True
        )

    @property
    def endpoint(self) -> str:
        """The upstream's URL with the address of the proxy."""
        address = "{}:{}".format(*self._listener.getsockname())
        return urlunsplit(self._upstream._replace(netloc=address))

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG)
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        """Close all connections and stop the thread."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def inject(self, *faults: ProxyFault) -> None:
        """Replace all faults and restart their counts; the first fault that hits applies."""
        self._rules = [_Rule(fault) for fault in faults]

    def requests(self) -> list[ProxyRequest]:
        """Return the completed requests in the order of their start."""
        self._settle()
        return sorted(self._recorded, key=lambda request: request.start)

    def clear(self) -> None:
        """Forget the recorded requests."""
        self._settle()
        self._recorded = []

    def summary(self) -> ProxySummary:
        """Return number, bytes and dependency depth of the recorded requests."""
        requests = self.requests()
        return ProxySummary(
            requests=len(requests),
            sent=sum(request.sent for request in requests),
            received=sum(request.received for request in requests),
            depth=dependency_depth(requests),
        )

    def _settle(self) -> None:
        """Wait until requests whose last byte was sent are recorded."""
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(_iterate(), self._loop).result()

    # --- everything below runs in the thread of the event loop

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        server = await asyncio.start_server(self._accept, sock=self._listener, limit=4 * BUFFER)
        self._ready.set()
        await self._stop.wait()
        # asyncio leaks a connection that it accepts in the iteration in which the server closes.
        self._loop.remove_reader(self._listener)
        await _iterate()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        server.close()
        for _, _, writer in self._idle:
            writer.transport.abort()
        await _iterate()  # transports close their sockets in the next iteration

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        # asyncio sets this only on sockets with an explicit protocol, which accepted ones lack.
        # Without it a body waits 40 ms for the client's delayed ACK of the head.
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # `drain` then waits for the last byte, so that the end of a request is not recorded early.
        writer.transport.set_write_buffer_limits(high=0)
        with contextlib.suppress(OSError, EOFError, ValueError, asyncio.CancelledError):
            while await _Exchange(self, reader, writer).run():
                pass
        self._connections.discard(task)
        # As `close`, but without waiting for a client that no longer reads.
        writer.transport.abort()

    def fault_for(self, method: str, target: str) -> ProxyFault | None:
        """Return the fault of a request, and count it."""
        return next((rule.fault for rule in self._rules if rule.hits(method, target)), None)

    def record(self, request: ProxyRequest) -> None:
        """Keep a completed request."""
        self._recorded.append(request)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return a connection to the upstream, a recently used one if there is one."""
        while self._idle:
            since, reader, writer = self._idle.pop()
            if time.monotonic() - since < _IDLE_SECONDS and not reader.at_eof():
                return reader, writer
            writer.transport.abort()
        host, port = self._upstream.hostname, self._upstream.port or 80
        return await asyncio.open_connection(host, port, limit=4 * BUFFER)

    def release(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Keep a connection whose response was read completely."""
        self._idle.append((time.monotonic(), reader, writer))


class _Rule:
    """A fault and how often it matched."""

    def __init__(self, fault: ProxyFault) -> None:
        self.fault = fault
        self._path = re.compile(fault.path)
        self._matches = 0
        self._hits = 0
        self._random = random.Random(fault.seed)  # noqa: S311 - reproducible, not secret

    def hits(self, method: str, target: str) -> bool:
        fault = self.fault
        if fault.method not in ("", method) or not self._path.search(unquote(target)):
            return False
        self._matches += 1
        if self._matches < fault.nth or self._hits == fault.times:
            return False
        if self._random.random() >= fault.probability:
            return False
        self._hits += 1
        return True


class _Exchange:
    """One request on a client's connection, and its response."""

    def __init__(
        self, proxy: FaultProxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._proxy = proxy
        self._reader = reader
        self._writer = writer
        self._status: int | None = None
        self._sent = 0

    async def run(self) -> bool:
        """Return whether the connection can serve another request."""
        head = await read_head(self._reader)
        if head is None:
            return False
        method, target, version = head.start
        fault = self._proxy.fault_for(method, target)
        request = ProxyRequest(
            method=method,
            target=target,
            range=head.get("range") or head.get("x-ms-range"),
            start=time.monotonic(),
            fault=fault.action if fault else None,
        )
        try:
            if head.get("expect"):
                self._writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            body = b"".join([piece async for piece in read_body(self._reader, head)])
            request = replace(request, received=len(body))
            if fault is not None and fault.action in ("answer", "reset", "stall"):
                keep = await self._refuse(fault, method)
            else:
                keep = await self._forward(head, body, fault)
        finally:
            self._proxy.record(
                replace(request, end=time.monotonic(), status=self._status, sent=self._sent)
            )
        return keep and version == "HTTP/1.1" and head.get("connection").lower() != "close"

    async def _refuse(self, fault: ProxyFault, method: str) -> bool:
        """Apply a fault without the upstream."""
        if fault.action == "stall":
            while await self._reader.read(BUFFER):
                pass
            return False
        await asyncio.sleep(self._proxy.latency)
        if fault.action == "reset":
            return self._reset()
        headers = [("Content-Type", "text/html")]
        if fault.retry_after is not None:
            headers.append(("Retry-After", str(fault.retry_after)))
        head = Head(("HTTP/1.1", str(fault.status), "Injected"), tuple(headers))
        body = fault.body if has_body(method, head) else b""
        self._status = fault.status
        await self._send(head.encode(length=len(body)), body)
        return True

    async def _forward(self, head: Head, body: bytes, fault: ProxyFault | None) -> bool:
        """Send the request to the upstream and its response to the client."""
        proxy, method = self._proxy, head.start[0]
        reader, writer = await proxy.connect()
        done = False
        try:
            has_length = body or head.get("content-length") or method in ("PUT", "POST")
            if proxy.host:
                head = head.with_host(proxy.host)
            writer.write(head.encode(length=len(body) if has_length else None) + body)
            await writer.drain()
            answer = await read_head(reader)
            while answer is not None and answer.start[1].startswith("1"):
                answer = await read_head(reader)
            if answer is None:
                raise ConnectionResetError
            await asyncio.sleep(proxy.latency)
            keep = await self._respond(method, answer, reader, fault)
            done = keep and _is_persistent(answer)
            return keep
        finally:
            if done:
                proxy.release(reader, writer)
            else:
                writer.transport.abort()

    async def _respond(
        self, method: str, answer: Head, reader: asyncio.StreamReader, fault: ProxyFault | None
    ) -> bool:
        answer = replace(answer, start=("HTTP/1.1", answer.start[1], answer.start[2]))
        is_empty = not has_body(method, answer)
        pieces = read_body(reader, answer, until_close=True)
        if fault is not None:
            body = b"" if is_empty else b"".join([piece async for piece in pieces])
            head = answer.encode(length=None if is_empty else len(body))
            return await self._spoil(fault, int(answer.start[1]), head, body)
        self._status = int(answer.start[1])
        is_chunked = not (is_empty or answer.get("content-length"))
        await self._send(answer.encode(is_chunked=is_chunked))
        if is_empty:
            return True
        async for piece in pieces:
            if is_chunked:
                await self._send(f"{len(piece):x}\r\n".encode(), piece, b"\r\n")
            else:
                await self._send(b"", piece)
        if is_chunked:
            await self._send(b"0\r\n\r\n")
        return True

    async def _spoil(self, fault: ProxyFault, status: int, head: bytes, body: bytes) -> bool:
        """Apply a fault to a complete response."""
        if fault.action == "lost":
            return self._reset()
        self._status = status
        cut = int(len(body) * fault.at)
        if fault.action == "truncate":
            await self._send(head if body else head[: len(head) // 2], body[:cut])
            return False
        if fault.action == "flip":
            spoiled = bytearray(body)
            if spoiled:
                spoiled[min(cut, len(body) - 1)] ^= 0xFF
            await self._send(head, bytes(spoiled))
            return True
        await self._send(head)
        step = -(-len(body) // _DRIP_PIECES) or 1
        for start in range(0, len(body), step):
            await self._send(b"", body[start : start + step])
            await asyncio.sleep(fault.seconds)
        return True

    async def _send(self, before: bytes, body: bytes = b"", after: bytes = b"") -> None:
        """Send, and count only the bytes of the body."""
        self._writer.writelines([part for part in (before, body, after) if part])
        await self._writer.drain()
        self._sent += len(body)

    def _reset(self) -> bool:
        """Close the connection with a TCP reset."""
        connection = self._writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()
        return False


async def _iterate() -> None:
    """Let the event loop run everything that is ready, and what that makes ready."""
    for _ in range(5):
        await asyncio.sleep(0)


def _is_persistent(answer: Head) -> bool:
    """Whether the upstream's connection can serve another request."""
    is_framed = bool(answer.get("content-length") or answer.get("transfer-encoding"))
    return is_framed and answer.start[0] == "HTTP/1.1" and answer.get("connection") != "close"
