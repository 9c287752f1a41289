"""Names of the columns of a table that a statement changes, and the keyword DEFAULT."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lazydelta.errors import ConfigError, QueryError
from lazydelta.schema import format_path
from lazydelta.statements.statement import is_default
from lazydelta.statements.statement_lexer import tokens

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lazydelta.schema import StructField, StructType
    from lazydelta.statements.statement import Assignment, Clause, Insert, TableName

__all__ = ["TargetNames", "default_of", "table_alias", "with_clauses"]

_DEFAULT = "CURRENT_DEFAULT"


@dataclass(frozen=True, slots=True)
class TargetNames:
    """Names of the columns of a table that a statement changes, qualified by its alias or not."""

    schema: StructType
    alias: str | None

    def unqualified(self, expression: str | None) -> str | None:
        """Return an expression without the alias before columns.

        `t.a` is the column `a` of the table `t` if it has one, as in Spark; else it is the field
        `a` of a column `t`.
        """
        if expression is None or self.alias is None or "." not in expression:
            return expression
        schema = self.schema
        found = [*tokens(expression, "spark")]
        pieces, position = [], 0
        for index, token in enumerate(found[:-2]):
            dot, column = found[index + 1 : index + 3]
            is_field = index > 0 and found[index - 1].says(".")
            is_alias = self._is_alias(token.name) and not is_field and dot.says(".")
            if is_alias and column.is_field_name and schema.get(column.name) is not None:
                pieces.append(expression[position : token.start])
                position = column.start
                if not column.is_name:  # without the dot it would be a string
                    pieces.append("`" + column.name.replace("`", "``") + "`")
                    position = column.end
        return "".join([*pieces, expression[position:]])

    def assigned(
        self, assignments: Sequence[Assignment], *, in_merge: bool = False
    ) -> dict[str, str]:
        """Return the expressions by column; DEFAULT is the default of the column.

        Args:
            assignments: As parsed.
            in_merge: Whether the name of a column may be qualified by the alias.

        Raises:
            ConfigError: A column is assigned twice.
        """
        schema = self.schema
        found: dict[str, str] = {}
        for part in assignments:
            path = part.column
            if len(path) > 1 and self._is_alias(path[0]) and schema.get(path[1]) is not None:
                path = path[1:]
            name = path[0] if len(path) == 1 else format_path(path)
            if in_merge and len(path) > 1 and self._is_alias(path[0]):
                name = f"{self.alias}.{name}"  # a struct that is named like the table
            if name.lower() in map(str.lower, found):
                raise ConfigError("set", f"assigns the column {name!r} twice")
            value = part.expression
            found[name] = default_of(schema.find(path)[-1]) if is_default(value) else value
        return found

    def inserted(self, insert: Insert, width: int) -> list[StructField]:
        """Return the column of each value of a row; static columns of PARTITION have none.

        Raises:
            QueryError: There are more or fewer values than columns.
            ColumnNotFoundError: There is no such column.
        """
        names = list(self.schema.names) if insert.columns is None else insert.columns
        static = {name.lower() for name in insert.static_partition}
        columns = [self.schema.find([name])[0] for name in names if name.lower() not in static]
        if width != len(columns):
            reason = f"it has {width} values for {len(columns)} columns; list the columns: t (a, b)"
            raise QueryError("INSERT", "lazydelta", reason)
        return columns

    def static_partition(self, insert: Insert, partition_columns: Sequence[str]) -> dict[str, str]:
        """Return the values of PARTITION as SQL of the columns' types, by column.

        Raises:
            QueryError: PARTITION names another column.
        """
        columns = {name.lower(): self.schema.find([name])[0] for name in partition_columns}
        for name in insert.partition:
            if name.lower() not in columns:
                known = ", ".join(partition_columns) or "no columns"
                reason = f"PARTITION names {name!r}, but the table is partitioned by {known}"
                raise QueryError("INSERT", "lazydelta", reason)
        static = [(columns[key.lower()], sql) for key, sql in insert.static_partition.items()]
        return {column.name: f"CAST({sql} AS {column.type})" for column, sql in static}

    def _is_alias(self, name: str) -> bool:
        return self.alias is not None and name.lower() == self.alias.lower()


def table_alias(table: TableName) -> str | None:
    """Return what qualifies the columns of a table: its alias, else the last part of its name.

    An address qualifies nothing.
    """
    if table.alias is not None or table.name is None:
        return table.alias
    name = table.name.rpartition(".")[2] if table.address is None else table.name
    return name if name.isidentifier() else None


def default_of(column: StructField) -> str:
    """Return the SQL of a column's default."""
    return str(column.metadata.get(_DEFAULT, "NULL"))


def with_clauses(builder: Any, clauses: Iterable[Clause], names: TargetNames) -> Any:
    """Return a builder of MERGE with the clauses of a statement."""
    for clause in clauses:
        where = clause.condition
        columns: Any = "*"
        if clause.assignments is not None:
            columns = names.assigned(clause.given, in_merge=True)
        match clause.kind, clause.action:
            case "matched", "update":
                builder = builder.when_matched_update(columns, where)
            case "matched", _:
                builder = builder.when_matched_delete(where)
            case "not_matched", _:
                builder = builder.when_not_matched_insert(columns, where)
            case _, "update":
                builder = builder.when_not_matched_by_source_update(columns, where)
            case _:
                builder = builder.when_not_matched_by_source_delete(where)
    return builder
