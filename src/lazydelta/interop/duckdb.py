"""DuckDB: a relation over the lazy rows, with columns and filters pushed into our plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lazydelta.errors import ConfigError, MissingExtraError
from lazydelta.interop.dataset import to_pyarrow_dataset

if TYPE_CHECKING:
    from lazydelta.interop.source import Source
    from lazydelta.scan.read import ReadOptions

__all__ = ["relation"]


def relation(connection: Any, source: Source, options: ReadOptions | None = None) -> Any:
    """Return a `DuckDBPyRelation` of the rows of a table, a snapshot, a scan or a change feed.

    Nothing is read before the relation is. A dataset works by its name in SQL text, too:
    `trips = to_pyarrow_dataset(table)`, then `duckdb.sql("select count(*) from trips")`.

    Args:
        connection: A DuckDB connection; None is DuckDB's default one.
        source: What to read; a table is pinned to the version it has now.
        options: How rows are read and shown.

    Raises:
        MissingExtraError: DuckDB is not installed.
        ConfigError: The connection is none, or no column is asked for.
    """
    try:
        import duckdb
    except ModuleNotFoundError:
        raise MissingExtraError("duckdb", "duckdb") from None
    if connection is not None and not hasattr(connection, "from_arrow"):
        raise ConfigError("connection", f"must be one of DuckDB, not {connection!r:.80}")
    dataset = to_pyarrow_dataset(source, options)
    if not dataset.schema.names:
        raise ConfigError("columns", "DuckDB has no rows without columns: ask for one")
    return (duckdb if connection is None else connection).from_arrow(dataset)
