"""`Feed`: whatever has rows of a table to show, be they of a version or changes of many.

Knows how rows get from being read to being shown, and who is told of it. How they are read is the
business of who has them (`Scan`, and `ChangeFeed` above this room), what they look like that of
`scan.read.output_schema`.
"""

from __future__ import annotations

from abc import abstractmethod
from contextlib import closing
from dataclasses import replace
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, Self

import pyarrow as pa

from lazydelta._stream import Stream
from lazydelta.config import ReadOptions, check_options, given_columns
from lazydelta.outputs import Outputs, metered
from lazydelta.scan.read.output_schema import OutputSchema
from lazydelta.schema import StructType

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from lazydelta.expressions import Predicate
    from lazydelta.scan.plan.explain import Explanation
    from lazydelta.snapshot import SnapshotState

__all__ = ["Feed", "RowSource"]


class RowSource(NamedTuple):
    """Rows as they are going to be read; nothing is before `batches()` is iterated."""

    schema: pa.Schema
    batches: Callable[[], Iterator[pa.RecordBatch]]
    kept: Callable[[], Iterator[pa.RecordBatch]] | None = None
    """The same for a caller who does nothing with them before the last has come."""


class Feed(Outputs):
    """Rows of a table that can be read again and again, and narrowed first."""

    _internal_names: ClassVar[frozenset[str]] = frozenset(
        {"add_batches", "filterable", "kind", "names", "narrowed", "presentation"}
    )
    kind: ClassVar[Literal["rows", "changes"]] = "rows"
    """What an observer is told that the rows are."""
    columns: tuple[str, ...] | None
    """The columns that were asked for; None is all."""
    limit: int | None
    """The maximum number of rows."""
    options: ReadOptions
    """How rows are read and shown, unless a way out is told otherwise."""

    @property
    @abstractmethod
    def predicate(self) -> Predicate | None:
        """What every row satisfies."""

    @property
    @abstractmethod
    def _shown_version(self) -> SnapshotState:
        """The version whose columns the rows have."""

    @property
    @abstractmethod
    def _readable(self) -> StructType:
        """Every column that could be read."""

    @abstractmethod
    def _source(self, options: ReadOptions) -> RowSource:
        """Return the rows as they are read."""

    @abstractmethod
    def _asked(
        self, where: Predicate | None, columns: Sequence[str] | None, limit: int | None
    ) -> Self:
        """Return the same feed, asked for something else."""

    @abstractmethod
    def count(self) -> int:
        """Return how many rows there are."""

    @abstractmethod
    def explain(self) -> Explanation:
        """Return what the latest read chose, read and left out."""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that are read."""
        return self._readable.names if self.columns is None else self.columns

    def narrowed(
        self,
        *,
        where: Predicate | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> Self:
        """Return this with a further condition, fewer columns or fewer rows.

        A condition on what has a limit would change which rows the limit counts, so the caller
        must not give one.
        """
        kept = [part for part in (self.predicate, where) if part is not None]
        return self._asked(
            reduce(and_, kept) if kept else None,
            self.columns if columns is None else columns,
            min((most for most in (self.limit, limit) if most is not None), default=None),
        )

    def to_batches(
        self, options: ReadOptions | None = None, *, encoded: bool = True
    ) -> Stream[pa.RecordBatch]:
        """Return the rows as Arrow batches, while files are still being planned.

        Every row satisfies the whole predicate; `limit` counts rows here, and changes come in the
        order of versions. Closing the stream ends all work for it before `close()` returns.

        Args:
            options: How rows are read and shown; by default as this was told.
            encoded: Whether they come as views and dictionaries where that is asked for.

        Raises:
            DataFileNotFoundError: A file is gone, as after a vacuum.
            DataFileError: A file is damaged, or not of the table's types.
            DeletionVectorError: A deletion vector is missing or damaged.
            PathNotAllowedError: The log points out of the table's root.
            SchemaError: The rows cannot be shown in the schema asked for.
            ChangeFeedDisabledError: Of changes: a version did not record them.
            ChangeFeedSchemaError: Of changes: the last version's schema cannot show all rows.
        """
        options = self._resolved(options)
        if not encoded:
            options = replace(options, schema_force_view_types=False, wrap_partition_values=False)
        source = self._source(options)
        return Stream(self._shown(source, self._presented(source, options, encoded=encoded)))

    def to_reader(self, options: ReadOptions | None = None) -> pa.RecordBatchReader:
        """Return the rows as a reader that any Arrow consumer can stream from."""
        options = self._resolved(options)
        source = self._source(options)
        how = self._presented(source, options)
        return pa.RecordBatchReader.from_batches(how.schema, self._shown(source, how))

    def to_arrow(self, options: ReadOptions | None = None) -> pa.Table:
        """Return all rows as one table."""
        options = self._resolved(options)
        source = self._source(options)
        how = self._presented(source, options)
        if source.kept is not None:
            source = source._replace(batches=source.kept)
        with closing(self._shown(source, how)) as batches:
            return pa.Table.from_batches(batches, how.schema)

    def presentation(
        self, options: ReadOptions | None = None, *, views: bool = True
    ) -> OutputSchema:
        """Return how rows are shown; see `scan.read.output_schema`."""
        options = self._resolved(options)
        return self._presented(self._source(options), options, views=views)

    def filterable(self, options: ReadOptions | None = None) -> StructType:
        """Return the columns whose values are shown as the table has them.

        A condition on one of these means the same for the rows shown and for the table.
        """
        names = self.presentation(options).unchanged()
        return StructType(tuple(field for field in self._readable if field.name in names))

    def _resolved_columns(self, columns: Sequence[str] | None) -> tuple[str, ...] | None:
        """Return the columns that a caller requests, as the schema spells them.

        Raises:
            ConfigError: They are not a list of different names.
            ColumnNotFoundError: There is no such column, ignoring case.
        """
        names = given_columns(columns)
        if names is None:
            return None
        schema, existing = self._readable, set(self._readable.names)
        return given_columns([n if n in existing else schema.find((n,))[0].name for n in names])

    def _resolved(self, options: ReadOptions | None) -> ReadOptions:
        if options is None:
            return self.options
        check_options("options", options, ReadOptions)
        return options

    def _presented(self, source: RowSource, options: ReadOptions, **how: bool) -> OutputSchema:
        version = self._shown_version
        return OutputSchema(
            source.schema,
            options,
            existing=self._readable.names,
            repeated=version.partition_columns,
            where=version.store.root,
            **how,
        )

    def _shown(self, source: RowSource, how: OutputSchema) -> Generator[pa.RecordBatch]:
        version = self._shown_version
        return metered(
            how.batches(source.batches()),
            version.config.observer,
            kind=self.kind,
            table=version.store.root,
            version=version.version,
        )
