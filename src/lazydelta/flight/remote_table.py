"""`RemoteTable`: a table of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from lazydelta.flight.remote_scan import RemoteScan, RemoteSource

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    import pyarrow as pa

    from lazydelta.config import ReadOptions, Strategy
    from lazydelta.flight.flight_calls import FlightCalls
    from lazydelta.scan import Where
    from lazydelta.schema import StructType

__all__ = ["RemoteTable"]


class RemoteTable:
    """A table by the name that the server gives it. Nothing is requested until it is used."""

    def __init__(self, calls: FlightCalls, name: str) -> None:
        self._calls = calls
        self.name = name

    def __repr__(self) -> str:
        return f"RemoteTable({self.name!r}, server={self._calls.uri!r})"

    @property
    def version(self) -> int:
        """The newest version; the server lists the log for it."""
        return int(orjson.loads(self._calls.action("refresh", {"table": self.name}))["version"])

    @property
    def schema(self) -> StructType:
        """The schema of the newest version."""
        return self.scan().plan().table_schema

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the top-level columns of the newest version."""
        return self.schema.names

    def scan(
        self,
        where: Where = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        strategy: Strategy = "auto",
        *,
        version: int | None = None,
        timestamp: datetime | str | None = None,
        endpoints: int = 1,
        options: ReadOptions | None = None,
    ) -> RemoteScan:
        """Describe a scan of the newest version, or of another one.

        Args:
            where: Keep rows that match, and files that may hold one.
            columns: The columns to read; None means all.
            limit: The maximum number of rows to read.
            strategy: `reverse` (newest first), `forward` (checkpoint first) or `auto`.
            version: The version number.
            timestamp: Select the version that was current at this time; naive times are UTC.
            endpoints: Shares that are read in parallel; with several, batches have no order.
            options: How rows are presented.
        """
        versions = {"version": version, "timestamp": _text(timestamp)}
        source = RemoteSource(
            calls=self._calls,
            table=self.name,
            versions={name: value for name, value in versions.items() if value is not None},
            strategy=str(strategy),
            endpoints=endpoints,
        )
        return RemoteScan(source, where=where, columns=columns, limit=limit, options=options)

    def changes(
        self,
        *,
        starting_version: int | None = None,
        ending_version: int | None = None,
        columns: Sequence[str] | None = None,
        where: Where = None,
        options: ReadOptions | None = None,
    ) -> RemoteScan:
        """Return the row changes of a range of versions, both ends inclusive.

        Args:
            starting_version: The first version; 0 by default.
            ending_version: The last version; the newest by default.
            columns: The columns to read; the three change columns are allowed.
            where: Only changes that match; the three change columns are allowed.
            options: How rows are presented.
        """
        versions = {"start_version": starting_version, "end_version": ending_version}
        source = RemoteSource(calls=self._calls, table=self.name, mode="changes", versions=versions)
        return RemoteScan(source, where=where, columns=columns, options=options)

    def count(self, where: Where = None) -> int:
        """Return the number of matching rows."""
        return self.scan(where).count()

    def head(self, n: int = 10) -> pa.Table:
        """Return the first `n` rows."""
        return self.scan(limit=n).to_arrow()

    def to_arrow(self, options: ReadOptions | None = None) -> pa.Table:
        """Return all rows of the newest version as one Arrow table."""
        return self.scan().to_arrow(options)


def _text(timestamp: datetime | str | None) -> Any:
    return timestamp if timestamp is None or isinstance(timestamp, str) else timestamp.isoformat()
