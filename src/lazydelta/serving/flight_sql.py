"""Flight SQL: SELECT over the served tables, and their catalog, for ADBC and JDBC drivers.

No state is kept: a ticket is the command, a prepared statement its text. Each call is authorized.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lazydelta.errors import ConfigError
from lazydelta.serving.flight_sql_messages import parse_message, prepared_statement
from lazydelta.serving.sql_queries import SqlQueries

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazydelta._cancellation import Cancellation
    from lazydelta.serving.flight_sql_messages import SqlMessage
    from lazydelta.serving.principal import Principal
    from lazydelta.serving.service import ScanService
    from lazydelta.serving.streams import ScanStream

__all__ = ["SQL_ACTIONS", "FlightSql"]

SQL_ACTIONS = {
    "CreatePreparedStatement": "Flight SQL: plan a query.",
    "ClosePreparedStatement": "Flight SQL: nothing is kept, so nothing is closed.",
}
"""The actions of Flight SQL and their descriptions."""

_QUERIES = ("CommandStatementQuery", "CommandPreparedStatementQuery")
_CATALOG, _DB_SCHEMA, _TABLE_TYPE = "temp", "main", "TABLE"
"""Names that the engine knows: `temp.main.trips` is a table too."""

_STRING = pa.string()
_CATALOGS = pa.schema([pa.field("catalog_name", _STRING, nullable=False)])
_DB_SCHEMAS = pa.schema(
    [("catalog_name", _STRING), pa.field("db_schema_name", _STRING, nullable=False)]
)
_TABLES = pa.schema(
    [
        ("catalog_name", _STRING),
        ("db_schema_name", _STRING),
        pa.field("table_name", _STRING, nullable=False),
        pa.field("table_type", _STRING, nullable=False),
    ]
)
_TABLE_SCHEMA = pa.field("table_schema", pa.binary(), nullable=False)
_TABLE_TYPES = pa.schema([pa.field("table_type", _STRING, nullable=False)])
_INFO_VALUES = {
    "string_value": _STRING,
    "bool_value": pa.bool_(),
    "bigint_value": pa.int64(),
    "int32_bitmask": pa.int32(),
    "string_list": pa.list_(_STRING),
    "int32_to_int32_list_map": pa.map_(pa.int32(), pa.list_(pa.int32())),
}


class FlightSql:
    """Answers the messages of Flight SQL."""

    def __init__(self, service: ScanService) -> None:
        self._service = service
        self._queries = SqlQueries(service)

    def schema(self, command: SqlMessage, principal: Principal, work: Cancellation) -> pa.Schema:
        """Return the schema of what `open` returns.

        Raises:
            DeltaError: The command cannot be answered.
        """
        query = _query(command)
        if query is None:
            return self._metadata(command, principal).schema
        with self._queries.open(query, principal, work, limit=0) as stream:
            return stream.schema

    def open(
        self, command: SqlMessage, principal: Principal, work: Cancellation
    ) -> ScanStream | pa.Table:
        """Return the rows of a query, which the caller closes, or a table of metadata.

        Raises:
            DeltaError: The command cannot be answered.
        """
        query = _query(command)
        if query is None:
            return self._metadata(command, principal)
        return self._queries.open(query, principal, work)

    def act(self, name: str, body: bytes, principal: Principal, work: Cancellation) -> list[bytes]:
        """Run an action of `SQL_ACTIONS`; return its results.

        Raises:
            DeltaError: The query cannot be planned.
        """
        if name == "ClosePreparedStatement":
            return []
        message = parse_message(body)
        if message is None or (query := message.text(1)) is None:
            raise ConfigError("action", "has no query")
        schema = self.schema(message._replace(name=_QUERIES[0]), principal, work)
        return [prepared_statement(query.encode(), schema.serialize().to_pybytes())]

    def _metadata(self, command: SqlMessage, principal: Principal) -> pa.Table:
        answer = _METADATA.get(command.name)
        if answer is None:
            raise ConfigError("command", f"{command.name:.60} is not answered: tables are read")
        return answer(self._service, principal, command)


def _query(command: SqlMessage) -> str | None:
    """Return the query of a command; None if it is not about one."""
    if command.name not in _QUERIES:
        return None
    query = command.text(1)
    if query is None:
        raise ConfigError("command", "has no query")
    return query


def _catalogs(service: ScanService, principal: Principal, command: SqlMessage) -> pa.Table:
    del service, principal, command
    return _table([[_CATALOG]], _CATALOGS)


def _db_schemas(service: ScanService, principal: Principal, command: SqlMessage) -> pa.Table:
    del service, principal
    return _table([[_CATALOG, _DB_SCHEMA]] if _has_schema(command) else [], _DB_SCHEMAS)


def _tables(service: ScanService, principal: Principal, command: SqlMessage) -> pa.Table:
    with_schema = bool(command.fields.get(5, [0])[-1])
    schema = _TABLES.append(_TABLE_SCHEMA) if with_schema else _TABLES
    types = command.fields.get(4, [_TABLE_TYPE.encode()])
    if not _has_schema(command) or _TABLE_TYPE.encode() not in types:
        return _table([], schema)
    rows: list[list[Any]] = [
        [_CATALOG, _DB_SCHEMA, name, _TABLE_TYPE]
        for name in service.tables.names(principal)
        if _is_like(name, command.text(3))
    ]
    if with_schema:
        with service.admission.slot(principal):
            for row in rows:
                scan = service.tables.open(principal, row[2]).scan()
                row.append(scan.output_schema().schema.serialize().to_pybytes())
    return _table(rows, schema)


def _table_types(service: ScanService, principal: Principal, command: SqlMessage) -> pa.Table:
    del service, principal, command
    return _table([[_TABLE_TYPE]], _TABLE_TYPES)


def _infos(service: ScanService, principal: Principal, command: SqlMessage) -> pa.Table:
    del service, principal, command
    release = getattr(sys.modules[__name__.partition(".")[0]], "__version__", "unknown")
    # Name, version, Arrow version, and whether it is read-only.
    infos = {0: "lazydelta", 1: release, 2: pa.__version__, 3: True}
    kinds = [int(isinstance(value, bool)) for value in infos.values()]  # of `_INFO_VALUES`
    children = [
        pa.array([v for v, k in zip(infos.values(), kinds, strict=True) if k == code], kind)
        for code, kind in enumerate(_INFO_VALUES.values())
    ]
    values = pa.UnionArray.from_dense(
        pa.array(kinds, pa.int8()),
        pa.array([kinds[:place].count(kind) for place, kind in enumerate(kinds)], pa.int32()),
        children,
        list(_INFO_VALUES),
    )
    schema = pa.schema(
        [
            pa.field("info_name", pa.uint32(), nullable=False),
            pa.field("value", values.type, nullable=False),
        ]
    )
    return pa.Table.from_arrays([pa.array([*infos], pa.uint32()), values], schema=schema)


_METADATA: dict[str, Callable[[ScanService, Principal, SqlMessage], pa.Table]] = {
    "CommandGetCatalogs": _catalogs,
    "CommandGetDbSchemas": _db_schemas,
    "CommandGetTables": _tables,
    "CommandGetTableTypes": _table_types,
    "CommandGetSqlInfo": _infos,
}


def _has_schema(command: SqlMessage) -> bool:
    """Whether a filter on catalog and schema admits the only one."""
    return command.text(1) in (None, _CATALOG) and _is_like(_DB_SCHEMA, command.text(2))


def _is_like(name: str, pattern: str | None) -> bool:
    """Whether a name matches a pattern of SQL's LIKE."""
    if pattern is None:
        return True
    parts = [{"%": ".*", "_": "."}.get(character, re.escape(character)) for character in pattern]
    return re.fullmatch("".join(parts), name, re.DOTALL) is not None


def _table(rows: list[list[Any]], schema: pa.Schema) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(values, kind) for values, kind in zip(columns, schema.types, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)
