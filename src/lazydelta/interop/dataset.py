"""A pyarrow `Dataset` over a lazy feed: what DuckDB, DataFusion and pyarrow's users ask of one.

Nothing is planned or read before somebody pulls a batch, and no more than is pulled (and a bounded
read-ahead). Columns go into the feed; filters are applied exactly as pyarrow would, and what can be
translated of them also leaves out files and row groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn
from weakref import WeakSet

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

from lazydelta.errors import DeltaError
from lazydelta.interop.fragments import SharedRows
from lazydelta.interop.pushdown import Pushdown
from lazydelta.interop.source import Feed, Source, as_feed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lazydelta.scan.plan import Explanation
    from lazydelta.scan.read import ReadOptions

__all__ = ["LazyDataset", "LazyFragment", "LazyScanner", "to_pyarrow_dataset"]


def to_pyarrow_dataset(source: Source, options: ReadOptions | None = None) -> LazyDataset:
    """Return a dataset of the rows of a table, a snapshot, a scan or a change feed.

    A table is pinned to the version it has now, so that one query sees one version.

    Args:
        source: What to read; its own filter, columns and limit stay in force.
        options: How rows are read and shown; never as views, over which pyarrow cannot filter.
    """
    return LazyDataset(as_feed(source), options)


class LazyDataset(pds.Dataset):  # type: ignore[misc]
    """The rows of a feed, as a dataset that engines can push columns and filters into.

    It is a `Dataset` by type and not by its inner workings: all that a dataset can do is
    redefined here, because the C++ object that the methods of the base class use is not there.

    Args:
        feed: What to read.
        options: How rows are read and shown.
        where: Which rows to keep.
        for_datafusion: Whether DataFusion reads it, which means NaN otherwise than pyarrow and
            takes NOT NULL at its word; see `Pushdown`.
    """

    def __init__(
        self,
        feed: Feed,
        options: ReadOptions | None = None,
        *,
        where: pc.Expression | None = None,
        for_datafusion: bool = False,
    ) -> None:
        # Not super().__init__(): it refuses subclasses.
        self._feed = feed
        self._options = options
        self._where = where
        self._for_datafusion = for_datafusion
        self._schema = self._pushdown(None, None).schema
        self._latest: Feed = feed
        self._shares: WeakSet[SharedRows] = WeakSet()
        self.failure: DeltaError | None = None
        """What went wrong in the latest read: engines tell only its text."""

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows."""
        return self._schema

    @property
    def feed(self) -> Feed:
        """What this dataset shows."""
        return self._feed

    @property
    def partition_expression(self) -> pc.Expression:
        """What holds for all rows: nothing in particular."""
        return pc.scalar(True)

    def __repr__(self) -> str:
        return f"LazyDataset({self._feed!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a LazyDataset cannot be pickled: pickle the address, and open it again")

    def explain(self) -> Explanation:
        """Return what the latest read chose, read and left out."""
        return self._latest.explain()

    def close(self) -> None:
        """End the reads of fragments that an engine holds on to longer than it needs them."""
        for shared in list(self._shares):
            shared.close()

    # --- reading

    def scanner(
        self,
        columns: Any = None,
        filter: pc.Expression | None = None,  # noqa: A002 - the name pyarrow's callers use
        batch_size: int | None = None,
        **ignored: Any,
    ) -> LazyScanner:
        """Return a read of this dataset: some columns of the rows that a filter keeps.

        Args:
            columns: Names, or expressions by name; None is all.
            filter: Which rows to keep.
            batch_size: Most rows in a batch.
            ignored: Settings of pyarrow's own reader (`use_threads`, `batch_readahead`, ...).
        """
        del ignored
        read = self._pushdown(columns, _both(self._where, filter))
        start = lambda: _sliced(read.batches(self._note), batch_size)  # noqa: E731
        return LazyScanner(self, read.schema, start)

    def get_fragments(self, filter: pc.Expression | None = None) -> Iterator[LazyFragment]:  # noqa: A002
        """Return a few fragments that share one lazy stream of rows.

        SmallFileReader they give every row once, whichever of them is asked; how the rows fall to them
        depends on who asks first.
        """
        shared = SharedRows()
        self._shares.add(shared)
        where = _both(self._where, filter)
        return iter([LazyFragment(self, where, shared, at) for at in range(shared.width)])

    def to_batches(self, columns: Any = None, **settings: Any) -> Iterator[pa.RecordBatch]:
        """Yield the rows as batches; see `scanner` for the settings."""
        return self.scanner(columns, **settings).to_batches()

    def to_table(self, columns: Any = None, **settings: Any) -> pa.Table:
        """Return all rows; see `scanner` for the settings."""
        return self.scanner(columns, **settings).to_table()

    def head(self, num_rows: int, columns: Any = None, **settings: Any) -> pa.Table:
        """Return the first rows that are found."""
        return self.scanner(columns, **settings).head(num_rows)

    def take(self, indices: Any, columns: Any = None, **settings: Any) -> pa.Table:
        """Return rows by position; positions are those of this very read."""
        return self.scanner(columns, **settings).take(indices)

    def count_rows(self, filter: pc.Expression | None = None, **settings: Any) -> int:  # noqa: A002
        """Return the number of rows, from the log alone where it tells."""
        if _both(self._where, filter) is None:
            return self._feed.count()
        return self.scanner([], filter=filter, **settings).count_rows()

    def filter(self, expression: pc.Expression) -> LazyDataset:
        """Return a dataset of the rows that satisfy an expression."""
        where = _both(self._where, expression)
        return LazyDataset(
            self._feed, self._options, where=where, for_datafusion=self._for_datafusion
        )

    # --- what pyarrow itself does in memory

    def sort_by(self, sorting: Any, **settings: Any) -> pds.InMemoryDataset:
        """Return all rows, sorted, in memory."""
        return pds.InMemoryDataset(self.to_table().sort_by(sorting, **settings))

    def join(self, right_dataset: pds.Dataset, *args: Any, **settings: Any) -> pds.InMemoryDataset:
        """Return all rows joined with those of another dataset, in memory."""
        joined = self.to_table().join(right_dataset.to_table(), *args, **settings)
        return pds.InMemoryDataset(joined)

    def join_asof(
        self, right_dataset: pds.Dataset, *args: Any, **settings: Any
    ) -> pds.InMemoryDataset:
        """Return all rows joined with the nearest of another dataset, in memory."""
        joined = self.to_table().join_asof(right_dataset.to_table(), *args, **settings)
        return pds.InMemoryDataset(joined)

    def replace_schema(self, schema: pa.Schema) -> NoReturn:
        """Refuse: the log decides about the schema of a table."""
        del schema
        reason = "a Delta table has the schema of its log; cast the batches, or select columns"
        raise NotImplementedError(reason)

    def _get_fragments(self, filter: pc.Expression | None) -> Iterator[LazyFragment]:  # noqa: A002
        return self.get_fragments(filter)

    def _pushdown(self, columns: Any, where: pc.Expression | None) -> Pushdown:
        return Pushdown(
            self._feed,
            columns=columns,
            where=where,
            options=self._options,
            for_datafusion=self._for_datafusion,
        )

    def _note(self, feed: Feed) -> None:
        self._latest = feed


