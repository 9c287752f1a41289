"""Polars: a lazy frame whose filter, columns and row limit are pushed into our plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lazydelta.errors import MissingExtraError, PredicateError
from lazydelta.interop.adapter_source import RowScan, Source, as_row_scan
from lazydelta.interop.fork_guard import POLARS
from lazydelta.interop.polars_filters import translate_polars_filter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lazydelta.config import ReadOptions

__all__ = ["scan_polars", "to_polars"]


def scan_polars(source: Source, options: ReadOptions | None = None) -> Any:
    """Return a `polars.LazyFrame` of the rows of a table, snapshot, scan or change feed.

    Nothing is read before the frame is collected. Polars passes the columns it needs, its filter
    and its row limit; files and row groups that cannot match are not read. A table is pinned to
    its current version.

    Args:
        source: What to read; its own filter, columns and limit stay in force.
        options: How rows are read and presented.

    Raises:
        MissingExtraError: Polars is not installed.
        ForkedProcessError: The parent process of this one has used Polars.
    """
    pl = _polars()
    from polars.io.plugins import register_io_source

    POLARS.check()
    rows = _IOSource(pl, as_row_scan(source), options)
    return register_io_source(rows, schema=rows.schema, is_pure=True)


def to_polars(source: Source, options: ReadOptions | None = None) -> Any:
    """Return all rows of a table, snapshot, scan or change feed as a `polars.DataFrame`.

    Raises:
        MissingExtraError: Polars is not installed.
        ForkedProcessError: The parent process of this one has used Polars.
    """
    return scan_polars(source, options).collect()


def _polars() -> Any:
    try:
        import polars as pl
    except ModuleNotFoundError:
        raise MissingExtraError("polars", "polars") from None
    return pl


class _IOSource:
    """The callback of a Polars IO plugin."""

    def __init__(self, pl: Any, scan: RowScan, options: ReadOptions | None) -> None:
        self._pl = pl
        self._scan = scan
        self._options = options
        empty = scan.output_schema(options).schema.empty_table()
        self.schema = self._frame(empty).schema

    def __call__(
        self,
        with_columns: list[str] | None,
        predicate: Any,
        n_rows: int | None,
        batch_size: int | None,
    ) -> Iterator[Any]:
        """Yield frames of the requested columns; `n_rows` applies before the predicate."""
        del batch_size
        POLARS.start()
        scan = self._narrowed(with_columns, predicate, n_rows)
        with scan.to_batches(self._options) as batches:
            for batch in batches:
                frame = self._frame(pa.Table.from_batches([batch]))
                if predicate is not None:
                    frame = frame.filter(predicate)
                if with_columns is not None:
                    frame = frame.select(with_columns)
                yield frame

    def _frame(self, rows: pa.Table) -> Any:
        return self._pl.from_arrow(rows, rechunk=False)

    def _narrowed(self, columns: list[str] | None, predicate: Any, n_rows: int | None) -> RowScan:
        needed_columns = None
        if columns is not None:
            needed = {*columns, *(() if predicate is None else predicate.meta.root_names())}
            needed_columns = [name for name in self._scan.names if name in needed]
        limited = self._scan.narrowed(columns=needed_columns, limit=n_rows)
        if predicate is None or limited.limit is not None:
            return limited
        where = translate_polars_filter(predicate, self._scan.filterable(self._options))
        try:
            return limited.narrowed(where=where)
        except PredicateError:
            return limited
