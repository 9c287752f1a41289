"""Deliveries: scan streams that gRPC threads pull, and the watch over clients that do not read.

A gRPC thread is blocked while its client does not read, and pyarrow cannot end the call. The watch
closes the scan behind it instead: its slot, files and memory are free, and the call fails when the
client reads again.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Self
from weakref import WeakSet

import orjson

from lazydelta.errors import ScanCancelledError, ScanDeadlineError
from lazydelta.serving import tuning

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    import pyarrow as pa
    import pyarrow.flight as fl

    from lazydelta._cancellation import Cancellation
    from lazydelta.errors import DeltaError
    from lazydelta.scan import Delivered
    from lazydelta.serving.exposition import ServerMetrics
    from lazydelta.serving.limits import Limits
    from lazydelta.serving.streams import ScanStream

__all__ = ["Deliveries", "Delivery"]


class Delivery:
    """The batches of one `DoGet`, each with `{"resume": token}` as metadata if it has a token.

    gRPC releases the object when the call ends, however it ends; that closes the scan. A generator
    would not do: one that was never started runs no `finally`.

    Args:
        stream: The scan.
        mode: What it reads, in the metrics.
        metrics: The server's metrics.
        translate: Makes the Flight error of an error.
        watched: Ends the wait for a batch when the client is gone.
    """

    def __init__(
        self,
        stream: ScanStream,
        *,
        mode: str,
        metrics: ServerMetrics,
        translate: Callable[[Exception], fl.FlightError],
        watched: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._stream: ScanStream | None = stream
        self._labels = {"protocol": "flight", "mode": mode}
        self._metrics = metrics
        self._translate = translate
        self._watched = watched
        self._lock = threading.Lock()
        self._reason: DeltaError | None = None
        self._outcome = "disconnected"
        self._bytes = 0
        self._started = self._handed_over = time.monotonic()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> tuple[pa.RecordBatch, bytes]:
        with self._lock:
            try:
                delivered = self._pull()
            except StopIteration:
                self._outcome = "complete"
                self._close()
                raise
            except Exception as error:  # noqa: BLE001 - the entry point of gRPC's thread
                self._outcome = type(error).__name__
                self._close()
                try:
                    raise self._translate(self._reason or error) from None
                finally:
                    error.__traceback__ = None  # of `_reason`: it would keep this object alive
            self._handed_over = time.monotonic()
            if not self._bytes:
                seconds = self._handed_over - self._started
                self._metrics.observe("first_batch_seconds", seconds, **self._labels)
            self._bytes += delivered.batch.nbytes
            if not delivered.token:
                return delivered.batch, b""
            return delivered.batch, orjson.dumps({"resume": delivered.token})

    def _pull(self) -> Delivered:
        if self._reason is not None:
            raise self._reason
        if self._stream is None:
            raise StopIteration
        with self._watched():
            delivered = next(self._stream)
        if self._reason is not None:  # since then; the client may never read this batch
            raise self._reason
        return delivered

    def __del__(self) -> None:
        self._close()

    def end(self, reason: DeltaError) -> None:
        """Let the call fail. The scan is closed; a batch that it works on is cancelled."""
        self._reason, self._outcome = reason, type(reason).__name__
        if self._lock.acquire(blocking=False):
            try:
                self._close()
            finally:
                self._lock.release()
        elif (stream := self._stream) is not None:
            stream.close()

    def expire(self, limits: Limits) -> None:
        """End it if it is past its deadline, or its client does not read."""
        now = time.monotonic()
        if self._stream is None:
            return
        if now - self._started > limits.scan_seconds:
            self.end(ScanDeadlineError(limits.scan_seconds))
        elif not self._lock.locked() and now - self._handed_over > limits.stall_seconds:
            seconds = limits.stall_seconds
            self.end(ScanCancelledError(f"the client has read nothing for {seconds:g} s"))

    def _close(self) -> None:
        stream, self._stream = self._stream, None
        if stream is None:
            return
        stream.close()
        metrics, labels = self._metrics, self._labels
        metrics.count("scans_total", outcome=self._outcome, **labels)
        metrics.count("rows_total", stream.rows, **labels)
        metrics.count("bytes_total", self._bytes, **labels)
        metrics.observe("scan_seconds", time.monotonic() - self._started, **labels)


class Deliveries:
    """The deliveries of a server, and the thread that watches them and the calls in work.

    Args:
        limits: The deadline of a scan, and the time that a client may leave a batch unread.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._running: WeakSet[Delivery] = WeakSet()
        self._calls: dict[object, tuple[fl.ServerCallContext, Cancellation]] = {}
        self._stopped = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="lazydelta-flight", daemon=True)

    def start(self) -> None:
        """Start the watch."""
        self._watcher.start()

    def running(self) -> list[Delivery]:
        """Return the deliveries whose calls have not ended."""
        with self._lock:
            return list(self._running)

    def add(self, delivery: Delivery) -> Delivery:
        """Watch a delivery until it is released."""
        with self._lock:
            self._running.add(delivery)
        return delivery

    @contextmanager
    def watched(self, context: fl.ServerCallContext, work: Cancellation) -> Iterator[None]:
        """Cancel work when the client of its call is gone.

        The call ends after this, and gRPC then frees its context: until then the watch has it.
        """
        if context.is_cancelled():
            work.cancel()
        call = object()
        with self._lock:
            self._calls[call] = (context, work)
        try:
            with work.active():
                yield
        finally:
            with self._lock:
                del self._calls[call]

    def stop(self, reason: DeltaError) -> None:
        """End all deliveries, and the watch."""
        self._stopped.set()
        self._watcher.join()
        for delivery in self.running():
            delivery.end(reason)

    def _watch(self) -> None:
        while not self._stopped.wait(tuning.WATCH_SECONDS):
            self._expire()

    def _expire(self) -> None:
        """Check all deliveries; a frame that waits must not keep the last one alive."""
        for delivery in self.running():
            delivery.expire(self._limits)
        with self._lock:
            gone = [work for context, work in self._calls.values() if context.is_cancelled()]
        for work in gone:
            work.cancel()
