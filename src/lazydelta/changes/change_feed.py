"""`ChangeFeed`: a lazy read of the row changes of a range of versions.

Changes are in version order, and read-ahead is bounded. `changes.version_range` resolves the
commits, `changes.change_plan` finds the files with their changes, and `changes.change_rows` reads
these files. `scan.row_scan` converts rows to the requested output.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from lazydelta._stream import Stream
from lazydelta.changes.change_plan import ChangeMetrics, ChangePlan
from lazydelta.changes.change_rows import CHANGE_FIELDS, ChangePosition, ChangeReader
from lazydelta.changes.resumption import first_token, resumed_range, tasks_from
from lazydelta.changes.version_range import ChangeRange, RequestedRange, find_range
from lazydelta.config import ReadOptions, check_options
from lazydelta.errors import ConfigError
from lazydelta.expressions import Predicate, as_predicate
from lazydelta.scan import RowBatches, RowScan, resume
from lazydelta.scan.plan import Explanation
from lazydelta.scan.read import columns_to_read, placed_rows, read_ahead, threads_for
from lazydelta.schema import StructType

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    import pyarrow as pa

    from lazydelta.config import Config
    from lazydelta.scan import Where
    from lazydelta.scan.resume import ResumeToken
    from lazydelta.snapshot import SnapshotState
    from lazydelta.store import Store

__all__ = ["ChangeFeed", "find_changes"]

_UNSUPPORTED_OPTIONS = (
    *("file_column_name", "row_index_column"),
    *("row_id_column", "row_commit_version_column"),
)


def find_changes(
    store: Store,
    config: Config,
    requested: RequestedRange,
    *,
    columns: Sequence[str] | None = None,
    where: Where = None,
    options: ReadOptions | None = None,
) -> ChangeFeed:
    """Return the changes of a range of versions, both ends inclusive, in version order.

    The ends of the range are validated at once, the versions between them when they are read.

    Args:
        store: The table's store.
        config: Engine settings.
        requested: The range.
        columns: Columns to return, in this order, of the table's and the feed's; None means all.
        where: Only changes that match; it may name the feed's columns as well.
        options: How rows are read and presented; batches are always in version order.

    Raises:
        ChangeFeedDisabledError: A version of the range did not record its changes.
        ChangeFeedSchemaError: The last version's schema does not fit all rows.
        VersionNotCommittedError: The range extends past the newest version.
        VersionCleanedUpError: Log cleanup has removed commits of the range.
        TimestampNotFoundError: A time is after the newest commit, or before the oldest retained.
        ConfigError: The range or the options are contradictory.
    """
    change_range = find_range(store, config, requested)
    return ChangeFeed(change_range, columns=columns, where=where, options=options)


class ChangeFeed(RowScan):
    """The row changes of a range of versions.

    Rows have the columns of the last version's schema, and `_change_type` (`insert`, `delete`,
    `update_preimage`, `update_postimage`), `_commit_version` and `_commit_timestamp`.

    It has the outputs of a scan (`to_arrow`, `scan_polars`, `to_duckdb`, ...) and can be iterated.
    Every call reads from the start; `to_reader` returns a reader that keeps its position, and
    `with feed.to_batches() as batches:` stops reading at the end of the block.

    >>> import io
    >>> import pyarrow as pa, pyarrow.parquet as pq
    >>> import lazydelta as ld
    >>> from lazydelta.store import MemoryStore
    >>> from lazydelta.testing import TableBuilder, add
    >>> data = io.BytesIO()
    >>> pq.write_table(pa.table({"id": [1, 2]}), data)
    >>> store = MemoryStore({"a": data.getvalue()})
    >>> recorded = {"delta.enableChangeDataFeed": "true"}
    >>> built = TableBuilder(store, schema={"id": "long"}, configuration=recorded)
    >>> _ = built.commit(add("a", size=data.tell()))
    >>> feed = ld.Table(store, ld.Config()).changes(columns=["id", "_change_type"])
    >>> feed.to_arrow().to_pylist()
    [{'id': 1, '_change_type': 'insert'}, {'id': 2, '_change_type': 'insert'}]
    >>> sum(batch.num_rows for batch in feed)
    2

    Args:
        change_range: The resolved range.
        columns: Columns to return; None means all.
        where: Only changes that match.
        limit: The maximum number of rows.
        options: How rows are read and presented; by default `Config.read`.
    """

    kind: ClassVar[Literal["rows", "changes"]] = "changes"

    def __init__(
        self,
        change_range: ChangeRange,
        *,
        columns: Sequence[str] | None = None,
        where: Where = None,
        limit: int | None = None,
        options: ReadOptions | None = None,
    ) -> None:
        self._range = change_range
        self._schema = StructType((*change_range.end.schema.fields, *CHANGE_FIELDS))
        self.columns = self._resolve_columns(columns)
        self._predicate = as_predicate(where)
        self.limit = limit
        if options is None:  # the defaults for rows may have options that changes do not support
            unset: dict[str, Any] = dict.fromkeys(_UNSUPPORTED_OPTIONS)
            options = replace(change_range.end.config.read, **unset)
        check_options("options", options, ReadOptions)
        self.options = options
        self._metrics = ChangeMetrics()
        self._reader(options)  # validates columns, predicate and options

    @property
    def predicate(self) -> Predicate | None:
        """The condition that every change satisfies."""
        return self._predicate

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows."""
        return self.output_schema().schema

    def __repr__(self) -> str:
        commits = self._range.commits
        span = f"{commits[0].version} to {commits[-1].version}" if commits else "none"
        return f"ChangeFeed({self._range.end.store.root!r}, versions={span})"

    def count(self) -> int:
        """Return the number of changes."""
        options = replace(self.options, schema=None)
        with self.narrowed(columns=[]).to_batches(options) as batches:
            return sum(batch.num_rows for batch in batches)

    def explain(self) -> Explanation:
        """Return the range of the feed and the counters of its latest read."""
        commits, metrics = self._range.commits, self._metrics
        return Explanation(
            table=self._range.end.store.root,
            version=self._range.end.version,
            plan={
                "predicate": None if self.predicate is None else str(self.predicate),
                "columns": ", ".join(self.names),
                "limit": self.limit,
            },
            log={
                "starting_version": commits[0].version if commits else None,
                "commits": len(commits),
                "commits_read": metrics.commits_read,
            },
            files={"emitted": metrics.files_read, "pruned": metrics.files_pruned},
        )

    def read_all(self) -> pa.Table:
        """Return all changes as one table, like `to_arrow()`: each call reads from the start."""
        return self.to_arrow()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Iterate over the batches, each time from the start."""
        return iter(self.to_batches())

    # --- reading

    def _reader(self, options: ReadOptions) -> ChangeReader:
        for name in _UNSUPPORTED_OPTIONS:
            if getattr(options, name) is not None:
                raise ConfigError(name, "the change data feed does not have this column")
        return ChangeReader(
            self._range.end,
            columns=columns_to_read(options.schema, self.columns, self._schema.names),
            where=self.predicate,
            options=options,
        )

    @property
    def _output_snapshot(self) -> SnapshotState:
        return self._range.end

    @property
    def _full_schema(self) -> StructType:
        return self._schema

    def _row_batches(self, options: ReadOptions) -> RowBatches:
        reader = self._reader(options)
        return RowBatches(reader.schema, partial(self._batches, reader, options))

    def _copy(
        self, where: Predicate | None, columns: Sequence[str] | None, limit: int | None
    ) -> Self:
        return type(self)(
            self._range, columns=columns, where=where, limit=limit, options=self.options
        )

    def _opened_rows(self, token: str | None) -> tuple[Self, ResumeToken]:
        end = self._range.end
        digest = resume.scan_digest("changes", self.predicate, self.columns, self.limit)
        if token is None:
            return self, first_token(self._range, scan=digest, limit=self.limit)
        table = end.store.root
        state = resume.ResumeToken.from_text(token, end.config.resume_key, table)
        resume.check_token(
            state, table=table, table_id=end.metadata.id, kind="changes", scan=digest
        )
        change_range = resumed_range(self._range, state)
        feed = type(self)(
            change_range,
            columns=self.columns,
            where=self.predicate,
            limit=self.limit,
            options=self.options,
        )
        return feed, state

    def _placed_rows(
        self, options: ReadOptions, state: ResumeToken
    ) -> tuple[pa.Schema, Iterator[tuple[pa.RecordBatch, Any]]]:
        reader, start = self._reader(options), ChangePosition(*state.position)
        self._metrics = ChangeMetrics()
        batches = read_ahead(
            tasks_from(ChangePlan(self._range, reader, self._metrics).tasks(), start),
            reader.placed,
            width=threads_for(self._range.end.store, options.files_at_once),
            memory_limit=options.memory_limit,
            ordered=True,
        )
        left = None if state.limit is None else state.limit - state.delivered
        placed = placed_rows(batches, skip=start.rows, limit=left, table=self._range.end.store.root)
        return reader.schema, placed

    def _batches(self, reader: ChangeReader, options: ReadOptions) -> Generator[pa.RecordBatch]:
        """Yield the changes, up to the limit."""
        remaining = self.limit
        if remaining == 0:
            return
        self._metrics = ChangeMetrics()
        batches = read_ahead(
            ChangePlan(self._range, reader, self._metrics).tasks(),
            reader.read,
            width=threads_for(self._range.end.store, options.files_at_once),
            memory_limit=options.memory_limit,
            ordered=True,
        )
        with Stream(batches) as stream:
            for batch in stream:
                yield batch if remaining is None else batch.slice(0, remaining)
                if remaining is not None:
                    remaining -= min(remaining, batch.num_rows)
                    if not remaining:
                        return
