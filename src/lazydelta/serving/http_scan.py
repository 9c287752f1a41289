"""The HTTP response of a scan: batches are read and sent one by one, until either side ends.

The scan runs in worker threads, a batch at a time, and only when the last batch is nearly all in
the network. Waiting for the client and for the scan happens in the event loop, so that a slow or
silent client costs memory for one batch and no thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from lazydelta._cancellation import Cancellation
from lazydelta.errors import DeltaError, ScanCancelledError
from lazydelta.serving import tuning
from lazydelta.serving.error_codes import public_error
from lazydelta.serving.http_formats import encoder

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from concurrent.futures import Future

    from starlette.datastructures import State
    from starlette.requests import Request
    from starlette.types import Message, Receive, Scope, Send

    from lazydelta.scan import Delivered
    from lazydelta.serving.http_formats import Encoder
    from lazydelta.serving.http_threads import Threads
    from lazydelta.serving.limits import Slot
    from lazydelta.serving.principal import Principal
    from lazydelta.serving.request import ScanRequest
    from lazydelta.serving.service import ScanService
    from lazydelta.serving.streams import ScanStream

__all__ = ["ScanAnswer", "scan_answer", "wait_for_slot"]

logger = logging.getLogger(__name__)


async def wait_for_slot(service: ScanService, principal: Principal) -> Slot:
    """Wait for a slot without a thread.

    Raises:
        OverloadedError: There is none at once or in time.
    """
    waiting = service.admission.request(principal)
    try:
        return await asyncio.wait_for(
            asyncio.wrap_future(waiting), service.config.limits.queue_seconds
        )
    except TimeoutError:
        if waiting.cancel():
            raise service.admission.timed_out() from None
        return waiting.result()  # granted at this moment
    except asyncio.CancelledError:
        if not waiting.cancel():
            with contextlib.suppress(DeltaError):
                waiting.result().release()
        raise


async def scan_answer(
    service: ScanService,
    threads: Threads,
    request: ScanRequest,
    http: Request,
    media_type: str,
) -> ScanAnswer:
    """Open a scan and read its first batch, so that errors until then have their own status.

    Raises:
        DeltaError: The request is invalid or refused, or the table cannot be read.
        ScanCancelledError: The client left meanwhile.
    """
    watch = asyncio.create_task(_until_disconnected(http.receive))
    opening = asyncio.create_task(
        _opened(service, threads, request, http.state.principal, media_type)
    )
    try:
        await asyncio.wait({opening, watch}, return_when=asyncio.FIRST_COMPLETED)
        if watch.done():
            opening.cancel()
        opened = await opening
    except BaseException as error:
        opening.cancel()
        watch.cancel()
        if watch.done() and isinstance(error, asyncio.CancelledError):
            raise ScanCancelledError from None
        raise
    return ScanAnswer(service, threads, opened, request=request, state=http.state, watch=watch)


class _Opened(NamedTuple):
    """A scan with its first batch."""

    stream: ScanStream
    encode: Encoder
    first: Delivered | None
    client: Cancellation
    media_type: str


async def _opened(
    service: ScanService,
    threads: Threads,
    request: ScanRequest,
    principal: Principal,
    media_type: str,
) -> _Opened:
    slot = await wait_for_slot(service, principal)
    client = Cancellation()

    def start() -> _Opened:
        stream = service.streams.open(request, principal, client, slot=slot)
        try:
            encode = encoder(media_type, stream.schema)
            return _Opened(stream, encode, next(stream, None), client, media_type)
        except BaseException:
            stream.close()
            raise

    # Not cancellable: the thread runs on, and what it opens must be closed.
    started = threads.submit(start)
    try:
        return await asyncio.wrap_future(started)
    except asyncio.CancelledError:
        client.cancel()
        if started.cancel():
            slot.release()
        else:
            started.add_done_callback(partial(_close_started, threads))
        raise


def _close_started(threads: Threads, started: Future[_Opened]) -> None:
    if started.exception() is None:
        threads.close(started.result().stream)


class ScanAnswer:
    """An ASGI response that streams a scan."""

    status_code = 200

    def __init__(
        self,
        service: ScanService,
        threads: Threads,
        opened: _Opened,
        *,
        request: ScanRequest,
        state: State,
        watch: asyncio.Task[None],
    ) -> None:
        self._service = service
        self._threads = threads
        self._stream = opened.stream
        self._encode = opened.encode
        self._first = opened.first
        self._client = opened.client
        self._request = request
        self._state = state
        self._watch = watch
        self._labels = {"protocol": "http", "mode": request.mode}
        self._outcome = "complete"
        self._bytes = 0
        self.headers = {
            "content-type": opened.media_type,
            "delta-table-version": str(opened.stream.version),
            "x-accel-buffering": "no",
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the scan, and stop it when the client is gone."""
        pump = asyncio.create_task(self._pump(scope, send))
        del receive  # the task that waits for the disconnection has it
        watch = self._watch
        try:
            await asyncio.wait({pump, watch}, return_when=asyncio.FIRST_COMPLETED)
            if not pump.done():
                self._client.cancel()
                self._outcome = "disconnected"
                pump.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await pump
        finally:
            self._client.cancel()
            watch.cancel()
            pump.cancel()
            self._first = None
            self._threads.close(self._stream)
            self._record()

    async def _pump(self, scope: Scope, send: Send) -> None:
        raw = [(name.encode(), value.encode()) for name, value in self.headers.items()]
        await self._send(send, {"type": "http.response.start", "status": 200, "headers": raw})
        waited = time.monotonic() - self._state.started
        self._service.metrics.observe("first_batch_seconds", waited, **self._labels)
        if scope["method"] == "HEAD":
            await self._send(send, _body(b"", more=False))
            return
        await self._write(send, _parts(self._encode.start()))
        try:
            while (parts := await self._threads.run(self._read)) is not None:
                await self._write(send, parts)
        except Exception as error:  # noqa: BLE001 - the client must not take this for the end
            await self._fail(send, error)
            return
        stream = self._stream
        facts = {"rows": stream.rows, "version": stream.version, **stream.counters()}
        await self._write(send, _parts(self._encode.end(facts)))
        await self._send(send, _body(b"", more=False))

    async def _fail(self, send: Send, error: Exception) -> None:
        """End the stream so that it cannot be taken for complete."""
        found = public_error(error, self._request.table)
        if not found.code.explained:
            extra = {"request_id": self._state.request_id}
            logger.warning("scan failed", exc_info=error, extra=extra)
        self._outcome = found.kind
        line = self._encode.error(found.to_json(self._state.request_id))
        if line is not None:
            await self._write(send, _parts(line))
            await self._send(send, _body(b"", more=False))
        # Otherwise the server closes the connection without the final chunk.

    def _read(self) -> deque[bytes] | None:
        """Return the parts of the next batch; None at the end."""
        delivered, self._first = self._first or next(self._stream, None), None
        return None if delivered is None else _parts(self._encode.batch(delivered))

    async def _write(self, send: Send, parts: deque[bytes]) -> None:
        """Send parts; what a slow client has received is not held."""
        while parts:
            self._bytes += len(parts[0])
            await self._send(send, _body(parts.popleft(), more=True))

    async def _send(self, send: Send, message: Message) -> None:
        """Send a part; a client that does not read for too long has ended the scan."""
        seconds = self._service.config.limits.stall_seconds
        try:
            await asyncio.wait_for(_as_coroutine(send(message)), seconds)
        except TimeoutError:
            raise ScanCancelledError(f"the client did not read for {seconds:g} s") from None

    def _record(self) -> None:
        metrics, seconds = self._service.metrics, time.monotonic() - self._state.started
        metrics.count("scans_total", **self._labels, outcome=self._outcome)
        metrics.count("rows_total", self._stream.rows, **self._labels)
        metrics.count("bytes_total", self._bytes, **self._labels)
        self._state.outcome, self._state.rows = self._outcome, self._stream.rows
        self._state.bytes = self._bytes
        metrics.observe("scan_seconds", seconds, **self._labels)


def _parts(data: bytes) -> deque[bytes]:
    starts = range(0, len(data), tuning.BODY_BYTES)
    return deque(data[start : start + tuning.BODY_BYTES] for start in starts)


def _body(data: bytes, *, more: bool) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": more}


async def _as_coroutine(awaitable: Awaitable[None]) -> None:
    await awaitable


async def _until_disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
