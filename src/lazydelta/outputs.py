"""`to_*` methods of everything that has rows: to Arrow, to a data frame, to an engine.

Defines the methods and reports each read to the observer. The source reads the rows. Adapters
(`lazydelta.interop`, a higher layer) pass them to engines; they are imported at first use.
"""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from contextlib import closing
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from lazydelta import metrics
from lazydelta.errors import MissingExtraError, SchemaError

if TYPE_CHECKING:
    from collections.abc import Generator

    import datafusion
    import duckdb
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    import pyarrow.dataset as pds

    from lazydelta.config import ReadOptions
    from lazydelta.metrics import Observer

__all__ = ["Adapters", "Outputs", "metered"]


class Adapters(Protocol):
    """The interface of `lazydelta.interop` that `Outputs` calls."""

    def to_pyarrow_dataset(self, source: Any, options: ReadOptions | None) -> pds.Dataset:
        """Return a dataset of the source's rows."""

    def scan_polars(self, source: Any, options: ReadOptions | None) -> pl.LazyFrame:
        """Return a lazy frame of the source's rows."""

    def to_polars(self, source: Any, options: ReadOptions | None) -> pl.DataFrame:
        """Return the source's rows as a data frame."""

    def duckdb_relation(
        self, connection: Any, source: Any, options: ReadOptions | None
    ) -> duckdb.DuckDBPyRelation:
        """Return a relation of the source's rows."""

    def register_datafusion(
        self, context: Any, name: str, source: Any, options: ReadOptions | None
    ) -> str:
        """Register the source as a table of a context."""


def _adapters() -> Adapters:
    """Load the adapters. They are a layer above, so the package's own door imports them."""
    package: Any = sys.modules[__name__.partition(".")[0]]
    return package.load_interop()


