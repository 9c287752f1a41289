"""`Scan`: a lazy read of one version. Nothing is read until it is iterated.

`scan.plan.run` finds the files, `scan.read.reading` reads their rows, and `scan.row_scan` converts
rows to the requested output.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypeAlias, TypeVar

import pyarrow as pa

from lazydelta import expressions
from lazydelta._parallel import prefetch
from lazydelta._stream import FlatStream, Stream
from lazydelta.config import ReadOptions, ScanStrategy, Strategy, validate_integer
from lazydelta.errors import ConfigError
from lazydelta.replay.skipping import Pruner
from lazydelta.scan import aggregates, read, resume
from lazydelta.scan.plan.add_columns import ALL_FIELDS, PLAN_FIELDS, adds_schema
from lazydelta.scan.plan.explain import Explanation, explain
from lazydelta.scan.plan.log_positions import START
from lazydelta.scan.plan.run import ScanRun
from lazydelta.scan.plan.scan_files import FileBatches, FileColumns, ScanFile
from lazydelta.scan.plan.scan_metrics import ScanMetrics
from lazydelta.scan.plan.strategy import Choice, choose_strategy
from lazydelta.scan.row_scan import RowBatches, RowScan
from lazydelta.schema.mapping import physical_name
from lazydelta.snapshot import BYTES_PER_ADD, SnapshotState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lazydelta.expressions import Predicate
    from lazydelta.scan.plan.log_positions import Position, RowPosition, Share
    from lazydelta.scan.resume import Delivered, FilePage, FileRecords, Pages, ResumeToken
    from lazydelta.schema import StructType

__all__ = ["Scan", "Where"]

T = TypeVar("T")

_MAX_LIMIT = 2**63 - 1  # Arrow's row counts are 64-bit

Where: TypeAlias = "Predicate | str | Sequence[Any] | dict[str, Any] | None"


class _Listing(NamedTuple):
    """The latest file listing; its own limit leads to its own choice of strategy."""

    run: ScanMetrics
    choice: Choice
    limit: int | None


class Scan(RowScan):
    """A scan of one snapshot: which rows and columns, and the files that may hold them.

    Args:
        snapshot: The version to scan.
        where: Keep rows that match, and files that may hold one: a predicate, a SQL string, DNF
            tuples or an equality map.
        columns: The columns to read; None means all.
        limit: The maximum number of rows to read. It does not apply to files: a scan with a limit
            does not list files, and `files(limit=...)` counts files.
        strategy: `reverse` (newest first), `forward` (checkpoint first) or `auto`.
        options: How rows are read and presented; by default `Config.read`.
    """

    def __init__(
        self,
        snapshot: SnapshotState,
        *,
        where: Where = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        strategy: Strategy = "auto",
        options: ReadOptions | None = None,
    ) -> None:
        if strategy not in tuple(ScanStrategy):
            names = ", ".join(ScanStrategy)
            raise ConfigError("strategy", f"must be one of {names}, not {strategy!r}")
        limit = _validate_limit(limit)
        self.snapshot = snapshot
        self.columns = self._resolve_columns(columns)
        self.limit = limit
        self.options = snapshot.config.read
        self.options = self._resolve_options(options)
        self._pruner = Pruner.build(
            None if where is None else expressions.as_predicate(where),
            schema=snapshot.schema,
            partition_columns=snapshot.partition_columns,
            mapping_mode=snapshot.column_mapping_mode,
            generated=snapshot.generates_columns,
        )
        self._requested: Strategy = ScanStrategy(strategy).value
        self._choice = _choice(snapshot, limit, self._requested)
        self._listing: _Listing | None = None
        self._last_run: ScanMetrics | None = None
        self._pages: Pages | None = None

    @property
    def predicate(self) -> Predicate | None:
        """The predicate, bound to the schema."""
        return self._pruner.predicate

    @property
    def strategy(self) -> Strategy:
        """The chosen strategy; `explain()` has the reason."""
        return self._choice.strategy

    @property
    def metrics(self) -> dict[str, float]:
        """Counters of the latest run, under their `delta.lazy.*` names."""
        return {} if self._last_run is None else self._last_run.named()

    def __repr__(self) -> str:
        where = "" if self.predicate is None else f", where={str(self.predicate)!r}"
        return f"Scan({self.snapshot!r}{where}, limit={self.limit}, strategy={self.strategy!r})"

    def file_batches(
        self, *, limit: int | None = None, all_fields: bool = False
    ) -> Stream[pa.RecordBatch]:
        """Return the matching live files as Arrow batches, as they are discovered.

        Columns: `path`, `size`, `modification_time`, `partition_values`, `deletion_vector`,
        `version` (of the commit; null for files from a checkpoint).

        Args:
            limit: The maximum number of files to list.
            all_fields: Also `num_records`, `stats`, `tags`, `base_row_id`,
                `default_row_commit_version` and `clustering_provider`. Statistics are most of a
                checkpoint's bytes, so they are read only on request.

        Raises:
            ConfigError: The scan has a limit, which counts rows.
        """
        converter = self._file_batches()
        batches = self._adds(ALL_FIELDS if all_fields else PLAN_FIELDS, limit)
        return Stream(_mapped(batches, converter.convert))

    @property
    def file_schema(self) -> pa.Schema:
        """The schema of the batches of `file_batches()`."""
        empty = pa.RecordBatch.from_pylist([], adds_schema(PLAN_FIELDS))
        return self._file_batches().convert(empty).schema

    def page(self, size: int = 1000, token: str | None = None) -> FilePage:
        """Return a page of files, and the token of the next page.

        For callers that cannot keep a stream open: another process can read the next page.

        Args:
            size: The maximum number of files of the page.
            token: The token of the previous page; None starts with the first.

        Raises:
            ResumeTokenError: The token is damaged, or of another table or scan.
            ResumeTokenExpiredError: The log no longer has the files that it continues in.
            ConfigError: The scan has a limit, which counts rows.
        """
        size = validate_integer("size", size, 1)
        if self._pages is None or token is None or token != self._pages.next:
            if self._pages is not None:
                self._pages.close()
            scan, state = self._opened("files", token)
            state = replace(state, records=None)
            files = scan._placed_files(state)  # noqa: SLF001 - own class
            schema = scan.file_schema
            self._pages = resume.Pages(files, state, schema=schema, key=self._key)
        return self._pages.read(size)

    def resumable_files(
        self,
        token: str | None = None,
        *,
        limit: int | None = None,
        records: FileRecords | None = None,
    ) -> Stream[Delivered]:
        """Return the matching files as batches, each with the token from which others continue.

        Args:
            token: The token of the last batch that arrived; None starts at the beginning.
            limit: The maximum number of files of all resumptions together; by default the token's.
            records: What a client that reads the files needs; by default the columns are those of
                `file_batches()`.

        Raises:
            ResumeTokenError: The token is damaged, or of another table or scan.
            ResumeTokenExpiredError: The log no longer has the files that it continues in.
            ClientCapabilityError: The client cannot read the files of this table.
            ConfigError: The scan has a limit, which counts rows.
        """
        scan, state = self._opened("files", token, limit=_validate_limit(limit))
        if records is not None:
            state = replace(state, records=records.to_json())
        placed = scan._placed_files(state)  # noqa: SLF001 - own class
        # For `explain()`.
        self._last_run, self._listing = scan._last_run, scan._listing  # noqa: SLF001 - own class
        return Stream(resume.delivered(placed, state, self._key))

    def file_record_schema(self, records: FileRecords | None = None) -> pa.Schema:
        """Return the schema of the batches of `resumable_files(records=...)`.

        Its metadata says where the columns are in the Parquet files: `delta.schema` is the Delta
        schema as JSON, `delta.columns` a JSON list with the physical name, id and type of each.

        Raises:
            ClientCapabilityError: The client cannot read the files of this table.
        """
        if records is None:
            return self.file_schema
        return resume.FileRecordBatches(self.snapshot, records, self._file_batches()).schema

    def resume(self, token: str) -> Stream[Delivered]:
        """Continue a stream of files or rows after the batch of a token; see `RowScan.resume`."""
        kind = resume.ResumeToken.from_text(token, self._key, self.snapshot.store.root).kind
        return self.resumable_files(token) if kind == "files" else self.resumable_rows(token)

    def shares(self, count: int, kind: Literal["files", "rows"] = "files") -> list[str]:
        """Split the scan into shares that several processes read, as tokens of their starts.

        Each share is resumable. The shares are disjoint; together they have all files or rows.

        Args:
            count: The number of shares.
            kind: Whether the shares are read as files or as rows.

        Raises:
            ConfigError: The scan has a limit, which no share can count.
        """
        count = validate_integer("count", count, 1)
        if self.limit is not None:
            raise ConfigError("limit", "of a scan cannot be split into shares")
        _, state = self._opened(kind, None)
        return [replace(state, share=(k, count)).to_text(self._key) for k in range(count)]

    @property
    def _key(self) -> bytes:
        return self.snapshot.config.resume_key

    def _opened(
        self, kind: str, text: str | None, *, limit: int | None = None
    ) -> tuple[Self, ResumeToken]:
        """Return the scan of a token's version, and the token; by default the first one."""
        snapshot, requested = resume.snapshot_to_resume(self.snapshot), self._requested
        facts = (self.columns, self.limit) if kind == "rows" else ()
        digest = resume.scan_digest(kind, self.predicate, snapshot.config.tripwire, *facts)
        if text is None:
            strategy = _choice(snapshot, limit, requested).strategy
            state = resume.first_token(
                snapshot, kind=kind, scan=digest, strategy=strategy, limit=limit
            )
        else:
            table = snapshot.store.root
            state = resume.ResumeToken.from_text(text, self._key, table)
            resume.check_token(
                state, table=table, table_id=snapshot.metadata.id, kind=kind, scan=digest,
                strategy=requested, limit=limit,
            )  # fmt: skip
            snapshot = resume.resumed_snapshot(snapshot, state)
        # `auto` would choose again, by the files that are left of a limit.
        if snapshot is self.snapshot and state.strategy == self._requested:
            return self, state
        scan = type(self)(
            snapshot,
            where=self.predicate,
            columns=self.columns,
            limit=self.limit,
            strategy=ScanStrategy(state.strategy),
            options=self.options,
        )
        return scan, state

    def _placed_files(self, state: ResumeToken) -> Iterator[tuple[pa.RecordBatch, Position]]:
        """Return the files from a token on, each batch with the position after it."""
        left = None if state.limit is None else state.limit - state.delivered
        files, fields = self._file_batches(), tuple[str, ...](PLAN_FIELDS)
        convert = files.convert
        if state.records is not None:
            records = resume.FileRecords.from_json(state.records)
            batches = resume.FileRecordBatches(self.snapshot, records, files)
            fields, convert = batches.fields, batches.convert
        run = self._run(fields, left, start=state.file_position, share=state.plan_share)
        placed = prefetch(run.placed, depth=self.snapshot.config.prefetch_batches)
        return _mapped(placed, lambda item: (convert(item[0]), item[1]))

    def add_batches(self, *, limit: int | None = None) -> Stream[pa.RecordBatch]:
        """Return the matching live files as add actions: raw paths, physical column names.

        Args:
            limit: The maximum number of files to list.
        """
        return Stream(self._adds(PLAN_FIELDS, limit))

    def files(self, limit: int | None = None) -> Stream[ScanFile]:
        """Return the matching live files one by one, each with every field of its add action.

        Args:
            limit: The maximum number of files to list.

        Raises:
            ConfigError: The scan has a limit, which counts rows.
        """
        return FlatStream(self._file_lists(self._adds(ALL_FIELDS, limit)))

    def _file_lists(self, adds: Iterator[pa.RecordBatch]) -> Iterator[Iterable[ScanFile]]:
        converter = self._file_batches()
        with Stream(adds) as batches:
            for batch in batches:
                columns = FileColumns(converter.convert(batch), batch.column("path"), converter)
                yield map(partial(ScanFile, columns), range(len(columns)))

    def _adds(self, fields: Sequence[str], limit: int | None = None) -> Iterator[pa.RecordBatch]:
        run = self._run(fields, _validate_limit(limit))
        return prefetch(run.batches, depth=self.snapshot.config.prefetch_batches)

    def _run(
        self,
        fields: Sequence[str],
        limit: int | None,
        *,
        start: Position = START,
        share: Share | None = None,
    ) -> ScanRun:
        if self.limit is not None:
            raise ConfigError(
                "limit", "of a scan counts rows; list files with scan().files(limit=...)"
            )
        choice = _choice(self.snapshot, limit, self._requested)
        run = ScanRun(
            self.snapshot,
            pruner=self._pruner,
            fields=fields,
            limit=limit,
            choice=choice,
            start=start,
            share=share,
        )
        self._last_run = run.metrics
        self._listing = _Listing(run.metrics, choice, limit)
        return run

    def _file_batches(self) -> FileBatches:
        snapshot, mode = self.snapshot, self.snapshot.column_mapping_mode
        by_name = {field.name: field for field in snapshot.schema.fields}
        fields = [by_name[name] for name in snapshot.partition_columns]
        return FileBatches(
            snapshot.resolver,
            {field.name: field.type for field in fields},
            {physical_name(field, mode): field.name for field in fields},
        )

    # --- rows

    @property
    def _output_snapshot(self) -> SnapshotState:
        return self.snapshot

    @property
    def _full_schema(self) -> StructType:
        return self.snapshot.schema

    def _row_batches(self, options: ReadOptions) -> RowBatches:
        columns = read.columns_to_read(options.schema, self.columns, self._full_schema.names)
        views = options.schema_force_view_types and options.schema is None
        reading = read.Reading(self, options, None, columns, views=views)
        buffered = partial(reading.batches, keeps_all=True)
        return RowBatches(reading.projection.schema, reading.batches, buffered)

    def _opened_rows(self, token: str | None) -> tuple[Self, ResumeToken]:
        return self._opened("rows", token, limit=self.limit)

    def _placed_rows(
        self, options: ReadOptions, state: ResumeToken
    ) -> tuple[pa.Schema, Iterator[tuple[pa.RecordBatch, RowPosition]]]:
        columns = read.columns_to_read(options.schema, self.columns, self._full_schema.names)
        views = options.schema_force_view_types and options.schema is None
        resumption = read.Resumption(
            start=state.row_position,
            share=state.plan_share,
            limit=None if state.limit is None else state.limit - state.delivered,
        )
        reading = read.Reading(self, options, None, columns, views=views, resumption=resumption)
        return reading.projection.schema, reading.placed()

    def _copy(
        self, where: Predicate | None, columns: Sequence[str] | None, limit: int | None
    ) -> Self:
        return type(self)(
            self.snapshot,
            where=where,
            columns=columns,
            limit=limit,
            strategy=self.strategy,
            options=self.options,
        )

    def count(self) -> int:
        """Return the number of matching rows; files are read only if the log has no exact count."""
        return aggregates.count(self)

    def min_max(self, column: str) -> aggregates.MinMax:
        """Return minimum and maximum of a column, as Python values.

        Uses the statistics of the log where they are exact, and reads the other files.
        """
        return aggregates.min_max(self, column)

    def partition_values(self) -> pa.Table:
        """Return the partitions with matching rows: one row of typed values each.

        Uses the log where it proves that a partition has a matching row; otherwise files are read
        until one is found. A table without partition columns has one row without columns.
        """
        return aggregates.partition_values(self)

    def explain(self, *, count_files: bool = True) -> Explanation:
        """Return the plan and, once the scan has run, what it read and pruned.

        `scanned` and `pruned` files add up to the files of the version. If neither the scan nor a
        checksum has that number, a scan of the whole log counts the files once.

        Args:
            count_files: Whether that count may read the log; if not, `pruned` may be None.
        """
        run = self._last_run or ScanMetrics()
        if count_files and run.complete and run.reached_end and run.live_files is None:
            run.live_files = self._count_files()
        predicate = None if self.predicate is None else str(self.predicate)
        listing = self._listing
        if listing is None or listing.run is not run:  # the latest run read rows, or there is none
            listing = _Listing(run, self._choice, None)
        plan = {"predicate": predicate, "row_limit": self.limit, "file_limit": listing.limit}
        return explain(self.snapshot, listing.choice, plan, run)

    def _count_files(self) -> int:
        """Return the number of files of the version, from the file keys in the log."""
        unobserved = replace(self.snapshot.config, observer=None)
        run = ScanRun(
            replace(self.snapshot, config=unobserved),
            pruner=Pruner(),
            fields=("path", "deletionVector"),
            limit=None,
            choice=self._choice,
        )
        return sum(batch.num_rows for batch in run.batches())


def _validate_limit(limit: int | None) -> int | None:
    return None if limit is None else min(validate_integer("limit", limit, 0), _MAX_LIMIT)


def _choice(snapshot: SnapshotState, limit: int | None, requested: Strategy) -> Choice:
    segment, hint = snapshot.segment, snapshot.hint
    files: int | None = None
    if segment.checkpoint is None:
        files = 0
    elif hint is not None and hint.version == segment.base_version:
        files = hint.add_files
    return choose_strategy(
        requested,
        limit=limit,
        tail_files=sum(file.size for file in segment.tail) // BYTES_PER_ADD,
        tail_commits=len(segment.tail),
        checkpoint_files=files,
        forward_tail_commits=snapshot.config.forward_tail_commits,
    )


def _mapped(batches: Iterator[T], function: Callable[[T], T]) -> Iterator[T]:
    with Stream(batches) as stream:
        yield from map(function, stream)  # a loop would hold the last batch
