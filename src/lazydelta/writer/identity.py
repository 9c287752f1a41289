"""Identity columns: the table numbers the rows of whoever does not.

A number is `start + k * step`, and farther than all numbers given before, as the column's mark in
the metadata says. Which ones a row gets depends only on how many rows came before it in its write.
The mark moves in the commit that adds the rows, so that of two writes that began at one mark the
second is refused. Explicit numbers move it as well: what is numbered later never meets them.
Pure, and pickles.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc

from lazydelta._arrow import from_numpy
from lazydelta.errors import (
    IdentityExhaustedError,
    SchemaError,
    SchemaMismatchError,
    UnsupportedFeatureError,
)
from lazydelta.protocol.features import supported_by_table
from lazydelta.schema import PrimitiveType, StructType
from lazydelta.writer.required_protocol import all_fields

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import pyarrow as pa

    from lazydelta.protocol import TableProtocol
    from lazydelta.schema import StructField

__all__ = [
    "IdentityColumn",
    "high_water_marks",
    "identity_columns",
    "is_identity",
    "plan_identity",
    "with_high_water_marks",
    "without_high_water_marks",
]

_FEATURE = "identityColumns"
_PREFIX = "delta.identity."
_START, _STEP = "delta.identity.start", "delta.identity.step"
_MARK = "delta.identity.highWaterMark"
_EXPLICIT = "delta.identity.allowExplicitInsert"
_KNOWN = frozenset({_START, _STEP, _MARK, _EXPLICIT})
_LONG = PrimitiveType("long")
_LONGS = range(-(2**63), 2**63)


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityColumn:
    """How the rows of a table are numbered in one column."""

    name: str
    start: int
    step: int
    mark: int | None
    """The farthest number so far; None before the first."""
    allows_explicit: bool
    is_given: bool = False
    """Whether the rows that come have their own numbers."""

    def numbered(self, batch: pa.RecordBatch, before: int, table: str) -> pa.RecordBatch:
        """Return rows of the table's schema with their numbers, if they need any.

        Args:
            batch: The rows.
            before: How many rows of the write came before them.
            table: Its address, for errors.

        Raises:
            IdentityExhaustedError: There are not enough numbers of 64 bits left.
        """
        if self.is_given or not batch.num_rows:
            return batch
        used = 0 if self.mark is None else max(0, (self.mark - self.start) // self.step + 1)
        first = self.start + (used + before) * self.step
        if first + (batch.num_rows - 1) * self.step not in _LONGS:
            raise IdentityExhaustedError(table, self.name, self.start, self.step)
        # What overflows on the way wraps around, and so does the sum: back to where it belongs.
        numbers = np.arange(batch.num_rows, dtype=np.int64) * np.int64(self.step) + np.int64(first)
        at = batch.schema.get_field_index(self.name)
        return batch.set_column(at, batch.schema.field(at), from_numpy(numbers))

    def farthest(self, *numbers: int | None) -> int | None:
        """Return the number that is farthest in the direction of the steps."""
        known = [number for number in numbers if number is not None]
        return (max if self.step > 0 else min)(known, default=None)

    def mark_after(self, reached: int | None) -> int | None:
        """Return the mark once rows have got to a number.

        It is one of the column's own numbers, because engines go on from it by one step: the
        nearest that is as far, or the last of 64 bits. What is before the start does not move it.
        """
        if reached is None or self.farthest(self.start, reached) != reached:
            return self.mark
        steps = -((self.start - reached) // self.step)
        own = self.start + steps * self.step
        return self.farthest(self.mark, own if own in _LONGS else own - self.step)


def is_identity(item: StructField) -> bool:
    """Whether a column is numbered by the table."""
    return any(key.startswith(_PREFIX) for key in item.metadata)


def identity_columns(schema: StructType, table: str) -> tuple[IdentityColumn, ...]:
    """Return the columns that the table numbers.

    Raises:
        SchemaError: A column cannot be numbered as its metadata says.
        UnsupportedFeatureError: It says more than lazydelta knows.
    """
    found = []
    for path, item in all_fields(schema):
        if not is_identity(item):
            continue
        if unknown := sorted(k for k in item.metadata if k.startswith(_PREFIX) and k not in _KNOWN):
            reason = f"column {item.name!r} has {unknown[0]}, which lazydelta does not know"
            raise UnsupportedFeatureError(table, (_FEATURE,), "write", reason)
        if reason := _why_not(path, item):
            name = ".".join(path)
            raise SchemaError(f"identity column {name!r}: {reason}", table)
        found.append(_column(item))
    return tuple(found)


def plan_identity(
    schema: StructType, protocol: TableProtocol, *, given: Collection[str], table: str
) -> tuple[IdentityColumn, ...]:
    """Return how rows are numbered that have some columns.

    Args:
        schema: The table's.
        protocol: The table's.
        given: The table's columns that the rows have.
        table: Its address, for errors.

    Raises:
        SchemaMismatchError: Rows have numbers of their own where only the table gives them.
        SchemaError: A column cannot be numbered as its metadata says.
        UnsupportedFeatureError: The protocol does not allow what the columns say.
    """
    found = identity_columns(schema, table)
    if found and _FEATURE not in supported_by_table(protocol):
        reason = f"column {found[0].name!r} is one, and the protocol does not allow it"
        raise UnsupportedFeatureError(table, (_FEATURE,), "write", reason)
    refused = tuple(
        f"column {column.name!r}: given, and the table numbers it itself (GENERATED ALWAYS)"
        for column in found
        if column.name in given and not column.allows_explicit
    )
    if refused:
        raise SchemaMismatchError(table, refused, "Leave it out: every row gets its number.")
    return tuple(replace(column, is_given=column.name in given) for column in found)


def high_water_marks(
    columns: tuple[IdentityColumn, ...], batch: pa.RecordBatch, known: Mapping[str, int]
) -> dict[str, int]:
    """Return how far rows of the table's schema got in each column, those known before included."""
    found = dict(known)
    for column in columns:
        bounds = pc.min_max(batch.column(column.name)).as_py()
        farthest = column.farthest(found.get(column.name), bounds["min"], bounds["max"])
        if farthest is not None:
            found[column.name] = farthest
    return found


