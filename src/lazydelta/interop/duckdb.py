"""DuckDB: a relation over lazy rows, with column and filter pushdown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lazydelta.errors import ConfigError, MissingExtraError
from lazydelta.interop.dataset import to_pyarrow_dataset

if TYPE_CHECKING:
    from lazydelta.config import ReadOptions
    from lazydelta.interop.adapter_source import Source

__all__ = ["relation"]


def relation(connection: Any, source: Source, options: ReadOptions | None = None) -> Any:
    """Return a `DuckDBPyRelation` of the rows of a table, snapshot, scan or change feed.

    Nothing is read before the relation is executed. A dataset also works as a replacement scan:
    `trips = to_pyarrow_dataset(table)`, then `duckdb.sql("select count(*) from trips")`.

    Args:
        connection: A DuckDB connection; None is DuckDB's default connection.
        source: What to read; a table is pinned to its current version.
        options: How rows are read and presented.

    Raises:
        MissingExtraError: DuckDB is not installed.
        ConfigError: The connection is not DuckDB's, or the source has no columns.
    """
    try:
        import duckdb
    except ModuleNotFoundError:
        raise MissingExtraError("duckdb", "duckdb") from None
    if connection is not None and not hasattr(connection, "from_arrow"):
        raise ConfigError("connection", f"must be a DuckDB connection, not {connection!r:.80}")
    dataset = to_pyarrow_dataset(source, options)
    if not dataset.schema.names:
        raise ConfigError("columns", "a DuckDB relation needs a column: select at least one")
    return (duckdb if connection is None else connection).from_arrow(dataset)
