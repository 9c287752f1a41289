"""`ScanStreams`: a request of a principal becomes a bounded stream of batches with resume tokens.

Both servers pull batches from here; nothing is read ahead beyond what the engine buffers. A stream
occupies a slot until it is closed.
"""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Self

from lazydelta._cancellation import Cancellation
from lazydelta._memory import release_memory
from lazydelta.errors import ScanCancelledError, ScanDeadlineError
from lazydelta.scan import FileRecords
from lazydelta.scan.resume import ResumeToken

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from lazydelta._stream import Stream
    from lazydelta.changes import ChangeFeed
    from lazydelta.scan import Delivered, Scan
    from lazydelta.serving.config import ServeConfig
    from lazydelta.serving.limits import Admission, Slot
    from lazydelta.serving.principal import Principal
    from lazydelta.serving.request import ScanRequest
    from lazydelta.serving.tables import ServedTables
    from lazydelta.table import Snapshot, Table

__all__ = [
    "ScanStream",
    "ScanStreams",
    "StartedScan",
    "file_records",
    "requested_changes",
    "requested_scan",
    "start_scan",
]


class ScanStream:
    """Batches of one scan, each with the token from which any server continues after it.

    One thread at a time takes batches; any thread may close the stream.

    Args:
        batches: The engine's stream.
        schema: The schema of the batches.
        version: The version of the table that is read.
        slot: Released when the scan has stopped.
        seconds: Deadline, from now on.
        stopped: Why the scan must end, asked between batches; None to continue.
        cancellation: Ends it within a batch too; the stream uses it when it is closed.
        worked: Called after each batch, and at the end.
        counters: What a scan of files read and pruned.
    """

    def __init__(
        self,
        batches: Stream[Delivered],
        *,
        schema: pa.Schema,
        version: int,
        slot: Slot,
        seconds: float,
        stopped: Callable[[], str | None],
        cancellation: Cancellation,
        worked: Callable[[], None] = lambda: None,
        counters: Callable[[], dict[str, int | None]] = dict,
    ) -> None:
        self.schema = schema
        self.version = version
        self.rows = 0
        self._batches = batches
        self._slot = slot
        self._seconds = seconds
        self._deadline = time.monotonic() + seconds
        self._stopped = stopped
        self._cancellation = cancellation
        self._worked = worked
        self.counters = counters
        self._lock = threading.Lock()
        self._is_pulling = False
        self._is_closed = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Delivered:
        with self._lock:
            if self._is_closed:
                raise StopIteration
            self._is_pulling = True
        try:
            self._check()
            with self._cancellation.active():
                delivered = next(self._batches)
            self.rows += delivered.batch.num_rows
            return delivered
        finally:
            self._worked()
            with self._lock:
                self._is_pulling = False
                is_closed = self._is_closed
            if is_closed:  # while this thread was reading
                self._release()

    def _check(self) -> None:
        reason = self._stopped()
        if reason is not None:
            raise ScanCancelledError(reason)
        if time.monotonic() > self._deadline:
            raise ScanDeadlineError(self._seconds)

    def close(self) -> None:
        """Stop the scan, free its files and memory, then its slot.

        While another thread waits for a batch, its requests to the store are cancelled, and that
        thread does it.
        """
        with self._lock:
            was_closed, self._is_closed = self._is_closed, True
            is_pulling = self._is_pulling
        if is_pulling:
            self._cancellation.cancel()
        elif not was_closed:
            self._release()

    def _release(self) -> None:
        try:
            self._batches.close()
        finally:
            self._slot.release()
            self._worked()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ScanStreams:
    """Opens scans of served tables."""

    def __init__(self, tables: ServedTables, admission: Admission, config: ServeConfig) -> None:
        self._tables = tables
        self._admission = admission
        self._limits = config.limits
        self._stopping = threading.Event()
        self._has_worked = threading.Event()

    def return_memory(self) -> None:
        """Return freed memory to the system, if there is some."""
        if self._has_worked.is_set():
            self._has_worked.clear()
            release_memory()

    def stop(self) -> None:
        """End all scans with an error at their next batch: the server is shutting down."""
        self._stopping.set()

    def open(
        self,
        request: ScanRequest,
        principal: Principal,
        cancellation: Cancellation | None = None,
        *,
        slot: Slot | None = None,
    ) -> ScanStream:
        """Open a scan; the caller closes it.

        Args:
            request: What to read.
            principal: For whom.
            cancellation: Set when the client is gone.
            slot: A slot that the caller has waited for; by default this waits for one.

        Raises:
            ServedTableNotFoundError: The principal may not read the table, or there is none.
            OverloadedError: There is no slot in time.
            DeltaError: The request does not fit the table, or the table cannot be read.
        """
        cancellation = cancellation or Cancellation()
        try:
            table = self._tables.open(principal, request.table)
        except BaseException:
            if slot is not None:
                slot.release()
            raise
        slot = slot or self._admission.wait(principal)
        try:
            with cancellation.active():
                started = start_scan(table, request)
        except BaseException:
            slot.release()
            raise
        return self.stream(started, slot, cancellation)

    def stream(self, started: StartedScan, slot: Slot, cancellation: Cancellation) -> ScanStream:
        """Return the stream of a scan that has a slot; the caller closes it."""
        return ScanStream(
            started.batches,
            schema=started.schema,
            version=started.version,
            slot=slot,
            seconds=self._limits.scan_seconds,
            stopped=lambda: self._reason_to_stop(cancellation),
            cancellation=cancellation,
            worked=self._has_worked.set,
            counters=started.counters,
        )

    def _reason_to_stop(self, cancellation: Cancellation) -> str | None:
        if self._stopping.is_set():
            return "the server is shutting down"
        return "the client ended the scan" if cancellation.is_set else None


