"""The ways out of whatever has rows: as Arrow, as a frame, or as a table of an engine.

Knows the names of the ways and what is told about rows that leave. Does not know how rows are
read, nor how an engine takes them: the first is the source's business, the second that of the
adapters, which live far above. The package's own door, which knows every room, says how to load
them (`plug_adapters`), so that nothing of them is imported before it is asked for.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from contextlib import closing
from typing import TYPE_CHECKING, Any, Literal, Protocol

from lazydelta.errors import InternalError, MissingExtraError, SchemaError
from lazydelta.metrics import FeedFinished, Observer

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    import datafusion
    import duckdb
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    import pyarrow.dataset as pds

    from lazydelta.config import ReadOptions

__all__ = ["Adapters", "Outputs", "metered", "plug_adapters"]


class Adapters(Protocol):
    """What brings rows to engines; `lazydelta.interop` is one."""

    def to_pyarrow_dataset(self, source: Any, options: ReadOptions | None) -> pds.Dataset:
        """Return a dataset of the source's rows."""

    def scan_polars(self, source: Any, options: ReadOptions | None) -> pl.LazyFrame:
        """Return a lazy frame of the source's rows."""

    def to_polars(self, source: Any, options: ReadOptions | None) -> pl.DataFrame:
        """Return the source's rows as a frame."""

    def duckdb_relation(
        self, connection: Any, source: Any, options: ReadOptions | None
    ) -> duckdb.DuckDBPyRelation:
        """Return a relation of the source's rows."""

    def register_datafusion(
        self, context: Any, name: str, source: Any, options: ReadOptions | None
    ) -> str:
        """Make the source a table of a context."""


class _Plug:
    """Where the adapters come from."""

    load: Callable[[], Adapters] | None = None


def plug_adapters(load: Callable[[], Adapters]) -> None:
    """Say how adapters are loaded; they are when one is first asked for."""
    _Plug.load = staticmethod(load)


def _adapters() -> Adapters:
    if _Plug.load is None:
        raise InternalError("no adapters were plugged in")
    return _Plug.load()


class Outputs(ABC):
    """The ways out of a table, a snapshot, a scan or a change feed.

    All of them read the same rows, and each again from the start. `options` say how rows are read
    and shown; by default as the source was told, or else as `Config.read` says. What needs a
    package that is not installed raises `MissingExtraError`, which names the `pip install`.

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

    @abstractmethod
    def to_reader(self, options: ReadOptions | None = None) -> pa.RecordBatchReader:
        """Return the rows as a reader that any Arrow consumer can stream from.

        Letting go of the reader stops what works for it. Its `close()` does not: pyarrow does not
        pass that on. Where a stream must end at a certain line, use `with scan.to_batches()`.
        """

    def to_arrow(self, options: ReadOptions | None = None) -> pa.Table:
        """Return all rows as one table."""
        return self.to_reader(options).read_all()

    def to_pandas(self, options: ReadOptions | None = None) -> pd.DataFrame:
        """Return all rows as a pandas frame.

        Raises:
            MissingExtraError: pandas is not installed.
            SchemaError: It has no form for a value, such as a date after the year 9999.
        """
        try:
            import pandas as pd  # noqa: F401 - only to say what is missing, before rows are read
        except ModuleNotFoundError:
            raise MissingExtraError("pandas", "pandas") from None
        rows = self.to_arrow(options)
        try:
            return rows.to_pandas()
        except (ValueError, OverflowError, NotImplementedError) as error:  # Arrow's are such, too
            reason = f"pandas cannot hold a value: {error}; leave its column out, or use to_arrow()"
            raise SchemaError(reason) from error

    def to_polars(self, options: ReadOptions | None = None) -> pl.DataFrame:
        """Return all rows as a Polars frame.

        Raises:
            MissingExtraError: Polars is not installed.
        """
        return _adapters().to_polars(self, options)

    def scan_polars(self, options: ReadOptions | None = None) -> pl.LazyFrame:
        """Return a lazy Polars frame; its filter, columns and head become part of our plan.

        Raises:
            MissingExtraError: Polars is not installed.
        """
        return _adapters().scan_polars(self, options)

    def to_pyarrow_dataset(self, options: ReadOptions | None = None) -> pds.Dataset:
        """Return a pyarrow dataset; its filters and columns become part of our plan."""
        return _adapters().to_pyarrow_dataset(self, options)

    def to_duckdb(
        self,
        connection: duckdb.DuckDBPyConnection | None = None,
        options: ReadOptions | None = None,
    ) -> duckdb.DuckDBPyRelation:
        """Return a DuckDB relation; its filters and columns become part of our plan.

        Args:
            connection: Where the relation lives; None is DuckDB's default connection.
            options: How rows are read and shown.

        Raises:
            MissingExtraError: DuckDB is not installed.
        """
        return _adapters().duckdb_relation(connection, self, options)

    def register(
        self, context: datafusion.SessionContext, name: str, options: ReadOptions | None = None
    ) -> str:
        """Make this a table of a DataFusion context; filters and columns become part of our plan.

        Args:
            context: Where the table is to be known.
            name: Its name in SQL, kept as it is written.
            options: How rows are read and shown.

        Returns:
            Which way DataFusion gets the rows.

        Raises:
            MissingExtraError: DataFusion is not installed.
        """
        return _adapters().register_datafusion(context, name, self, options)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Hand the rows to another library through the Arrow C interface, as a stream."""
        return self.to_reader().__arrow_c_stream__(requested_schema)


def metered(
    batches: Generator[pa.RecordBatch],
    observer: Observer | None,
    *,
    kind: Literal["rows", "changes"],
    table: str,
    version: int,
) -> Generator[pa.RecordBatch]:
    """Return the batches; the observer is told about them when they end, fail or are left."""
    if observer is None:
        return batches
    return _metered(batches, observer, kind=kind, table=table, version=version)


def _metered(
    batches: Generator[pa.RecordBatch], observer: Observer, **whose: Any
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
        observer(
            FeedFinished(
                **whose,
                rows=rows,
                batches=count,
                bytes=size,
                first_batch_seconds=first,
                seconds=time.perf_counter() - began,
                complete=complete,
            )
        )
