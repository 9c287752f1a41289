"""New values of columns: Spark evaluates expressions, and casts as its store assignment does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import functions as f
from pyspark.sql import types as t

from lazydelta.errors import SchemaMismatchError
from lazydelta.spark.arrow_conversion import nullable_type
from lazydelta.spark.column_functions import quoted
from lazydelta.spark.spark_releases import VARIANTS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame

__all__ = ["NESTED", "StoredValues", "leaves"]

_TIMES = (t.DateType, t.TimestampType, t.TimestampNTZType)
NESTED = (t.StructType, t.ArrayType, t.MapType, *VARIANTS)

MissingFields = Literal["refuse", "null", "keep"]


@dataclass(frozen=True, kw_only=True)
class StoredValues:
    """Columns with the values of SQL expressions, in the types of a table."""

    table: str
    """The table's URL, for errors."""
    types: Mapping[str, t.DataType]
    """The type of each expression."""
    old: tuple[str, ...] | None = None
    """The alias of the old rows, or nothing; None for new rows."""
    missing: MissingFields = "refuse"
    """What becomes of fields of structs that a value lacks; of new rows they are null."""

    @classmethod
    def of(cls, rows: DataFrame, expressions: Sequence[str], table: str) -> StoredValues:
        """Let Spark analyze expressions over rows."""
        unique = list(dict.fromkeys(expressions))
        names = [f"value{index}" for index in range(len(unique))]
        probe = rows.select(*(f.expr(sql).alias(n) for sql, n in zip(unique, names, strict=True)))
        kinds = [nullable_type(field.dataType) for field in probe.schema]
        return cls(table=table, types=dict(zip(unique, kinds, strict=True)))

    def columns(self, tree: Mapping[str, Any], kinds: t.StructType) -> dict[str, Column]:
        """Return the new values of assigned columns.

        Args:
            tree: For each column an SQL string, or a mapping of assigned fields of a struct.
            kinds: The types of the columns.

        Raises:
            SchemaMismatchError: Values of an expression cannot be stored in its column.
        """
        return {
            name: self._assigned(node, kinds[name].dataType, (name,)) for name, node in tree.items()
        }

    def _assigned(self, node: Any, kind: Any, path: tuple[str, ...]) -> Column:
        if isinstance(node, str):
            keeps = self.missing == "keep" and self.old is not None
            return self._stored(f.expr(node), self.types[node], kind, path, keeps=keeps)
        parts = []
        for field in kind:
            where = (*path, field.name)
            if field.name in node:
                part = self._assigned(node[field.name], field.dataType, where)
            elif self.old is None:
                part = f.lit(None).cast(field.dataType)
            else:
                part = f.col(quoted(*self.old, *where))
            parts.append(part.alias(field.name))
        return f.struct(*parts)

    def _stored(
        self, value: Column, given: t.DataType, kind: t.DataType, path: tuple[str, ...], *,
        keeps: bool = False,
    ) -> Column:  # fmt: skip
        if given == kind:
            return value
        match given, kind:
            case t.StructType(), t.StructType():
                return self._struct(value, given, kind, path, keeps=keeps)
            case t.ArrayType(), t.ArrayType():
                inner = given.elementType, kind.elementType, (*path, "element")
                return f.transform(value, lambda one: self._stored(one, *inner))
            case t.MapType(), t.MapType():
                items = given.valueType, kind.valueType, (*path, "value")
                keys = given.keyType, kind.keyType, (*path, "key")
                value = f.transform_values(value, lambda _, one: self._stored(one, *items))
                return f.transform_keys(value, lambda one, _: self._stored(one, *keys))
        if not _can_store(given, kind):
            types = f"the table has {kind.simpleString()}, the value is {given.simpleString()}"
            raise self._mismatch(path, types)
        return value.cast(kind)

    def _struct(
        self, value: Column, given: t.StructType, kind: t.StructType, path: tuple[str, ...], *,
        keeps: bool,
    ) -> Column:  # fmt: skip
        """Match fields by name."""
        fields = {field.name.lower(): field for field in given}
        parts = []
        for field in kind:
            where, found = (*path, field.name), fields.pop(field.name.lower(), None)
            if found is not None:
                inner = value.getField(found.name)
                part = self._stored(inner, found.dataType, field.dataType, where, keeps=keeps)
            elif self.missing == "refuse" and self.old is not None:
                raise self._mismatch(where, "the table has it, the value does not")
            elif keeps:
                part = f.col(quoted(*(self.old or ()), *where)).cast(field.dataType)
            else:
                part = f.lit(None).cast(field.dataType)
            parts.append(part.alias(field.name))
        for extra in fields.values():
            raise self._mismatch((*path, extra.name), "the table does not have it, the value does")
        return f.when(value.isNotNull(), f.struct(*parts))

    def _mismatch(self, path: tuple[str, ...], reason: str) -> SchemaMismatchError:
        line = f"column {'.'.join(path)!r}: {reason}"
        return SchemaMismatchError(self.table, (line,), "Cast the value.")


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
    if isinstance(given, NESTED) or isinstance(kind, NESTED):
        return False
    if isinstance(given, t.NumericType) and isinstance(kind, t.NumericType):
        return True
    if isinstance(given, _TIMES) and isinstance(kind, _TIMES):
        return True
    return isinstance(kind, t.StringType)
