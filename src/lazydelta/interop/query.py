"""SQL over tables, on DuckDB or DataFusion.

The engine sees only the registered tables: no files, no network, no variables of the caller.
Results are streamed: rows are read while the result is consumed.
"""

from __future__ import annotations

import re
from contextlib import closing
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

import pyarrow as pa

from lazydelta._cancellation import ended_by_cancellation, is_cancelled
from lazydelta.errors import ConfigError, MissingExtraError, QueryError, ScanCancelledError
from lazydelta.interop.adapter_source import RowScan, Source, as_row_scan, check_name
from lazydelta.interop.dataset import LazyDataset
from lazydelta.interop.fork_guard import DATAFUSION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from lazydelta.config import ReadOptions
    from lazydelta.scan.plan import Explanation

__all__ = ["Engine", "QueryBuilder"]

Engine = Literal["duckdb", "datafusion"]

_BATCH_ROWS = 65_536
_INTERRUPT = re.compile(r"KeyboardInterrupt:?$|<class 'KeyboardInterrupt'>")
"""How engines report Ctrl-C that arrives while they call our reader."""


class QueryBuilder:
    """Runs SQL queries on registered tables.

    `QueryBuilder().register("trips", table).execute("select max(fare) from trips")` returns a
    `pyarrow.RecordBatchReader`.

    Args:
        engine: `duckdb` or `datafusion`; by default the first of the two that is installed.
        memory: Bytes that DuckDB may use for a query. It then runs in the thread that reads the
            result, writes no temporary files, and the query cannot change settings.

    Raises:
        ConfigError: The engine is unknown, or has no limit of memory.
        MissingExtraError: The engine, or both, are not installed.
    """

    def __init__(self, engine: Engine | None = None, *, memory: int | None = None) -> None:
        if engine is not None and engine not in get_args(Engine):
            raise ConfigError("engine", f"must be one of {get_args(Engine)}, not {engine!r}")
        candidates = get_args(Engine) if engine is None else (engine,)
        installed = [name for name in candidates if find_spec(name) is not None]
        if not installed:
            raise MissingExtraError(" or ".join(candidates), candidates[0])
        self._engine: Engine = installed[0]
        if memory is not None and self._engine != "duckdb":
            raise ConfigError("memory", "can be limited for duckdb only")
        self._memory = memory
        self._tables: dict[str, tuple[RowScan, ReadOptions | None]] = {}
        self._latest: Mapping[str, LazyDataset] = {}

    @property
    def engine(self) -> Engine:
        """The engine in use."""
        return self._engine

    def __repr__(self) -> str:
        return f"QueryBuilder(engine={self._engine!r}, tables={list(self._tables)})"

    def register(self, name: str, source: Source, options: ReadOptions | None = None) -> Self:
        """Register a table, snapshot, scan or change feed under a SQL name; case is preserved.

        A table is pinned to its current version. A source registered under the same name is
        replaced.

        Raises:
            ConfigError: The name is empty, or differs from another only in case.
        """
        check_name(name)
        same = [other for other in self._tables if other.lower() == name.lower() and other != name]
        if same:
            reason = f"{name!r} and {same[0]!r} are the same name in SQL: choose another"
            raise ConfigError("name", reason)
        self._tables[name] = (as_row_scan(source), options)
        return self

    def execute(self, sql: str, *, limit: int | None = None) -> pa.RecordBatchReader:
        """Return the result of a query as a reader; rows are read while it is consumed.

        Names of columns and tables are case-insensitive in DuckDB, which preserves the table's
        case, and case-sensitive in DataFusion.

        Args:
            sql: The query.
            limit: Maximum number of rows, beside a limit of the query; 0 plans it only.

        Raises:
            QueryError: The engine rejects the query, now or while it runs.
            ForkedProcessError: The parent process of this one has used DataFusion.
            DeltaError: A table cannot be read.
        """
        if self._engine == "datafusion":
            DATAFUSION.start()
            start = _on_datafusion
        else:
            start = partial(_on_duckdb, memory=self._memory)
        # One dataset per query: two results may be consumed at the same time.
        tables = {
            name: LazyDataset(*registered, for_datafusion=self._engine == "datafusion")
            for name, registered in self._tables.items()
        }
        self._latest = tables
        try:
            reader, close, interrupt = start(sql, tables, limit)
        except Exception as error:  # engines have error classes of their own
            raise self._translated(sql, tables, error) from error
        batches = self._batches(sql, tables, reader, close, interrupt)
        return pa.RecordBatchReader.from_batches(reader.schema, batches)

    def explain(self, name: str) -> Explanation:
        """Return what the latest query read of a table, and what it pruned.

        Raises:
            ConfigError: No query has run since the table was registered.
        """
        check_name(name)
        if name not in self._latest:
            raise ConfigError("name", f"no query has run on {name!r} yet")
        return self._latest[name].explain()

    def _batches(
        self,
        sql: str,
        tables: Mapping[str, LazyDataset],
        reader: pa.RecordBatchReader,
        close: Callable[[], None],
        interrupt: Callable[[], object],
    ) -> Iterator[pa.RecordBatch]:
        try:
            with closing(reader), ended_by_cancellation(interrupt):
                yield from reader
        except Exception as error:  # engines have error classes of their own
            raise self._translated(sql, tables, error) from error
        finally:
            close()
            for table in tables.values():  # engines may keep an unfinished read open
                table.close()

    def _translated(
        self, sql: str, tables: Mapping[str, LazyDataset], error: Exception
    ) -> BaseException:
        """Return our own error if a table raised one: engines keep only its message."""
        for table in tables.values():
            if table.failure is not None:
                return table.failure
        if is_cancelled():
            return ScanCancelledError()
        reason = " ".join(str(error).split())
        if _INTERRUPT.search(reason) or type(error).__name__ == "InterruptException":
            return KeyboardInterrupt()
        return QueryError(sql, self._engine, reason)


