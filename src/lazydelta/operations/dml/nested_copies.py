"""Assign a column of a nested type from another one: fields match by name, at every depth."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lazydelta.errors import ColumnNotFoundError, PredicateError, SchemaMismatchError
from lazydelta.expressions import col
from lazydelta.schema import ArrayType, MapType, StructType, to_arrow_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lazydelta.schema import DataType, StructField

__all__ = ["MissingFields", "NestedCopy", "nested_copy"]

MissingFields = Literal["refuse", "null", "keep"]
"""What becomes of fields that the copied column lacks: an error, NULL, or the old value. The last
is for fields of structs; those of structs in lists and maps are NULL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NestedCopy:
    """A copied column."""

    path: tuple[str, ...]
    type: DataType
    target: DataType
    arrow_type: pa.DataType
    """The type of the values."""
    keeps_fields: bool = False
    """Whether fields that the column lacks keep their old values."""

    @property
    def columns(self) -> frozenset[tuple[str, ...]]:
        """The path that it reads."""
        return frozenset({self.path})

    def planned(
        self, old: StructField | None, missing_fields: MissingFields, table: str
    ) -> NestedCopy:
        """Return the copy for rows to change, or for new rows.

        Args:
            old: The column before; None if the rows are new, or the column is.
            missing_fields: What becomes of fields that the copied column lacks.
            table: The table's URL, for errors.

        Raises:
            SchemaMismatchError: Fields are missing, and that is refused.
        """
        if old is None:
            return self
        if missing_fields == "refuse":
            self.check(old.name, missing_fields, table)
        if missing_fields != "keep" or not any(_missing(self.type, self.target, old.name)):
            return self
        kind = _with_old_fields(
            pa.nulls(0, self.arrow_type), pa.nulls(0, to_arrow_type(old.type))
        ).type
        return replace(self, arrow_type=kind, keeps_fields=True)

    def check(self, path: str, missing_fields: MissingFields, table: str) -> None:
        """Refuse a column with other fields than the assigned one at `path`.

        Raises:
            SchemaMismatchError: Either lacks a field of the other; NULL may be allowed for it.
        """
        source = ".".join(self.path)
        lines = [
            f"column {name!r}: the table does not have it, {source} does"
            for name in _missing(self.target, self.type, path)
        ]
        if missing_fields == "refuse":
            lines += [
                f"column {name!r}: the table has it, {source} does not"
                for name in _missing(self.type, self.target, path)
            ]
        if lines:
            cure = "Assign single fields of the struct, or use a struct of the same fields."
            raise SchemaMismatchError(table, tuple(lines), cure)

    def __call__(self, rows: pa.RecordBatch, old: pa.Array | None) -> pa.Array:
        """Return the values.

        Args:
            rows: The rows that expressions read.
            old: The column before, if fields of it are kept.
        """
        values = rows.column(self.path[0])
        for name in self.path[1:]:
            values = pc.struct_field(values, [values.type.get_field_index(name)])
        return values if old is None or not self.keeps_fields else _with_old_fields(values, old)


def nested_copy(sql: str, schema: StructType, target: DataType) -> NestedCopy | None:
    """Return the copy of a column; None if the expression is anything else.

    Args:
        sql: The expression.
        schema: The columns that it may name.
        target: The type of the column that is assigned.
    """
    try:
        fields = schema.find(col(sql).node.path)  # type: ignore[attr-defined]
    except (PredicateError, ColumnNotFoundError):
        return None
    kind = fields[-1].type
    return NestedCopy(
        path=tuple(field.name for field in fields),
        type=kind,
        target=target,
        arrow_type=to_arrow_type(kind),
    )


def _missing(source: DataType, target: DataType, path: str) -> Iterator[str]:
    """Yield the fields that only the target has."""
    match source, target:
        case StructType(), StructType(fields):
            for field in fields:
                found = source.get(field.name)
                inner = f"{path}.{field.name}"
                if found is None:
                    yield inner
                else:
                    yield from _missing(found.type, field.type, inner)
        case ArrayType(element), ArrayType(other):
            yield from _missing(element, other, f"{path}.element")
        case MapType(key, value), MapType(other_key, other_value):
            yield from _missing(key, other_key, f"{path}.key")
            yield from _missing(value, other_value, f"{path}.value")


def _with_old_fields(values: pa.Array, old: pa.Array) -> pa.Array:
    """Return structs with the fields that only the old ones have; null where `values` is."""
    if not (pt.is_struct(values.type) and pt.is_struct(old.type)):
        return values
    before = {
        field.name.lower(): (field.name, array)
        for field, array in zip(old.type, old.flatten(), strict=True)
    }
    merged = {}
    for field, array in zip(values.type, values.flatten(), strict=True):
        _, kept = before.pop(field.name.lower(), (None, None))
        merged[field.name] = array if kept is None else _with_old_fields(array, kept)
    merged |= dict(before.values())
    mask = values.is_null() if values.null_count else None
    return pa.StructArray.from_arrays(list(merged.values()), names=list(merged), mask=mask)