def file_records(request: ScanRequest) -> FileRecords:
    """Return the form of the file records of a request."""
    return FileRecords(
        capabilities=request.capabilities,
        deletion_vectors=request.deletion_vectors,
        statistics=request.statistics,
    )


def requested_scan(table: Table, request: ScanRequest) -> Scan:
    """Return the scan of a request for files or rows: of its token's version, or of its own."""
    if request.resume is None:
        snapshot = table.snapshot(request.version, request.timestamp)
    else:
        snapshot = _resumed(table, request.resume)
    limit = request.limit if request.mode == "rows" else None
    # Both orders stream all files equally fast. In reverse the first batch is there sooner, and a
    # scan that waits for its client holds no tail of the log.
    strategy = "reverse" if request.strategy == "auto" else request.strategy
    return snapshot.scan(request.where, request.columns, limit, strategy)


def requested_changes(table: Table, request: ScanRequest) -> ChangeFeed:
    """Return the change feed of a request; a token fixes the last version."""
    last = request.end_version
    if last is None and request.resume is not None:
        last = _resumed(table, request.resume).version
    feed = table.changes(
        starting_version=request.start_version,
        ending_version=last,
        columns=request.columns,
        where=request.where,
    )
    return feed if request.limit is None else feed.narrowed(limit=request.limit)


def _resumed(table: Table, text: str) -> Snapshot:
    """Return the version of a token."""
    newest = table.snapshot()
    token = ResumeToken.from_text(text, newest.config.resume_key, newest.store.root)
    return newest if newest.version == token.version else table.snapshot(token.version)


class StartedScan(NamedTuple):
    """A scan that has not read yet."""

    schema: pa.Schema
    version: int
    """-1 for a query, which may read several tables."""
    batches: Stream[Delivered]
    counters: Callable[[], dict[str, int | None]] = dict


def start_scan(table: Table, request: ScanRequest) -> StartedScan:
    """Return the scan of a request.

    Raises:
        DeltaError: The request does not fit the table, or the table cannot be read.
    """
    if request.mode == "changes":
        feed = requested_changes(table, request)
        version: int = feed.explain()["version"]
        return StartedScan(feed.schema, version, feed.resumable_rows(request.resume))
    found = requested_scan(table, request)
    version = found.snapshot.version
    if request.mode == "rows":
        schema = found.output_schema().schema
        return StartedScan(schema, version, found.resumable_rows(request.resume))
    records = file_records(request)
    batches = found.resumable_files(request.resume, limit=request.limit, records=records)
    schema = found.file_record_schema(records)
    return StartedScan(schema, version, batches, partial(_counters, found))


def _counters(scan: Scan) -> dict[str, int | None]:
    """Return what a scan of files read and pruned."""
    report = scan.explain(count_files=False)
    return {
        "files_scanned": report["files"]["scanned"],
        "files_pruned": report["files"]["pruned"],
        "commits_read": report["log"]["commits_read"],
        "row_groups_read": report["checkpoint"]["row_groups_read"],
    }
