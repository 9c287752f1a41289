"""`ChangeFeed`: the changes of a range of versions, described. No file is read until it is asked.

Versions come in order, and what is read ahead is bounded. `changes.version_range` found the commits,
`changes.change_plan` finds the files that tell what they changed, and `changes.change_rows` reads them. How
rows are shown and where they can go is `scan.row_feed`'s business.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from lazydelta._stream import Stream
from lazydelta.changes.change_plan import ChangeCounts, ChangePlan
from lazydelta.changes.change_rows import FIELDS, ChangeReader
from lazydelta.changes.version_range import ChangeRange, RequestedRange, find_range
from lazydelta.config import ReadOptions, check_options
from lazydelta.errors import ConfigError
from lazydelta.expressions import Predicate, as_predicate
from lazydelta.scan import Feed, RowSource
from lazydelta.scan.plan import Explanation
from lazydelta.scan.read import columns_to_read, read_ahead, threads_for
from lazydelta.schema import StructType

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    import pyarrow as pa

    from lazydelta.config import Config
    from lazydelta.scan import Where
    from lazydelta.snapshot import SnapshotState
    from lazydelta.store import Store

__all__ = ["ChangeFeed", "find_changes"]

_NOT_HERE = ("file_column_name", "row_id_column", "row_commit_version_column")


def find_changes(
    store: Store,
    config: Config,
    asked: RequestedRange,
    *,
    columns: Sequence[str] | None = None,
    where: Where = None,
    options: ReadOptions | None = None,
) -> ChangeFeed:
    """Return the changes of a range of versions, both ends inclusive, in the order of versions.

    The ends of the range are checked at once, the versions between when they are read.

    Args:
        store: Where the table is.
        config: Settings of the engine.
        asked: The range.
        columns: What to show, in this order, of the table's columns and the feed's; None: all.
        where: Only changes that match; it may name the feed's own columns as well.
        options: How rows are read and shown; batches are always in the order of versions.

    Raises:
        ChangeFeedDisabledError: A version of the range did not record its changes.
        ChangeFeedSchemaError: The schema changed so that the last one cannot show all rows.
        VersionNotCommittedError: The range reaches past the newest version.
        VersionCleanedUpError: Log cleanup removed commits of the range.
        TimestampNotFoundError: A time is past the newest commit, or before the oldest retained.
        ConfigError: The range or the options contradict themselves.
    """
    found = find_range(store, config, asked)
    return ChangeFeed(found, columns=columns, where=where, options=options)


class ChangeFeed(Feed):
    """The changes of a range of versions.

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
        found: The range.
        columns: What to show; None shows all.
        where: Only changes that match.
        limit: Most rows.
        options: How rows are read and shown; by default as `Config.read` says.
    """

    kind: ClassVar[Literal["rows", "changes"]] = "changes"

    def __init__(
        self,
        found: ChangeRange,
        *,
        columns: Sequence[str] | None = None,
        where: Where = None,
        limit: int | None = None,
        options: ReadOptions | None = None,
    ) -> None:
        self._found = found
        self._table = StructType((*found.end.schema.fields, *FIELDS))
        self.columns = self._resolved_columns(columns)
        self._predicate = as_predicate(where)
        self.limit = limit
        if options is None:  # what Config says of rows need not fit changes
            nothing: dict[str, Any] = dict.fromkeys(_NOT_HERE)
            options = replace(found.end.config.read, **nothing)
        check_options("options", options, ReadOptions)
        self.options = options
        self._counts = ChangeCounts()
        self._reader(options)  # what does not fit the table fails now

    @property
    def predicate(self) -> Predicate | None:
        """What every change satisfies."""
        return self._predicate

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows."""
        return self.presentation().schema

    def __repr__(self) -> str:
        commits = self._found.commits
        span = f"{commits[0].version} to {commits[-1].version}" if commits else "none"
        return f"ChangeFeed({self._found.end.store.root!r}, versions={span})"

    def count(self) -> int:
        """Return how many changes there are."""
        plain = replace(self.options, schema=None)
        with self.narrowed(columns=[]).to_batches(plain) as batches:
            return sum(batch.num_rows for batch in batches)

    def explain(self) -> Explanation:
        """Return what the feed covers and what its latest read came across."""
        commits, counts = self._found.commits, self._counts
        return Explanation(
            table=self._found.end.store.root,
            version=self._found.end.version,
            plan={
                "predicate": None if self.predicate is None else str(self.predicate),
                "columns": ", ".join(self.names),
                "limit": self.limit,
            },
            log={
                "starting_version": commits[0].version if commits else None,
                "commits": len(commits),
                "commits_read": counts.commits_read,
            },
            files={"emitted": counts.files_read, "pruned": counts.files_pruned},
        )

    def read_all(self) -> pa.Table:
        """Return all changes as one table, like `to_arrow()`: each call reads from the start."""
        return self.to_arrow()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Iterate over the batches, each time from the start."""
        return iter(self.to_batches())

    # --- how

    def _reader(self, options: ReadOptions) -> ChangeReader:
        for name in _NOT_HERE:
            if getattr(options, name) is not None:
                raise ConfigError(name, "a change has no such column")
        return ChangeReader(
            self._found.end,
            columns=columns_to_read(options.schema, self.columns, self._table.names),
            where=self.predicate,
            options=options,
        )

    @property
    def _shown_version(self) -> SnapshotState:
        return self._found.end

    @property
    def _readable(self) -> StructType:
        return self._table

    def _source(self, options: ReadOptions) -> RowSource:
        reader = self._reader(options)
        return RowSource(reader.schema, partial(self._batches, reader, options))

    def _asked(
        self, where: Predicate | None, columns: Sequence[str] | None, limit: int | None
    ) -> Self:
        return type(self)(
            self._found, columns=columns, where=where, limit=limit, options=self.options
        )

    def _batches(self, reader: ChangeReader, options: ReadOptions) -> Generator[pa.RecordBatch]:
        """Yield the changes, up to the limit."""
        left = self.limit
        if left == 0:
            return
        self._counts = ChangeCounts()
        batches = read_ahead(
            ChangePlan(self._found, reader, self._counts).tasks(),
            reader.read,
            width=threads_for(self._found.end.store, options.files_at_once),
            memory_limit=options.memory_limit,
            ordered=True,
        )
        with Stream(batches) as found:
            for batch in found:
                yield batch if left is None else batch.slice(0, left)
                if left is not None:
                    left -= min(left, batch.num_rows)
                    if not left:
                        return