class Outputs(ABC):
    """The `to_*` methods of a table, snapshot, scan or change feed.

    All of them return the same rows. Each call reads from the start. `options` define how rows are
    read and shown; the default is the source's own options, then `Config.read`. A method whose
    package is not installed raises `MissingExtraError`, which names the `pip install` command.

    >>> import io
    >>> import pyarrow as pa, pyarrow.parquet as pq
    >>> import lazydelta as ld
    >>> from lazydelta.store import MemoryStore
    >>> from lazydelta.testing import TableBuilder, add
    >>> data = io.BytesIO()
    >>> pq.write_table(pa.table({"id": [1, 2, 3]}), data)
    >>> store = MemoryStore({"a": data.getvalue()})
    >>> _ = TableBuilder(store, schema={"id": "long"}).commit(add("a", size=data.tell()))
    >>> table = ld.Table(store, ld.Config())
    >>> table.to_arrow().to_pydict()
    {'id': [1, 2, 3]}
    >>> table.scan("id > 1").to_pyarrow_dataset().count_rows()
    2
    >>> wanted = pa.schema({"id": pa.float64(), "note": pa.string()})
    >>> table.scan(limit=1).to_arrow(ld.ReadOptions(schema=wanted)).to_pylist()
    Traceback (most recent call last):
    lazydelta.errors.SchemaError: ... column 'id' is int64: double cannot hold it
    >>> wanted = pa.schema({"id": pa.decimal128(20), "note": pa.string()})
    >>> table.scan(limit=1).to_arrow(ld.ReadOptions(schema=wanted)).to_pylist()
    [{'id': Decimal('1'), 'note': None}]
    """

    __slots__ = ()

    _internal_names: ClassVar[frozenset[str]] = frozenset()
    """Attributes for other rooms only: tab completion does not offer them."""

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name not in self._internal_names]

    @abstractmethod
    def to_reader(self, options: ReadOptions | None = None) -> pa.RecordBatchReader:
        """Return the rows as a streaming reader for any Arrow consumer.

        Deleting the reader stops the read. Its `close()` does not, because pyarrow does not forward
        it. To stop at a known point, use `with scan.to_batches()`.
        """

    def to_arrow(self, options: ReadOptions | None = None) -> pa.Table:
        """Return all rows as one table."""
        return self.to_reader(options).read_all()

    def to_pandas(self, options: ReadOptions | None = None) -> pd.DataFrame:
        """Return all rows as a `pandas.DataFrame`.

        Raises:
            MissingExtraError: pandas is not installed.
            SchemaError: pandas cannot represent a value, such as a date after the year 9999.
        """
        try:
            import pandas as pd  # noqa: F401 - report a missing package before rows are read
        except ModuleNotFoundError:
            raise MissingExtraError("pandas", "pandas") from None
        rows = self.to_arrow(options)
        try:
            return rows.to_pandas()
        except (
            ValueError,
            OverflowError,
            NotImplementedError,
        ) as error:  # bases of Arrow's own errors
            reason = f"pandas cannot hold a value: {error}; drop its column, or use to_arrow()"
            raise SchemaError(reason) from error

    def to_polars(self, options: ReadOptions | None = None) -> pl.DataFrame:
        """Return all rows as a `polars.DataFrame`.

        Raises:
            MissingExtraError: Polars is not installed.
            ForkedProcessError: The parent process of this one has used Polars.
        """
        return _adapters().to_polars(self, options)

    def scan_polars(self, options: ReadOptions | None = None) -> pl.LazyFrame:
        """Return a `polars.LazyFrame`; its filter, columns and row limit are pushed down.

        Raises:
            MissingExtraError: Polars is not installed.
            ForkedProcessError: The parent process of this one has used Polars.
        """
        return _adapters().scan_polars(self, options)

    def to_pyarrow_dataset(self, options: ReadOptions | None = None) -> pds.Dataset:
        """Return a `pyarrow.dataset.Dataset`; its filters and columns are pushed down.

        Read it with its own methods (`to_table`, `scanner`, `head`, ...). pyarrow's C++ engine
        (Acero, `UnionDataset`, `other.join(dataset)`) raises `UnsupportedOperationError`.
        """
        return _adapters().to_pyarrow_dataset(self, options)

    def to_duckdb(
        self,
        connection: duckdb.DuckDBPyConnection | None = None,
        options: ReadOptions | None = None,
    ) -> duckdb.DuckDBPyRelation:
        """Return a DuckDB relation; its filters and columns are pushed down.

        Args:
            connection: The connection of the relation; None is DuckDB's default connection.
            options: How rows are read and presented.

        Raises:
            MissingExtraError: DuckDB is not installed.
        """
        return _adapters().duckdb_relation(connection, self, options)

    def register(
        self, context: datafusion.SessionContext, name: str, options: ReadOptions | None = None
    ) -> str:
        """Register this as a table of a DataFusion context; filters and columns are pushed down.

        Args:
            context: The session context.
            name: The table's name in SQL, case-sensitive.
            options: How rows are read and presented.

        Returns:
            A description of the integration path in use.

        Raises:
            MissingExtraError: DataFusion is not installed.
            ForkedProcessError: The parent process of this one has used DataFusion.
        """
        return _adapters().register_datafusion(context, name, self, options)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export the rows through the Arrow C stream interface."""
        return self.to_reader().__arrow_c_stream__(requested_schema)


def metered(
    batches: Generator[pa.RecordBatch],
    observer: Observer | None,
    *,
    kind: Literal["rows", "changes"],
    table: str,
    version: int,
) -> Generator[pa.RecordBatch]:
    """Return the batches; the observer is notified when they end, fail or are closed early."""
    if observer is None:
        return batches
    return _metered(batches, observer, kind=kind, table=table, version=version)


def _metered(
    batches: Generator[pa.RecordBatch], observer: Observer, **event: Any
) -> Generator[pa.RecordBatch]:
    began, first = time.perf_counter(), None
    rows = count = size = 0
    complete = False
    try:
        with closing(batches):
            for batch in batches:
                first = time.perf_counter() - began if first is None else first
                rows, count, size = rows + batch.num_rows, count + 1, size + batch.nbytes
                yield batch
        complete = True
    finally:
        metrics.notify(
            observer,
            metrics.ReadFinished(
                **event,
                rows=rows,
                batches=count,
                bytes=size,
                first_batch_seconds=first,
                seconds=time.perf_counter() - began,
                complete=complete,
            ),
        )
