"""Assignments of UPDATE and MERGE: new rows from expressions, enforced by the table's rules.

A key of the mapping is a column, or a field of a struct (`"a.b"`), whose other fields are kept.
Expressions read the old row. A column of a nested type is copied by a plain column reference;
its fields match by name (`nested_copies`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lazydelta.errors import (
    ConfigError,
    ConstraintViolationError,
    PredicateError,
    SchemaMismatchError,
)
from lazydelta.expressions import col
from lazydelta.operations.dml.nested_copies import NestedCopy, nested_copy
from lazydelta.schema import ArrayType, MapType, StructType, to_arrow_type
from lazydelta.schema.mapping import without_metadata
from lazydelta.writer.columns import is_identity
from lazydelta.writer.enforcement import GENERATION_EXPRESSION, cast_values, plan_enforcement

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazydelta.expressions import BoundExpression
    from lazydelta.operations.dml.nested_copies import MissingFields
    from lazydelta.schema import DataType, StructField
    from lazydelta.writer.columns import TableDefinition
    from lazydelta.writer.enforcement import Enforcement

__all__ = ["Assignments", "ExpressionScope", "assignment_tree", "sql_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpressionScope:
    """The columns that expressions may name."""

    schema: StructType
    bind: Callable[[str, DataType], BoundExpression]
    """Binds SQL whose values are stored in a column of a type."""


@dataclass(frozen=True, slots=True)
class _Fields:
    """A struct of which some fields are assigned."""

    type: StructType
    fields: Mapping[str, Any]

    @property
    def columns(self) -> frozenset[tuple[str, ...]]:
        return frozenset().union(*(value.columns for value in self.fields.values()))

    def check(self, path: str, missing_fields: MissingFields, table: str) -> None:
        """Refuse copies of structs with other fields."""
        for name, value in self.fields.items():
            if isinstance(value, NestedCopy | _Fields):
                value.check(f"{path}.{name}", missing_fields, table)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignments:
    """Makes new rows; call it with the rows that expressions read."""

    table: str
    values: Mapping[str, Any]
    """By column: a `BoundExpression`, `NestedCopy` or `_Fields`."""
    kept: tuple[str, ...]
    """Columns that keep the value of the old row."""
    enforcement: Enforcement

    @classmethod
    def plan(
        cls,
        assigned: Mapping[str, Any],
        scope: ExpressionScope,
        definition: TableDefinition,
        *,
        old: StructType | None,
        missing_fields: MissingFields = "refuse",
    ) -> Assignments:
        """Bind assignments, and plan the enforcement of the rows that they make.

        Args:
            assigned: For each column or field an SQL expression, or one of `lit` or `col`.
            scope: The columns that expressions may name.
            definition: The table after the operation.
            old: The schema of the rows to change; None for new rows.
            missing_fields: What becomes of nested fields that a copied column lacks.

        Raises:
            ConfigError: There are no assignments, or two of one column.
            ColumnNotFoundError: An assignment names a column that the table does not have.
            PredicateError: An expression is not supported, or its values need a CAST.
            SchemaMismatchError: A value does not fit the column, or a NOT NULL one has none.
        """
        values = _bound(assigned, scope, definition.schema, is_update=old is not None)
        # A generated column is computed anew, unless it is assigned: then it is validated.
        kept = {
            field.name: to_arrow_type(field.type)
            for field in old or ()
            if field.name not in values and GENERATION_EXPRESSION not in field.metadata
        }
        for name, value in values.items():
            existing = None if old is None else old.get(name)
            if isinstance(value, NestedCopy):
                values[name] = value.planned(existing, missing_fields, definition.table)
            elif isinstance(value, _Fields):
                value.check(name, missing_fields, definition.table)
        types = {name: _arrow_type(value, definition, name) for name, value in values.items()}
        schema = definition.schema
        if old is not None:  # rows keep their identity values
            schema = without_metadata(schema, lambda key: key.startswith("delta.identity."))
        enforcement = plan_enforcement(
            table=definition.table,
            protocol=definition.protocol,
            metadata=definition.metadata,
            schema=schema,
            incoming=pa.schema([*types.items(), *kept.items()]),
            schema_mode=None,
        )
        return cls(table=definition.table, values=values, kept=tuple(kept), enforcement=enforcement)

    @property
    def columns(self) -> frozenset[tuple[str, ...]]:
        """The paths that the expressions read."""
        return frozenset().union(*(value.columns for value in self.values.values()))

    @property
    def old_columns(self) -> frozenset[str]:
        """The columns of the old row that are needed to build the new one."""
        partly = {
            name
            for name, value in self.values.items()
            if isinstance(value, _Fields) or (isinstance(value, NestedCopy) and value.keeps_fields)
        }
        return frozenset(self.kept) | partly

    def __call__(
        self, rows: pa.RecordBatch, old: pa.RecordBatch | None, row_offset: int = 0
    ) -> pa.RecordBatch:
        """Return new rows in the table's schema, validated.

        Args:
            rows: The columns that expressions read.
            old: The rows to change, with `old_columns`; None for new rows.
            row_offset: Number of new rows before these, for identity columns.

        Raises:
            ConstraintViolationError: A row violates a constraint, or cannot be computed.
        """
        arrays = []
        for name in self.enforcement.input_columns:
            base = None if old is None or name not in self.old_columns else old.column(name)
            value = self.values.get(name)
            arrays.append(base if value is None else self._value(name, value, rows, base))
        batch = pa.RecordBatch.from_arrays(arrays, names=list(self.enforcement.input_columns))
        return self.enforcement(batch, row_offset)

    def _value(
        self, name: str, value: Any, rows: pa.RecordBatch, base: pa.Array | None
    ) -> pa.Array:
        if isinstance(value, NestedCopy):
            return value(rows, base)
        if isinstance(value, _Fields):
            return self._struct(name, value, rows, base)
        result = value(rows)
        if result.failed is not None:
            line = f"{name} = {value.sql}: cannot be computed for some rows"
            raise ConstraintViolationError(self.table, (line,))
        return result.values

    def _struct(
        self, name: str, value: _Fields, rows: pa.RecordBatch, base: pa.Array | None
    ) -> pa.Array:
        """Return a struct with some fields replaced; one that was null has only these."""
        existing = {}
        if base is not None:
            existing = {f.name: a for f, a in zip(base.type, base.flatten(), strict=True)}
        children = []
        for field in value.type:
            inner, path = value.fields.get(field.name), f"{name}.{field.name}"
            child = existing.get(field.name)
            if inner is not None:
                child = self._value(path, inner, rows, child)
            elif child is None:
                child = pa.nulls(rows.num_rows, to_arrow_type(field.type))
            try:
                children.append(cast_values(child, field.type))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                line = f"column {path!r}: {error}"
                raise SchemaMismatchError(self.table, (line,), "Cast the value.") from None
        return pa.StructArray.from_arrays(children, fields=list(to_arrow_type(value.type)))


def _arrow_type(value: Any, definition: TableDefinition, name: str) -> pa.DataType:
    if isinstance(value, NestedCopy):
        return value.arrow_type
    return to_arrow_type(definition.schema.find((name,))[0].type)


# --- binding -------------------------------------------------------------------------------------


def _bound(
    assigned: Mapping[str, Any], scope: ExpressionScope, schema: StructType, *, is_update: bool
) -> dict[str, Any]:
    """Return the bound value of each column of the table that is assigned, in part or whole."""
    tree = assignment_tree(assigned, schema, is_update=is_update)
    return {name: _resolved(schema.find((name,))[0], node, scope) for name, node in tree.items()}


def assignment_tree(
    assigned: Mapping[str, Any], schema: StructType, *, is_update: bool
) -> dict[str, Any]:
    """Return the SQL of each assigned column, or a dictionary of the assigned fields of a struct.

    Raises:
        ConfigError: There are no assignments, or two of one column.
        ColumnNotFoundError: An assignment names a column that the table does not have.
        PredicateError: A value is neither SQL nor an expression.
    """
    if not isinstance(assigned, Mapping) or not assigned:
        raise ConfigError("set", "must map at least one column to an expression")
    tree: dict[str, Any] = {}
    for key, value in assigned.items():
        fields = _target(key, schema)
        if is_update and is_identity(fields[0]):
            raise ConfigError("set", f"cannot assign the identity column {fields[0].name!r}")
        level = tree
        for field in fields[:-1]:
            level = level.setdefault(field.name, {})
            if not isinstance(level, dict):
                raise ConfigError("set", f"assigns the column {field.name!r} and a field of it")
        name = fields[-1].name
        if name in level:
            raise ConfigError("set", f"assigns the column {key!r} twice")
        level[name] = sql_of(value)
    return tree


def _target(key: Any, schema: StructType) -> tuple[StructField, ...]:
    """Return the fields along the path of an assigned column."""
    if isinstance(key, str) and schema.get(key) is not None:
        return schema.find((key,))
    return schema.find(col(key).node.path)  # type: ignore[attr-defined]


def _resolved(field: StructField, node: str | dict[str, Any], scope: ExpressionScope) -> Any:
    if isinstance(node, str):
        return _expression(node, field.type, scope)
    kind: Any = field.type  # a struct: the path of the key goes through it
    inner = {name: _resolved(kind.find((name,))[0], n, scope) for name, n in node.items()}
    return _Fields(kind, inner)


def _expression(sql: str, kind: DataType, scope: ExpressionScope) -> Any:
    if isinstance(kind, StructType | ArrayType | MapType) or str(kind) == "variant":
        copied = nested_copy(sql, scope.schema, kind)
        if copied is not None:
            return copied
    return scope.bind(sql, kind)


def sql_of(value: Any) -> str:
    """Return the SQL of an expression in any accepted form.

    Raises:
        PredicateError: It is neither SQL nor an expression.
    """
    if isinstance(value, str):
        return value
    node = getattr(value, "node", None)
    if node is None:
        reason = 'give an SQL string or an expression, as in ld.lit(1) or "a + 1"'
        raise PredicateError(repr(value), reason)
    return str(node)