class LazyScanner:
    """A read of a dataset that may be started as often as one likes."""

    def __init__(
        self,
        dataset: LazyDataset,
        schema: pa.Schema,
        start: Callable[[], Iterator[pa.RecordBatch]],
    ) -> None:
        self._dataset = dataset
        self._start = start
        self.projected_schema = schema
        """The schema of the batches."""

    @property
    def dataset_schema(self) -> pa.Schema:
        """The schema of all rows of the dataset."""
        return self._dataset.schema

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, while files are still being planned."""
        try:
            yield from self._start()
        except DeltaError as error:
            self._dataset.failure = error
            raise

    def scan_batches(self) -> Iterator[Any]:
        """Yield the rows with the fragment they are from."""
        fragment = next(self._dataset.get_fragments())
        for batch in self.to_batches():
            yield _TaggedBatch(batch, fragment)

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows as a reader."""
        return pa.RecordBatchReader.from_batches(self.projected_schema, self.to_batches())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Hand the rows to another library through the Arrow C interface."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_table(self) -> pa.Table:
        """Return all rows."""
        return pa.Table.from_batches(list(self.to_batches()), self.projected_schema)

    def head(self, num_rows: int) -> pa.Table:
        """Return the first rows that are found, and stop."""
        found: list[pa.RecordBatch] = []
        left = num_rows
        batches = self.to_batches()
        while left > 0 and (batch := next(batches, None)) is not None:
            found.append(batch.slice(0, left))
            left -= found[-1].num_rows
        batches.close()  # type: ignore[attr-defined]
        return pa.Table.from_batches(found, self.projected_schema)

    def take(self, indices: Any) -> pa.Table:
        """Return rows by position."""
        return self.to_table().take(indices)

    def count_rows(self) -> int:
        """Return the number of rows."""
        return sum(batch.num_rows for batch in self.to_batches())


