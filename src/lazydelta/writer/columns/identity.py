"""Identity columns: values that the table generates for rows written without them.

A value is `start + k * step`, beyond the column's high-water mark in the metadata. A row's value
depends only on its number in the write: its index or, where tasks write, another distinct number.
The commit that adds the rows also advances the mark, so of two writes that started at the same mark
the second conflicts. Explicit values advance the mark too: generated values never repeat them.
Pure; plans pickle.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc

from lazydelta._arrow import from_numpy, to_numpy
from lazydelta.errors import (
    IdentityExhaustedError,
    SchemaError,
    SchemaMismatchError,
    UnsupportedFeatureError,
)
from lazydelta.protocol.features import supported_features
from lazydelta.schema import PrimitiveType, StructType

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    import pyarrow as pa

    from lazydelta.protocol import TableProtocol
    from lazydelta.schema import StructField

__all__ = [
    "IdentityColumn",
    "furthest_values",
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
_HIGH_WATER_MARK = "delta.identity.highWaterMark"
_ALLOW_EXPLICIT = "delta.identity.allowExplicitInsert"
_KEYS = frozenset({_START, _STEP, _HIGH_WATER_MARK, _ALLOW_EXPLICIT})
_LONG = PrimitiveType("long")
_INT64_RANGE = range(-(2**63), 2**63)


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityColumn:
    """One identity column, and whether the rows of a write bring its values."""

    name: str
    start: int
    step: int
    high_water_mark: int | None
    """The furthest value so far; None before the first."""
    allows_explicit: bool
    is_explicit: bool = False
    """Whether the input rows have their own values."""

    def assign(
        self, batch: pa.RecordBatch, row_offset: int | pa.Array, table: str
    ) -> pa.RecordBatch:
        """Return the batch with generated values; unchanged if the values are explicit.

        Args:
            batch: Rows in the table's schema.
            row_offset: Number of rows of this write before the batch, or the number of each row.
            table: The table's URL, for errors.

        Raises:
            IdentityExhaustedError: The values exceed 64 bits.
        """
        if self.is_explicit or not batch.num_rows:
            return batch
        mark = self.high_water_mark
        used = 0 if mark is None else max(0, (mark - self.start) // self.step + 1)
        if isinstance(row_offset, int):
            numbers = np.arange(row_offset, row_offset + batch.num_rows, dtype=np.int64)
        else:
            numbers = to_numpy(row_offset)
        low, high = int(numbers.min()), int(numbers.max())
        if self.start + (used + high) * self.step not in _INT64_RANGE:
            raise IdentityExhaustedError(table, self.name, self.start, self.step)
        # Intermediate products may wrap around; the sum wraps back, because it is in range.
        first = np.int64(self.start + (used + low) * self.step)
        values = (numbers - low) * np.int64(self.step) + first
        index = batch.schema.get_field_index(self.name)
        return batch.set_column(index, batch.schema.field(index), from_numpy(values))

    def furthest(self, *values: int | None) -> int | None:
        """Return the value that is furthest in the direction of the step."""
        present = [value for value in values if value is not None]
        return (max if self.step > 0 else min)(present, default=None)

    def advanced_mark(self, furthest: int | None) -> int | None:
        """Return the high-water mark after rows whose furthest value is given.

        The mark is always `start + k * step`, because other engines continue from it by one step:
        the first such value that is not before `furthest`, or the last of 64 bits. A value before
        the start does not move it.
        """
        if furthest is None or self.furthest(self.start, furthest) != furthest:
            return self.high_water_mark
        steps = -((self.start - furthest) // self.step)
        mark = self.start + steps * self.step
        return self.furthest(
            self.high_water_mark, mark if mark in _INT64_RANGE else mark - self.step
        )


def is_identity(field: StructField) -> bool:
    """Whether a field is an identity column."""
    return any(key.startswith(_PREFIX) for key in field.metadata)


def identity_columns(schema: StructType, table: str) -> tuple[IdentityColumn, ...]:
    """Return the identity columns of a schema.

    Raises:
        SchemaError: The metadata of a column is invalid.
        UnsupportedFeatureError: The metadata has an unknown `delta.identity.*` key.
    """
    columns = []
    for path, field in schema.all_fields():
        if not is_identity(field):
            continue
        if unknown := sorted(k for k in field.metadata if k.startswith(_PREFIX) and k not in _KEYS):
            reason = f"column {field.name!r} has {unknown[0]}, which lazydelta does not support"
            raise UnsupportedFeatureError(table, (_FEATURE,), "write", reason)
        if reason := _invalid_reason(path, field):
            name = ".".join(path)
            raise SchemaError(f"identity column {name!r}: {reason}", table)
        columns.append(_column(field))
    return tuple(columns)


def plan_identity(
    schema: StructType, protocol: TableProtocol, *, input_columns: Collection[str], table: str
) -> tuple[IdentityColumn, ...]:
    """Return the identity columns for a write.

    Args:
        schema: The table's schema.
        protocol: The table's protocol.
        input_columns: The table's columns that the input rows have.
        table: The table's URL, for errors.

    Raises:
        SchemaMismatchError: Rows have values for a GENERATED ALWAYS column.
        SchemaError: The metadata of a column is invalid.
        UnsupportedFeatureError: The protocol does not support identity columns.
    """
    columns = identity_columns(schema, table)
    if columns and _FEATURE not in supported_features(protocol):
        reason = f"column {columns[0].name!r} is one, and the protocol does not support the feature"
        raise UnsupportedFeatureError(table, (_FEATURE,), "write", reason)
    refused = tuple(
        f"column {column.name!r}: the rows have it, and it is GENERATED ALWAYS AS IDENTITY"
        for column in columns
        if column.name in input_columns and not column.allows_explicit
    )
    if refused:
        raise SchemaMismatchError(table, refused, "Leave it out: the table generates its values.")
    return tuple(replace(column, is_explicit=column.name in input_columns) for column in columns)


def high_water_marks(
    columns: tuple[IdentityColumn, ...], batch: pa.RecordBatch, previous: Mapping[str, int]
) -> dict[str, int]:
    """Return the furthest value per column, of a batch and of the batches before it.

    Args:
        columns: The identity columns.
        batch: Rows in the table's schema.
        previous: The result for the batches before this one.
    """
    marks = dict(previous)
    for column in columns:
        bounds = pc.min_max(batch.column(column.name)).as_py()
        furthest = column.furthest(marks.get(column.name), bounds["min"], bounds["max"])
        if furthest is not None:
            marks[column.name] = furthest
    return marks


def furthest_values(
    columns: tuple[IdentityColumn, ...], marks: Iterable[Mapping[str, int]]
) -> dict[str, int]:
    """Return the furthest value per column, of several `high_water_marks`."""
    parts = list(marks)
    furthest = {c.name: c.furthest(*(part.get(c.name) for part in parts)) for c in columns}
    return {name: value for name, value in furthest.items() if value is not None}


def with_high_water_marks(
    schema: StructType, columns: tuple[IdentityColumn, ...], furthest: Mapping[str, int]
) -> StructType:
    """Return the schema with advanced high-water marks; the same object if none advanced."""
    marks = {column.name: column.advanced_mark(furthest.get(column.name)) for column in columns}
    advanced = {c.name for c in columns if marks[c.name] != c.high_water_mark}
    if not advanced:
        return schema
    return StructType(
        tuple(
            replace(field, metadata={**field.metadata, _HIGH_WATER_MARK: marks[field.name]})
            if field.name in advanced
            else field
            for field in schema
        )
    )


def without_high_water_marks(schema: StructType) -> StructType:
    """Return the schema for a new table, which has generated no value yet."""
    return StructType(
        tuple(
            replace(
                field, metadata={k: v for k, v in field.metadata.items() if k != _HIGH_WATER_MARK}
            )
            for field in schema
        )
    )


def _invalid_reason(path: tuple[str, ...], field: StructField) -> str:
    """Return why a field cannot be an identity column; empty if it can."""
    if len(path) > 1:
        return "only top-level columns can be identity columns"
    if field.type != _LONG:
        return f"its type must be BIGINT, not {field.type}"
    metadata = field.metadata
    for key in (_START, _STEP, *(_HIGH_WATER_MARK,) * (_HIGH_WATER_MARK in metadata)):
        if not _is_int64(metadata.get(key)):
            return f"{key} must be a 64-bit integer, not {metadata.get(key)!r}"
    if metadata[_STEP] == 0:
        return f"{_STEP} cannot be 0"
    if not isinstance(metadata.get(_ALLOW_EXPLICIT), bool):
        return f"{_ALLOW_EXPLICIT} must be true or false, not {metadata.get(_ALLOW_EXPLICIT)!r}"
    return ""


def _is_int64(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value in _INT64_RANGE


def _column(field: StructField) -> IdentityColumn:
    metadata = field.metadata
    return IdentityColumn(
        name=field.name,
        start=metadata[_START],
        step=metadata[_STEP],
        high_water_mark=metadata.get(_HIGH_WATER_MARK),
        allows_explicit=metadata[_ALLOW_EXPLICIT],
    )
