"""`SqlQueries`: SELECT over served tables on DuckDB, within the limits of the server.

The engine sees the tables that a query names, no files and no network. A query has one thread, that
of its call, and a bound of memory; it occupies a slot.
"""

from __future__ import annotations

import re
import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING

from lazydelta._stream import Stream
from lazydelta.errors import ConfigError, OverloadedError, ScanCancelledError, ScanDeadlineError
from lazydelta.interop import QueryBuilder
from lazydelta.scan import Delivered
from lazydelta.serving import tuning
from lazydelta.serving.limits import Slot
from lazydelta.serving.streams import StartedScan

if TYPE_CHECKING:
    from collections.abc import Generator

    import pyarrow as pa

    from lazydelta._cancellation import Cancellation
    from lazydelta.serving.principal import Principal
    from lazydelta.serving.service import ScanService
    from lazydelta.serving.streams import ScanStream

__all__ = ["SqlQueries"]


class SqlQueries:
    """Runs queries for the principals of a service."""

    def __init__(self, service: ScanService) -> None:
        self._service = service
        self._limits = service.config.limits
        self._free = threading.BoundedSemaphore(self._limits.sql_queries)

    def open(
        self, sql: str, principal: Principal, work: Cancellation, *, limit: int | None = None
    ) -> ScanStream:
        """Run a query; the caller closes it. Its batches have no resume tokens.

        Args:
            sql: The query, in DuckDB's dialect; tables have the names that the principal knows.
            principal: For whom.
            work: Ends it.
            limit: Maximum number of rows; 0 plans it only.

        Raises:
            ConfigError: The server runs no queries.
            OverloadedError: Too many queries run, or there is no slot in time.
            ScanDeadlineError: It has no first row within the deadline of a scan.
            QueryError: The engine rejects it.
            DeltaError: A table cannot be read.
        """
        slot, seconds = self._slot(principal), self._limits.scan_seconds
        deadline = time.monotonic() + seconds
        overdue = threading.Timer(seconds, work.cancel)  # an aggregation runs before its first row
        overdue.start()
        try:
            with work.active():
                builder = QueryBuilder("duckdb", memory=self._limits.sql_memory)
                for name in self._service.tables.names(principal):
                    if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", sql, re.IGNORECASE):
                        builder.register(name, self._service.tables.open(principal, name))
                reader = builder.execute(sql, limit=limit)
        except BaseException as error:
            slot.release()
            if isinstance(error, ScanCancelledError) and time.monotonic() >= deadline:
                raise ScanDeadlineError(seconds) from None
            raise
        finally:
            overdue.cancel()
        started = StartedScan(reader.schema, -1, Stream(_results(reader)))
        return self._service.streams.stream(started, slot, work)

    def _slot(self, principal: Principal) -> Slot:
        """Return a slot, and with it one of the fewer places for queries."""
        if not self._limits.sql_queries:
            raise ConfigError("limits.sql_queries", "is 0: this server runs no queries")
        if not self._free.acquire(blocking=False):
            at_once = self._limits.sql_queries
            raise OverloadedError(f"{at_once} SQL queries run, as many as this server allows")
        try:
            slot = self._service.admission.wait(principal)
        except BaseException:
            self._free.release()
            raise

        def release() -> None:
            slot.release()
            self._free.release()

        return Slot(release)


def _results(reader: pa.RecordBatchReader) -> Generator[Delivered]:
    """Yield the batches of a result, cut so that any client accepts the messages."""
    with closing(reader):
        for batch in reader:
            rows = max(1, batch.num_rows * tuning.SQL_BATCH_BYTES // max(1, batch.nbytes))
            for start in range(0, batch.num_rows, rows):
                yield Delivered(batch.slice(start, rows), "")
