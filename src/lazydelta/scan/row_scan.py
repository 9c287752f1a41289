"""`RowScan`: base class of `Scan` and `ChangeFeed`.

Projection, filter, limit and output conversion are the same for rows of one version and for row
changes of many. Subclasses read the batches; `scan.read.output_schema` converts them.
"""

from __future__ import annotations

from abc import abstractmethod
from contextlib import closing
from dataclasses import replace
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

import pyarrow as pa

from lazydelta._stream import Stream
from lazydelta.config import ReadOptions, check_options, validate_columns
from lazydelta.outputs import Outputs, metered
from lazydelta.scan import read, resume
from lazydelta.schema import StructType

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from lazydelta.expressions import Predicate
    from lazydelta.scan.plan.explain import Explanation
    from lazydelta.scan.resume import Delivered, ResumeToken
    from lazydelta.snapshot import SnapshotState

__all__ = ["RowBatches", "RowScan"]


class RowBatches(NamedTuple):
    """Batches in the table's types, before output conversion; iteration starts the read."""

    schema: pa.Schema
    batches: Callable[[], Iterator[pa.RecordBatch]]
    buffered: Callable[[], Iterator[pa.RecordBatch]] | None = None
    """The same rows for a consumer that collects all batches before it uses any."""


class RowScan(Outputs):
    """Rows of a table that can be narrowed, and read any number of times."""

    _internal_names: ClassVar[frozenset[str]] = frozenset(
        {"add_batches", "filterable", "kind", "names", "narrowed", "output_schema"}
    )
    kind: ClassVar[Literal["rows", "changes"]] = "rows"
    """The kind of rows, in the observer's event."""
    columns: tuple[str, ...] | None
    """The requested columns; None means all."""
    limit: int | None
    """The maximum number of rows."""
    options: ReadOptions
    """How rows are read and presented, unless an output has its own options."""

    @property
    @abstractmethod
    def predicate(self) -> Predicate | None:
        """The condition that every row satisfies."""

    @property
    @abstractmethod
    def _output_snapshot(self) -> SnapshotState:
        """The version whose schema the rows have."""

    @property
    @abstractmethod
    def _full_schema(self) -> StructType:
        """All columns that can be requested."""

    @abstractmethod
    def _row_batches(self, options: ReadOptions) -> RowBatches:
        """Return the rows before output conversion."""

    @abstractmethod
    def _copy(
        self, where: Predicate | None, columns: Sequence[str] | None, limit: int | None
    ) -> Self:
        """Return a copy with another predicate, other columns and another limit."""

    @abstractmethod
    def _opened_rows(self, token: str | None) -> tuple[Self, ResumeToken]:
        """Return the scan of a token's version, and the token; by default the first one."""

    @abstractmethod
    def _placed_rows(
        self, options: ReadOptions, state: ResumeToken
    ) -> tuple[pa.Schema, Iterator[tuple[pa.RecordBatch, Any]]]:
        """Return the schema before output conversion, and the rows with the position after each."""

    @abstractmethod
    def count(self) -> int:
        """Return the number of rows."""

    @abstractmethod
    def explain(self) -> Explanation:
        """Return what the latest read chose, read and pruned."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns that are read."""
        return self._full_schema.names if self.columns is None else self.columns

    def narrowed(
        self,
        *,
        where: Predicate | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> Self:
        """Return this with a further condition, fewer columns or fewer rows.

        A condition would change which rows an existing limit counts, so the caller must not add one
        to a limited scan.
        """
        conditions = [part for part in (self.predicate, where) if part is not None]
        return self._copy(
            reduce(and_, conditions) if conditions else None,
            self.columns if columns is None else columns,
            min((rows for rows in (self.limit, limit) if rows is not None), default=None),
        )

    def to_batches(
        self, options: ReadOptions | None = None, *, encoded: bool = True
    ) -> Stream[pa.RecordBatch]:
        """Return the rows as Arrow batches, while files are still being planned.

        Every row satisfies the whole predicate. `limit` counts rows. Changes are in version order.
        Closing the stream stops all its work before `close()` returns.

        Args:
            options: How rows are read and presented; by default the scan's own options.
            encoded: Whether the options for view types and dictionaries apply.

        Raises:
            DataFileNotFoundError: A file is missing, as after a vacuum.
            DataFileError: A file is damaged, or its types do not fit the table.
            DeletionVectorError: A deletion vector is missing or damaged.
            PathNotAllowedError: The log refers to a path outside the table's root.
            SchemaError: The rows do not fit the requested schema.
            ChangeFeedDisabledError: Change feed: a version did not record its changes.
            ChangeFeedSchemaError: Change feed: the last version's schema does not fit all rows.
        """
        options = self._resolve_options(options)
        if not encoded:
            options = replace(options, schema_force_view_types=False, wrap_partition_values=False)
        rows = self._row_batches(options)
        return Stream(self._convert(rows, self._conversion(rows, options, encoded=encoded)))

    def resumable_rows(self, token: str | None = None) -> Stream[Delivered]:
        """Return the rows as batches, each with the token from which any process continues.

        Rows are in plan order. After a token other batches may be read than without it, but each
        row is in one of them, in the same order. `limit` counts the rows of all resumptions.

        Args:
            token: The token of the last batch that arrived; None starts at the beginning.

        Raises:
            ResumeTokenError: The token is damaged, or of another table or scan.
            ResumeTokenExpiredError: The log no longer has the files that it continues in.
        """
        scan, state = self._opened_rows(token)
        return Stream(scan._delivered_rows(state))  # noqa: SLF001 - own class

    def resume(self, token: str) -> Stream[Delivered]:
        """Continue after the batch of a token, in any process.

        The token decides the version, so this may be of another version of the table.

        Args:
            token: The token of the last batch that arrived.

        Raises:
            ResumeTokenError: The token is damaged, or of another table or scan.
            ResumeTokenExpiredError: The log no longer has the files that it continues in.
        """
        return self.resumable_rows(token)

    def _delivered_rows(self, state: ResumeToken) -> Iterator[Delivered]:
        snapshot, options = self._output_snapshot, replace(self.options, ordered=True)
        schema, placed = self._placed_rows(options, state)
        positions: list[Any] = []  # of the batch that is converted

        def batches() -> Iterator[pa.RecordBatch]:
            with Stream(placed) as stream:
                for batch, position in stream:
                    positions[:] = [position]
                    yield batch

        rows = RowBatches(schema, batches)
        converted = self._convert(rows, self._conversion(rows, options))
        with closing(converted):
            pairs = ((batch, positions[0]) for batch in converted)
            yield from resume.delivered(pairs, state, snapshot.config.resume_key)

    def to_reader(self, options: ReadOptions | None = None) -> pa.RecordBatchReader:
        """Return the rows as a streaming reader for any Arrow consumer."""
        options = self._resolve_options(options)
        rows = self._row_batches(options)
        output = self._conversion(rows, options)
        return pa.RecordBatchReader.from_batches(output.schema, self._convert(rows, output))

    def to_arrow(self, options: ReadOptions | None = None) -> pa.Table:
        """Return all rows as one table."""
        options = self._resolve_options(options)
        rows = self._row_batches(options)
        output = self._conversion(rows, options)
        if rows.buffered is not None:
            rows = rows._replace(batches=rows.buffered)
        with closing(self._convert(rows, output)) as batches:
            return pa.Table.from_batches(batches, output.schema)

    def output_schema(
        self, options: ReadOptions | None = None, *, views: bool = True
    ) -> read.OutputSchema:
        """Return the output conversion of the rows; see `scan.read.output_schema`."""
        options = self._resolve_options(options)
        return self._conversion(self._row_batches(options), options, views=views)

    def filterable(self, options: ReadOptions | None = None) -> StructType:
        """Return the columns whose values the output conversion does not change.

        A condition on such a column selects the same rows before and after the conversion.
        """
        names = self.output_schema(options).unchanged()
        return StructType(tuple(field for field in self._full_schema if field.name in names))

    def _resolve_columns(self, columns: Sequence[str] | None) -> tuple[str, ...] | None:
        """Return the requested columns, as the schema spells them.

        Raises:
            ConfigError: They are not a list of different names.
            ColumnNotFoundError: There is no such column, ignoring case.
        """
        names = validate_columns(columns)
        if names is None:
            return None
        schema, existing = self._full_schema, set(self._full_schema.names)
        return validate_columns([n if n in existing else schema.find((n,))[0].name for n in names])

    def _resolve_options(self, options: ReadOptions | None) -> ReadOptions:
        if options is None:
            return self.options
        check_options("options", options, ReadOptions)
        return options

    def _conversion(
        self, rows: RowBatches, options: ReadOptions, **flags: bool
    ) -> read.OutputSchema:
        snapshot = self._output_snapshot
        return read.OutputSchema(
            rows.schema,
            options,
            existing=self._full_schema.names,
            repeated=snapshot.partition_columns,
            where=snapshot.store.root,
            **flags,
        )

    def _convert(self, rows: RowBatches, output: read.OutputSchema) -> Generator[pa.RecordBatch]:
        snapshot = self._output_snapshot
        return metered(
            output.batches(rows.batches()),
            snapshot.config.observer,
            kind=self.kind,
            table=snapshot.store.root,
            version=snapshot.version,
        )
