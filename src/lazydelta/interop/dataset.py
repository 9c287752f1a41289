"""A pyarrow `Dataset` over a lazy scan, for DuckDB, DataFusion and users of pyarrow.

Nothing is planned or read before the first batch is pulled. After that, no more is read than is
pulled, plus a bounded read-ahead. The scan reads only the projected columns. Filters are applied
with pyarrow's semantics; the translatable part of a filter also prunes files and row groups.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, NoReturn
from weakref import WeakSet

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

from lazydelta.errors import DeltaError, UnsupportedOperationError
from lazydelta.interop.adapter_source import RowScan, Source, as_row_scan
from lazydelta.interop.arrow_pushdown import ArrowPushdown
from lazydelta.interop.fork_guard import DATAFUSION
from lazydelta.interop.fragments import SharedRows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lazydelta.config import ReadOptions
    from lazydelta.scan.plan import Explanation

__all__ = ["LazyDataset", "LazyFragment", "LazyScanner", "to_pyarrow_dataset"]

_APPARENT_SIZE = 1024
"""Larger than the smallest IPC file, which pyarrow would reject before reading it."""


def to_pyarrow_dataset(source: Source, options: ReadOptions | None = None) -> LazyDataset:
    """Return a dataset of the rows of a table, snapshot, scan or change feed.

    A table is pinned to its current version, so that one query sees one version.

    Args:
        source: What to read; its own filter, columns and limit stay in force.
        options: How rows are read and presented. View types are ignored, as pyarrow cannot filter
            them.
    """
    return LazyDataset(as_row_scan(source), options)


class LazyDataset(pds.UnionDataset):  # type: ignore[misc]
    """The rows of a scan, as a dataset that engines can push columns and filters into.

    Every method that reads is redefined in Python. pyarrow's C++ engine bypasses these methods
    and scans the child of the union, which raises `UnsupportedOperationError`.

    Args:
        scan: What to read.
        options: How rows are read and presented.
        where: Which rows to keep.
        for_datafusion: Whether DataFusion reads it. DataFusion orders NaN differently from pyarrow
            and relies on NOT NULL; see `ArrowPushdown`.
    """

    def __init__(
        self,
        scan: RowScan,
        options: ReadOptions | None = None,
        *,
        where: pc.Expression | None = None,
        for_datafusion: bool = False,
    ) -> None:
        self._scan = scan
        self._options = options
        self._where = where
        self._for_datafusion = for_datafusion
        self._latest: RowScan = scan
        self._shares: WeakSet[SharedRows] = WeakSet()
        self.failure: DeltaError | None = None
        """The error of the latest read: engines keep only its message."""
        schema = self._pushdown(None, None).schema
        file_format = pds.IpcFileFormat()
        refusing = file_format.make_fragment(_RefusingFile())
        super().__init__(schema, [pds.FileSystemDataset([refusing], schema, file_format)])

    @property
    def scan(self) -> RowScan:
        """The source of the rows."""
        return self._scan

    def __repr__(self) -> str:
        return f"LazyDataset({self._scan!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a LazyDataset cannot be pickled: pickle the table's URL, and open it again"
        )

    def explain(self) -> Explanation:
        """Return what the latest read planned, read and pruned."""
        return self._latest.explain()

    def close(self) -> None:
        """Stop the reads of fragments that an engine has not released yet."""
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
        """Return a scanner with a projection and a filter.

        Args:
            columns: Names, or expressions by name; None is all.
            filter: Which rows to keep.
            batch_size: Maximum rows in a batch.
            ignored: Settings of pyarrow's own reader (`use_threads`, `batch_readahead`, ...).
        """
        del ignored
        read = self._pushdown(columns, _both(self._where, filter))
        start = lambda: _sliced(read.batches(self._note), batch_size)  # noqa: E731
        return LazyScanner(self, read.schema, start)

    def get_fragments(self, filter: pc.Expression | None = None) -> Iterator[LazyFragment]:  # noqa: A002
        """Return a few fragments that share one lazy stream of rows.

        Together they return every row once. Which fragment returns a row depends on timing.
        """
        if self._for_datafusion:
            DATAFUSION.start()
        shared = SharedRows()
        self._shares.add(shared)
        where = _both(self._where, filter)
        return iter([LazyFragment(self, where, shared, index) for index in range(shared.width)])

    def to_batches(self, columns: Any = None, **settings: Any) -> Iterator[pa.RecordBatch]:
        """Yield the rows as batches; see `scanner` for the arguments."""
        return self.scanner(columns, **settings).to_batches()

    def to_table(self, columns: Any = None, **settings: Any) -> pa.Table:
        """Return all rows; see `scanner` for the arguments."""
        return self.scanner(columns, **settings).to_table()

    def head(self, num_rows: int, columns: Any = None, **settings: Any) -> pa.Table:
        """Return the first rows found."""
        return self.scanner(columns, **settings).head(num_rows)

    def take(self, indices: Any, columns: Any = None, **settings: Any) -> pa.Table:
        """Return rows by their position in this read."""
        return self.scanner(columns, **settings).take(indices)

    def count_rows(self, filter: pc.Expression | None = None, **settings: Any) -> int:  # noqa: A002
        """Return the number of rows, from the log alone where its statistics are exact."""
        if _both(self._where, filter) is None:
            return self._scan.count()
        return self.scanner([], filter=filter, **settings).count_rows()

    def filter(self, expression: pc.Expression) -> LazyDataset:
        """Return a dataset of the rows that satisfy an expression."""
        where = _both(self._where, expression)
        return LazyDataset(
            self._scan, self._options, where=where, for_datafusion=self._for_datafusion
        )

    # --- executed by pyarrow, in memory

    def sort_by(self, sorting: Any, **settings: Any) -> pds.InMemoryDataset:
        """Return all rows, sorted, in memory."""
        return pds.InMemoryDataset(self.to_table().sort_by(sorting, **settings))

    def join(self, right_dataset: pds.Dataset, *args: Any, **settings: Any) -> pds.InMemoryDataset:
        """Return all rows joined with another dataset, in memory."""
        joined = self.to_table().join(right_dataset.to_table(), *args, **settings)
        return pds.InMemoryDataset(joined)

    def join_asof(
        self, right_dataset: pds.Dataset, *args: Any, **settings: Any
    ) -> pds.InMemoryDataset:
        """Return all rows joined with the nearest rows of another dataset, in memory."""
        joined = self.to_table().join_asof(right_dataset.to_table(), *args, **settings)
        return pds.InMemoryDataset(joined)

    def replace_schema(self, schema: pa.Schema) -> NoReturn:
        """Raise: the log defines the schema.

        Raises:
            UnsupportedOperationError: Always.
        """
        del schema
        cure = "pass ReadOptions(schema=...) to to_pyarrow_dataset()"
        raise UnsupportedOperationError("replacing the schema of a LazyDataset", cure)

    def _get_fragments(self, filter: pc.Expression | None) -> Iterator[LazyFragment]:  # noqa: A002
        return self.get_fragments(filter)

    def _pushdown(self, columns: Any, where: pc.Expression | None) -> ArrowPushdown:
        return ArrowPushdown(
            self._scan,
            columns=columns,
            where=where,
            options=self._options,
            for_datafusion=self._for_datafusion,
        )

    def _note(self, scan: RowScan) -> None:
        self._latest = scan


class LazyScanner:
    """A read of a dataset, with the interface of `pyarrow.dataset.Scanner`; it can be repeated."""

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
        """The schema of the dataset, before projection."""
        return self._dataset.schema

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, while files are still being planned."""
        try:
            yield from self._start()
        except DeltaError as error:
            self._dataset.failure = error
            raise

    def scan_batches(self) -> Iterator[Any]:
        """Yield the rows, each batch with a fragment."""
        fragment = next(self._dataset.get_fragments())
        for batch in self.to_batches():
            yield _TaggedBatch(batch, fragment)

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows as a reader."""
        return pa.RecordBatchReader.from_batches(self.projected_schema, self.to_batches())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export the rows through the Arrow C stream interface."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_table(self) -> pa.Table:
        """Return all rows."""
        return pa.Table.from_batches(list(self.to_batches()), self.projected_schema)

    def head(self, num_rows: int) -> pa.Table:
        """Return the first rows found, then stop reading."""
        rows: list[pa.RecordBatch] = []
        left = num_rows
        batches = self.to_batches()
        while left > 0 and (batch := next(batches, None)) is not None:
            rows.append(batch.slice(0, left))
            left -= rows[-1].num_rows
        batches.close()  # type: ignore[attr-defined]
        return pa.Table.from_batches(rows, self.projected_schema)

    def take(self, indices: Any) -> pa.Table:
        """Return rows by position."""
        return self.to_table().take(indices)

    def count_rows(self) -> int:
        """Return the number of rows."""
        return sum(batch.num_rows for batch in self.to_batches())


class LazyFragment:
    """A share of the rows of a dataset; the other fragments return the rest."""

    def __init__(
        self, dataset: LazyDataset, where: pc.Expression | None, shared: SharedRows, index: int
    ) -> None:
        self._dataset = dataset
        self._where = where
        self._shared = shared
        self._at = index

    @property
    def physical_schema(self) -> pa.Schema:
        """The schema of the rows."""
        return self._dataset.schema

    @property
    def partition_expression(self) -> pc.Expression:
        """A condition that all rows satisfy: always true."""
        return pc.scalar(True)

    def scanner(
        self,
        schema: pa.Schema | None = None,
        columns: Any = None,
        filter: pc.Expression | None = None,  # noqa: A002
        **ignored: Any,
    ) -> LazyScanner:
        """Return a scanner of this share; see `LazyDataset.scanner` for the arguments."""
        del schema, ignored
        dataset = self._dataset
        read = dataset._pushdown(columns, _both(self._where, filter))  # noqa: SLF001
        stream = lambda: read.batches(dataset._note)  # noqa: E731, SLF001 - its own part
        start = lambda: self._shared.batches(self._at, read.key, stream)  # noqa: E731
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


class _RefusingFile(io.RawIOBase):
    """The only file of the dataset that pyarrow's C++ engine sees; reading it raises.

    Its size can be queried: pyarrow does so when the dataset is made, and an exception there would
    keep the frames of our callers alive.
    """

    def readable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        del offset, whence
        return 0

    def tell(self) -> int:
        return _APPARENT_SIZE

    def read(self, size: int = -1, /) -> NoReturn:
        del size
        operation = "scanning a LazyDataset with pyarrow's C++ engine (Acero, joins, unions)"
        raise UnsupportedOperationError(
            operation, "use dataset.to_table(), or dataset.scanner().to_reader()"
        )


class _TaggedBatch:
    """A batch and its fragment, as `pyarrow.dataset.TaggedRecordBatch`."""

    def __init__(self, record_batch: pa.RecordBatch, fragment: LazyFragment) -> None:
        self.record_batch = record_batch
        self.fragment = fragment


def _both(
    first: pc.Expression | None, second: pc.Expression | pa.Scalar | None
) -> pc.Expression | None:
    if isinstance(second, pa.Scalar):  # DataFusion folds some conditions to a constant
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
