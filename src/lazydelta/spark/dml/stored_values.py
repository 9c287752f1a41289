"""New values of columns: Spark evaluates expressions, and casts as its store assignment does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f
from pyspark.sql import types as t

from lazydelta.errors import SchemaMismatchError
from lazydelta.spark.arrow_conversion import nullable_type
from lazydelta.spark.dml.frame_columns import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame

__all__ = ["StoredValues", "leaves"]

_TIMES = (t.DateType, t.TimestampType, t.TimestampNTZType)
_NESTED = (t.StructType, t.ArrayType, t.MapType, t.VariantType)
_CURE = "Cast the value."


class StoredValues:
    """Columns with the values of SQL expressions, in the types of a table.

    Args:
        rows: The rows that the expressions read.
        expressions: SQL strings.
        table: The table's URL, for errors.
    """

    def __init__(self, rows: DataFrame, expressions: Sequence[str], table: str) -> None:
        self._table = table
        unique = list(dict.fromkeys(expressions))
        names = [f"value{index}" for index in range(len(unique))]
        probe = rows.select(*(f.expr(sql).alias(n) for sql, n in zip(unique, names, strict=True)))
        kinds = [field.dataType for field in probe.schema]
        self._types = dict(zip(unique, kinds, strict=True))

    def column(self, sql: str, kind: t.DataType, path: str) -> Column:
        """Return the value of an expression in the type of a column.

        Raises:
            SchemaMismatchError: Values of its type cannot be stored in the column.
        """
        return self._stored(f.expr(sql), nullable_type(self._types[sql]), kind, path)

    def _stored(self, value: Column, given: t.DataType, kind: t.DataType, path: str) -> Column:
        if given == kind:
            return value
        match given, kind:
            case t.StructType(), t.StructType():
                return self._struct(value, given, kind, path)
            case t.ArrayType(), t.ArrayType():
                inner = given.elementType, kind.elementType, f"{path}.element"
                return f.transform(value, lambda one: self._stored(one, *inner))
            case t.MapType(), t.MapType():
                items = given.valueType, kind.valueType, f"{path}.value"
                keys = given.keyType, kind.keyType, f"{path}.key"
                value = f.transform_values(value, lambda _, one: self._stored(one, *items))
                return f.transform_keys(value, lambda one, _: self._stored(one, *keys))
        if not _can_store(given, kind):
            types = f"the table has {kind.simpleString()}, the value is {given.simpleString()}"
            raise SchemaMismatchError(self._table, (f"column {path!r}: {types}",), _CURE)
        return value.cast(kind)

    def _struct(self, value: Column, given: t.StructType, kind: t.StructType, path: str) -> Column:
        """Match fields by name; a missing one is null."""
        fields = {field.name.lower(): field for field in given}
        parts = []
        for field in kind:
            found = fields.pop(field.name.lower(), None)
            part = f.lit(None).cast(field.dataType)
            if found is not None:
                where = f"{path}.{field.name}"
                inner = value.getField(found.name)
                part = self._stored(inner, found.dataType, field.dataType, where)
            parts.append(part.alias(field.name))
        for extra in fields.values():
            line = f"column '{path}.{extra.name}': not in the table"
            raise SchemaMismatchError(self._table, (line,), "Leave the field out.")
        return f.when(value.isNotNull(), f.struct(*parts))

    def columns(
        self, tree: Mapping[str, Any], kinds: t.StructType, old: Sequence[str] | None
    ) -> dict[str, Column]:
        """Return the new values of assigned columns.

        Args:
            tree: For each column an SQL string, or a mapping of assigned fields of a struct.
            kinds: The types of the columns.
            old: The alias of the old rows, or nothing, to keep other fields of structs; None for
                new rows.
        """
        return {
            name: self._assigned(node, kinds[name].dataType, (name,), old)
            for name, node in tree.items()
        }

    def _assigned(
        self, node: Any, kind: Any, path: tuple[str, ...], old: Sequence[str] | None
    ) -> Column:
        if isinstance(node, str):
            return self.column(node, kind, ".".join(path))
        parts = []
        for field in kind:
            where = (*path, field.name)
            if field.name in node:
                part = self._assigned(node[field.name], field.dataType, where, old)
            elif old is None:
                part = f.lit(None).cast(field.dataType)
            else:
                part = f.col(quoted(*old, *where))
            parts.append(part.alias(field.name))
        return f.struct(*parts)


def leaves(tree: Mapping[str, Any]) -> list[str]:
    """Return the SQL strings of assigned columns and fields."""
    found = []
    for node in tree.values():
        found += [node] if isinstance(node, str) else leaves(node)
    return found


def _can_store(given: t.DataType, kind: t.DataType) -> bool:
    """Whether Spark's ANSI store assignment casts one type to another."""
    if isinstance(given, t.NullType):
        return True
    if isinstance(given, _NESTED) or isinstance(kind, _NESTED):
        return False
    if isinstance(given, t.NumericType) and isinstance(kind, t.NumericType):
        return True
    if isinstance(given, _TIMES) and isinstance(kind, _TIMES):
        return True
    return isinstance(kind, t.StringType)