class LazyFragment:
    """A share of the rows of a dataset; its siblings have the others."""

    def __init__(
        self, dataset: LazyDataset, where: pc.Expression | None, shared: SharedRows, at: int
    ) -> None:
        self._dataset = dataset
        self._where = where
        self._shared = shared
        self._at = at

    @property
    def physical_schema(self) -> pa.Schema:
        """The schema of the rows."""
        return self._dataset.schema

    @property
    def partition_expression(self) -> pc.Expression:
        """What holds for all rows: nothing in particular."""
        return pc.scalar(True)

    def scanner(
        self,
        schema: pa.Schema | None = None,
        columns: Any = None,
        filter: pc.Expression | None = None,  # noqa: A002
        **ignored: Any,
    ) -> LazyScanner:
        """Return a read of this share; the settings are those of `LazyDataset.scanner`."""
        del schema, ignored
        dataset = self._dataset
        read = dataset._pushdown(columns, _both(self._where, filter))  # noqa: SLF001
        flow = lambda: read.batches(dataset._note)  # noqa: E731, SLF001 - its own part
        start = lambda: self._shared.batches(self._at, read.key, flow)  # noqa: E731
        return LazyScanner(dataset, read.schema, start)

    def to_batches(self, schema: pa.Schema | None = None, **settings: Any) -> Any:
        """Yield the rows of this share."""
        return self.scanner(schema, **settings).to_batches()

    def to_table(self, schema: pa.Schema | None = None, **settings: Any) -> pa.Table:
        """Return the rows of this share."""
        return self.scanner(schema, **settings).to_table()

    def head(self, num_rows: int, **settings: Any) -> pa.Table:
        """Return the first rows of this share."""
        return self.scanner(**settings).head(num_rows)

    def take(self, indices: Any, **settings: Any) -> pa.Table:
        """Return rows of this share by position."""
        return self.scanner(**settings).take(indices)

    def count_rows(self, **settings: Any) -> int:
        """Return the number of rows of this share."""
        return self.scanner(columns=[], **settings).count_rows()


class _TaggedBatch:
    """A batch and its fragment, under the names of pyarrow."""

    def __init__(self, record_batch: pa.RecordBatch, fragment: LazyFragment) -> None:
        self.record_batch = record_batch
        self.fragment = fragment


def _both(
    first: pc.Expression | None, second: pc.Expression | pa.Scalar | None
) -> pc.Expression | None:
    if isinstance(second, pa.Scalar):  # DataFusion folds some conditions to a bare constant
        second = pc.scalar(second)
    if first is None or second is None:
        return second if first is None else first
    return first & second


def _sliced(batches: Iterator[pa.RecordBatch], rows: int | None) -> Iterator[pa.RecordBatch]:
    if rows is None:
        yield from batches
        return
    for batch in batches:
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)
