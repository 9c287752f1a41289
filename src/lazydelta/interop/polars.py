"""Polars: a lazy frame whose filter, columns and head end in our plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lazydelta.errors import MissingExtraError, PredicateError
from lazydelta.interop.polars_filter import read_polars_filter
from lazydelta.interop.source import Feed, Source, as_feed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lazydelta.scan.read import ReadOptions

__all__ = ["scan_polars", "to_polars"]


def scan_polars(source: Source, options: ReadOptions | None = None) -> Any:
    """Return a `polars.LazyFrame` of the rows of a table, a snapshot, a scan or a change feed.

    Nothing is read before the frame is collected. Polars hands over which columns it needs, its
    filter, and how many rows; files and row groups that cannot match are not read. A table is
    pinned to the version it has now.

    Args:
        source: What to read; its own filter, columns and limit stay in force.
        options: How rows are read and shown.

    Raises:
        MissingExtraError: Polars is not installed.
    """
    pl = _polars()
    from polars.io.plugins import register_io_source

    rows = _Rows(pl, as_feed(source), options)
    return register_io_source(rows, schema=rows.schema, is_pure=True)


def to_polars(source: Source, options: ReadOptions | None = None) -> Any:
    """Return all rows of a table, a snapshot, a scan or a change feed as a `polars.DataFrame`.

    Raises:
        MissingExtraError: Polars is not installed.
    """
    return scan_polars(source, options).collect()


def _polars() -> Any:
    try:
        import polars as pl
    except ModuleNotFoundError:
        raise MissingExtraError("polars", "polars") from None
    return pl


class _Rows:
    """What Polars calls to get rows."""

    def __init__(self, pl: Any, feed: Feed, options: ReadOptions | None) -> None:
        self._pl = pl
        self._feed = feed
        self._options = options
        empty = feed.presentation(options).schema.empty_table()
        self.schema = self._frame(empty).schema

    def __call__(
        self,
        with_columns: list[str] | None,
        predicate: Any,
        n_rows: int | None,
        batch_size: int | None,
    ) -> Iterator[Any]:
        """Yield frames of the wanted columns; `n_rows` are counted before the predicate."""
        del batch_size
        feed = self._narrowed(with_columns, predicate, n_rows)
        with feed.to_batches(self._options) as batches:
            for batch in batches:
                frame = self._frame(pa.Table.from_batches([batch]))
                if predicate is not None:
                    frame = frame.filter(predicate)
                if with_columns is not None:
                    frame = frame.select(with_columns)
                yield frame

    def _frame(self, rows: pa.Table) -> Any:
        return self._pl.from_arrow(rows, rechunk=False)

    def _narrowed(self, columns: list[str] | None, predicate: Any, n_rows: int | None) -> Feed:
        own = None
        if columns is not None:
            needed = {*columns, *(() if predicate is None else predicate.meta.root_names())}
            own = [name for name in self._feed.names if name in needed]
        limited = self._feed.narrowed(columns=own, limit=n_rows)
        if predicate is None or limited.limit is not None:
            return limited
        where = read_polars_filter(predicate, self._feed.filterable(self._options))
        try:
            return limited.narrowed(where=where)
        except PredicateError:
            return limited