def _on_duckdb(
    sql: str, tables: Mapping[str, LazyDataset], limit: int | None, *, memory: int | None
) -> tuple[pa.RecordBatchReader, Callable[[], None], Callable[[], object]]:
    import duckdb

    connection = duckdb.connect(":memory:")
    try:
        for name, dataset in tables.items():
            connection.register(name, dataset)
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET python_enable_replacements = false")
        if memory is not None:
            connection.execute(f"SET memory_limit = '{memory}B'")
            connection.execute("SET temp_directory = ''")
            connection.execute("SET threads = 1")
        connection.execute("SET enable_external_access = false")
        if memory is not None:
            connection.execute("SET lock_configuration = true")
        with ended_by_cancellation(connection.interrupt):
            reader = _duckdb_reader(connection.sql(sql), limit)
    except BaseException:
        connection.close()
        raise
    return reader, connection.close, connection.interrupt


def _duckdb_reader(relation: Any, limit: int | None) -> pa.RecordBatchReader:
    if relation is None:
        raise ValueError("the statement is not a query: it returns no rows")
    if limit is not None:
        relation = relation.limit(limit)
    # Streams the result; older versions of DuckDB use another name.
    read = getattr(relation, "to_arrow_reader", None) or relation.fetch_record_batch
    return read(_BATCH_ROWS)


def _on_datafusion(
    sql: str, tables: Mapping[str, LazyDataset], limit: int | None
) -> tuple[pa.RecordBatchReader, Callable[[], None], Callable[[], object]]:
    import datafusion

    settings = {"datafusion.sql_parser.enable_ident_normalization": "false"}
    context = datafusion.SessionContext(datafusion.SessionConfig(settings))
    for name, dataset in tables.items():
        quoted = '"' + name.replace('"', '""') + '"'
        context.register_dataset(quoted, dataset)
    only_queries: Any = datafusion.SQLOptions()
    only_queries = only_queries.with_allow_ddl(False).with_allow_dml(False)
    frame = context.sql_with_options(sql, only_queries.with_allow_statements(False))
    if limit is not None:
        frame = frame.limit(limit)
    return pa.RecordBatchReader.from_stream(frame), lambda: None, lambda: None
