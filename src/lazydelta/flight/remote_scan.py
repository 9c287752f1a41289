"""`RemoteScan`: a scan or change feed that a server runs, with the surface of a local one.

The server plans and reads. The client converts rows to the requested output, and parses predicates
and the table's schema for the adapters of other engines.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn, Self

import orjson

from lazydelta._parallel import unordered_merge
from lazydelta._stream import FlatStream, Stream
from lazydelta.config import ReadOptions, check_options, validate_columns, validate_integer
from lazydelta.errors import ConfigError, InternalError
from lazydelta.expressions import as_predicate
from lazydelta.flight import tuning
from lazydelta.flight.remote_file import RemoteFile, remote_files
from lazydelta.scan import Delivered, FileRecords, RowBatches, RowScan
from lazydelta.scan.plan import Explanation
from lazydelta.scan.read import columns_to_read

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from lazydelta.expressions import Predicate
    from lazydelta.flight.flight_calls import FlightCalls, FlightPlan
    from lazydelta.scan import Where
    from lazydelta.scan.resume import ResumeToken
    from lazydelta.schema import StructType
    from lazydelta.snapshot import SnapshotState

__all__ = ["RemoteScan", "RemoteSource"]

_SERVER_OPTIONS = (
    *("file_column_name", "row_index_column"),
    *("row_id_column", "row_commit_version_column"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteSource:
    """What a scan reads: a table of a server, and the versions."""

    calls: FlightCalls = field(repr=False)
    table: str
    mode: Literal["rows", "changes"] = "rows"
    versions: Mapping[str, Any] = field(default_factory=dict)
    """`version` or `timestamp` of rows, `start_version` and `end_version` of changes."""
    strategy: str = "auto"
    endpoints: int = 1


class RemoteScan(RowScan):
    """Rows, files or changes of a served table. Nothing is requested until it is used.

    Its first use pins the version. It has the outputs of a local scan: `to_arrow`, `to_polars`,
    `to_duckdb` and more.

    Args:
        source: What to read.
        where: Keep rows that match, and files that may hold one.
        columns: The columns to read; None means all.
        limit: The maximum number of rows.
        options: How rows are presented. Options that add columns are not supported.
    """

    _internal_names: ClassVar[frozenset[str]] = RowScan._internal_names | {"plan"}  # noqa: SLF001

    def __init__(
        self,
        source: RemoteSource,
        *,
        where: Where = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        options: ReadOptions | None = None,
    ) -> None:
        self._source = source
        self._predicate = None if where is None else as_predicate(where)
        self.columns = validate_columns(columns)
        self.limit = None if limit is None else validate_integer("limit", limit, 0)
        self.options = ReadOptions() if options is None else options
        check_options("options", self.options, ReadOptions)
        self._planned: FlightPlan | None = None

    @property
    def kind(self) -> Literal["rows", "changes"]:  # type: ignore[override]
        """The kind of rows, in the observer's event."""
        return self._source.mode

    @property
    def predicate(self) -> Predicate | None:
        """The condition that every row satisfies."""
        return self._predicate

    @property
    def version(self) -> int:
        """The version that is read; of changes the last one."""
        return int(self.plan().facts["version"])

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows."""
        return self.output_schema().schema

    def __repr__(self) -> str:
        where = "" if self.predicate is None else f", where={str(self.predicate)!r}"
        return f"RemoteScan({self._source.table!r}{where}, limit={self.limit})"

    # --- files

    def files(
        self, limit: int | None = None, *, records: FileRecords | None = None
    ) -> Stream[RemoteFile]:
        """Return the matching live files one by one; see `file_batches`."""
        batches = self.file_batches(limit=limit, records=records)
        return FlatStream(_each(batches))

    def file_batches(
        self, *, limit: int | None = None, records: FileRecords | None = None
    ) -> Stream[pa.RecordBatch]:
        """Return the matching live files as Arrow batches, as the server discovers them.

        Args:
            limit: The maximum number of files to list.
            records: What the caller, who reads the files, can handle and needs.

        Raises:
            ClientCapabilityError: The caller did not declare a feature that the table needs.
            ConfigError: The scan has a limit, which counts rows.
        """
        command = self._file_command(None, limit, records)
        plan = self._source.calls.plan({**command, "endpoints": self._source.endpoints})
        return Stream(_batches(self._merged(plan.tickets)))

    def resumable_files(
        self,
        token: str | None = None,
        *,
        limit: int | None = None,
        records: FileRecords | None = None,
    ) -> Stream[Delivered]:
        """Return the files as batches with resume tokens; see `Scan.resumable_files`."""
        return self._stream(self._file_command(token, limit, records))

    # --- rows

    def resumable_rows(self, token: str | None = None) -> Stream[Delivered]:
        """Return the rows as batches with resume tokens; see `RowScan.resumable_rows`."""
        return self._stream(self._command(self.columns, resume=token))

    def resume(self, token: str) -> Stream[Delivered]:
        """Continue a stream of rows or changes after the batch of a token, at any server."""
        return self.resumable_rows(token)

    def tickets(
        self,
        count: int,
        mode: Literal["files", "rows"] = "rows",
        *,
        records: FileRecords | None = None,
    ) -> list[bytes]:
        """Split the scan into shares for several processes; see `FlightConnection.read`.

        Args:
            count: The number of shares.
            mode: What the shares have.
            records: Of files: what the caller, who reads them, can handle and needs.
        """
        command = self._command(self.columns)
        if mode == "files":
            command = self._file_command(None, None, records)
        return list(self._source.calls.plan({**command, "endpoints": count}).tickets)

    def count(self) -> int:
        """Return the number of rows."""
        with self.narrowed(columns=[]).to_batches(ReadOptions()) as batches:
            return sum(batch.num_rows for batch in batches)

    def explain(self) -> Explanation:
        """Return what the server reads and prunes for this scan; it plans all files for it."""
        answer = self._source.calls.action("explain", self._command(self.columns))
        return Explanation(orjson.loads(answer))

    def plan(self) -> FlightPlan:
        """Return the server's plan; the first one pins the version."""
        plan = self._planned
        if plan is None or plan.expires - tuning.EARLY_SECONDS < time.time():
            command = {**self._command(self.columns), "endpoints": self._source.endpoints}
            self._planned = plan = self._source.calls.plan(command)
        return plan

    def _command(self, columns: Sequence[str] | None, **more: Any) -> dict[str, Any]:
        source = self._source
        return {
            "table": source.table,
            "mode": source.mode,
            "where": None if self.predicate is None else str(self.predicate),
            "columns": None if columns is None else list(columns),
            "limit": self.limit,
            "strategy": source.strategy,
            **self._versions(),
            **more,
        }

    def _file_command(
        self, token: str | None, limit: int | None, records: FileRecords | None
    ) -> dict[str, Any]:
        if self.limit is not None:
            raise ConfigError("limit", "of a scan counts rows; use files(limit=...)")
        if self._source.mode != "rows":
            raise ConfigError("mode", "changes have no files")
        records = FileRecords() if records is None else records
        return self._command(
            None,
            mode="files",
            limit=None if limit is None else validate_integer("limit", limit, 0),
            resume=token,
            capabilities=sorted(records.capabilities),
            deletion_vectors=records.deletion_vectors,
            statistics=records.statistics,
        )

    def _versions(self) -> dict[str, Any]:
        """Return the versions to read, pinned once they are known."""
        if self._planned is None:
            return dict(self._source.versions)
        facts = self._planned.facts
        if self._source.mode == "rows":
            return {"version": facts["version"]}
        return {"start_version": facts["starting_version"], "end_version": facts["version"]}

    def _stream(self, command: Mapping[str, Any]) -> Stream[Delivered]:
        def deliveries() -> Iterator[Delivered]:
            (ticket,) = self._source.calls.plan(command).tickets
            with self._source.calls.read(ticket) as stream:
                yield from stream

        return Stream(deliveries())

    def _merged(self, tickets: Sequence[bytes]) -> Iterator[Delivered]:
        read = self._source.calls.read
        if len(tickets) == 1:
            return iter(read(tickets[0]))
        sources = [partial(read, ticket) for ticket in tickets]
        return unordered_merge(
            sources, width=len(sources), depth=tuning.BATCHES_AHEAD * len(sources)
        )

    # --- what `RowScan` needs

    @property
    def _output_snapshot(self) -> SnapshotState:
        facts, config = self.plan().facts, SimpleNamespace(observer=None)
        version: Any = SimpleNamespace(
            version=facts["version"],
            partition_columns=tuple(facts["partition_columns"]),
            store=SimpleNamespace(root=f"{self._source.calls.uri}/{self._source.table}"),
            config=config,
        )
        return version

    @property
    def _full_schema(self) -> StructType:
        return self.plan().table_schema

    def _row_batches(self, options: ReadOptions) -> RowBatches:
        for name in _SERVER_OPTIONS:
            if getattr(options, name) is not None:
                raise ConfigError(name, "the server does not add this column")
        columns = columns_to_read(options.schema, self.columns, self._full_schema.names)
        scan = self if columns == self.columns else self._copy(self.predicate, columns, self.limit)
        plan = scan.plan()
        return RowBatches(plan.schema, lambda: _batches(self._merged(scan.plan().tickets)))

    def _opened_rows(self, token: str | None) -> NoReturn:
        del token
        raise InternalError("a remote scan is resumed by its server")

    def _placed_rows(self, options: ReadOptions, state: ResumeToken) -> NoReturn:
        del options, state
        raise InternalError("a remote scan is resumed by its server")

    def _copy(
        self, where: Predicate | None, columns: Sequence[str] | None, limit: int | None
    ) -> Self:
        source = replace(self._source, versions=self._versions())
        return type(self)(source, where=where, columns=columns, limit=limit, options=self.options)


def _batches(deliveries: Iterator[Delivered]) -> Iterator[pa.RecordBatch]:
    with Stream(deliveries) as stream:
        for delivered in stream:
            yield delivered.batch


def _each(batches: Stream[pa.RecordBatch]) -> Iterator[Any]:
    with batches:
        for batch in batches:
            yield remote_files(batch)