def with_high_water_marks(
    schema: StructType, columns: tuple[IdentityColumn, ...], reached: Mapping[str, int]
) -> StructType:
    """Return the schema with the marks that rows moved; the same object if they moved none."""
    marks = {column.name: column.mark_after(reached.get(column.name)) for column in columns}
    moved = {column.name for column in columns if marks[column.name] != column.mark}
    if not moved:
        return schema
    return StructType(
        tuple(
            replace(item, metadata={**item.metadata, _MARK: marks[item.name]})
            if item.name in moved
            else item
            for item in schema
        )
    )


def without_high_water_marks(schema: StructType) -> StructType:
    """Return the schema for a table of which no row is numbered yet."""
    return StructType(
        tuple(
            replace(item, metadata={k: v for k, v in item.metadata.items() if k != _MARK})
            for item in schema
        )
    )


def _why_not(path: tuple[str, ...], item: StructField) -> str:
    """Return why a column cannot be numbered; empty if it can."""
    if len(path) > 1:
        return "only whole columns are numbered"
    if item.type != _LONG:
        return f"numbers are of the type BIGINT, not {item.type}"
    said = item.metadata
    for key in (_START, _STEP, *(_MARK,) * (_MARK in said)):
        if not _is_long(said.get(key)):
            return f"{key} must be a whole number of 64 bits, not {said.get(key)!r}"
    if said[_STEP] == 0:
        return f"{_STEP} cannot be 0"
    if not isinstance(said.get(_EXPLICIT), bool):
        return f"{_EXPLICIT} must be true or false, not {said.get(_EXPLICIT)!r}"
    return ""


def _is_long(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value in _LONGS


def _column(item: StructField) -> IdentityColumn:
    said = item.metadata
    return IdentityColumn(
        name=item.name,
        start=said[_START],
        step=said[_STEP],
        mark=said.get(_MARK),
        allows_explicit=said[_EXPLICIT],
    )
