"""SQL over tables in one line, on whichever engine is installed.

The engine sees the registered tables and nothing else: no files, no network, no variables of the
caller. Results stream: rows are read as the result is.
"""

from __future__ import annotations

from contextlib import closing
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

import pyarrow as pa

from lazydelta.errors import ConfigError, MissingExtraError, QueryError
from lazydelta.interop.dataset import LazyDataset
from lazydelta.interop.source import Feed, Source, as_feed, check_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from lazydelta.scan.plan import Explanation
    from lazydelta.scan.read import ReadOptions

__all__ = ["Engine", "QueryBuilder"]

Engine = Literal["duckdb", "datafusion"]

_BATCH_ROWS = 65_536


class QueryBuilder:
    """Runs SQL on registered tables.

    `QueryBuilder().register("trips", table).execute("select max(fare) from trips")` gives a
    `pyarrow.RecordBatchReader`.

    Args:
        engine: `duckdb` or `datafusion`; by default the first of the two that is installed.

    Raises:
        ConfigError: There is no such engine.
        MissingExtraError: The engine, or both, are not installed.
    """

    def __init__(self, engine: Engine | None = None) -> None:
        if engine is not None and engine not in get_args(Engine):
            raise ConfigError("engine", f"must be one of {get_args(Engine)}, not {engine!r}")
        wanted = get_args(Engine) if engine is None else (engine,)
        found = [name for name in wanted if find_spec(name) is not None]
        if not found:
            raise MissingExtraError(" or ".join(wanted), wanted[0])
        self._engine: Engine = found[0]
        self._tables: dict[str, tuple[Feed, ReadOptions | None]] = {}
        self._latest: Mapping[str, LazyDataset] = {}

    @property
    def engine(self) -> Engine:
        """The engine in use."""
        return self._engine

    def __repr__(self) -> str:
        return f"QueryBuilder(engine={self._engine!r}, tables={list(self._tables)})"

    def register(self, name: str, source: Source, options: ReadOptions | None = None) -> Self:
        """Give a table, a snapshot, a scan or a change feed a name in SQL, kept as it is written.

        A table is pinned to the version it has now. A name that is there already is replaced.

        Raises:
            ConfigError: The name is empty, or differs from another only in upper and lower case.
        """
        check_name(name)
        twins = [have for have in self._tables if have.lower() == name.lower() and have != name]
        if twins:
            raise ConfigError("name", f"{name!r} and {twins[0]!r} are one name in SQL")
        self._tables[name] = (as_feed(source), options)
        return self

    def execute(self, sql: str) -> pa.RecordBatchReader:
        """Return the result of a query as a reader; rows are read as it is.

        Names of columns and tables are found in any case and shown as the table writes them
        (DuckDB), or taken exactly as written (DataFusion).

        Raises:
            QueryError: The engine refuses the query, now or while it runs.
            DeltaError: A table cannot be read.
        """
        start = {"duckdb": _on_duckdb, "datafusion": _on_datafusion}[self._engine]
        # Of its own for each query: two results may be read in turns.
        tables = {
            name: LazyDataset(*registered, for_datafusion=self._engine == "datafusion")
            for name, registered in self._tables.items()
        }
        self._latest = tables
        try:
            reader, close = start(sql, tables)
        except Exception as error:  # engines have error classes of their own
            raise self._translated(sql, tables, error) from error
        batches = self._batches(sql, tables, reader, close)
        return pa.RecordBatchReader.from_batches(reader.schema, batches)

    def explain(self, name: str) -> Explanation:
        """Return what the latest query read of a table, and what it left out.

        Raises:
            ConfigError: No query has been run since the table was registered.
        """
        check_name(name)
        if name not in self._latest:
            raise ConfigError("name", f"no query has read {name!r} yet")
        return self._latest[name].explain()

    def _batches(
        self,
        sql: str,
        tables: Mapping[str, LazyDataset],
        reader: pa.RecordBatchReader,
        close: Callable[[], None],
    ) -> Iterator[pa.RecordBatch]:
        try:
            with closing(reader):
                yield from reader
        except Exception as error:  # engines have error classes of their own
            raise self._translated(sql, tables, error) from error
        finally:
            close()
            for table in tables.values():  # engines may hold on to an unfinished read
                table.close()

    def _translated(
        self, sql: str, tables: Mapping[str, LazyDataset], error: Exception
    ) -> Exception:
        """Return our own error where there is one: engines keep only its text."""
        for table in tables.values():
            if table.failure is not None:
                return table.failure
        return QueryError(sql, self._engine, " ".join(str(error).split()))


def _on_duckdb(
    sql: str, tables: Mapping[str, LazyDataset]
) -> tuple[pa.RecordBatchReader, Callable[[], None]]:
    import duckdb

    connection = duckdb.connect(":memory:")
    try:
        for name, dataset in tables.items():
            connection.register(name, dataset)
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET python_enable_replacements = false")
        connection.execute("SET enable_external_access = false")
        return _duckdb_reader(connection.sql(sql)), connection.close
    except BaseException:
        connection.close()
        raise


def _duckdb_reader(relation: Any) -> pa.RecordBatchReader:
    if relation is None:
        raise ValueError("it is no query: it gives no rows")
    # Streams the result; older versions have it under another name.
    read = getattr(relation, "to_arrow_reader", None) or relation.fetch_record_batch
    return read(_BATCH_ROWS)


def _on_datafusion(
    sql: str, tables: Mapping[str, LazyDataset]
) -> tuple[pa.RecordBatchReader, Callable[[], None]]:
    import datafusion

    settings = {"datafusion.sql_parser.enable_ident_normalization": "false"}
    context = datafusion.SessionContext(datafusion.SessionConfig(settings))
    for name, dataset in tables.items():
        quoted = '"' + name.replace('"', '""') + '"'
        context.register_dataset(quoted, dataset)
    only_queries: Any = datafusion.SQLOptions()
    only_queries = only_queries.with_allow_ddl(False).with_allow_dml(False)
    frame = context.sql_with_options(sql, only_queries.with_allow_statements(False))
    return pa.RecordBatchReader.from_stream(frame), lambda: None
