"""Values of INSERT ... VALUES: thousands of expressions without columns, as one array.

Plain literals are converted together, as a column of their type that is stored in the column of
the table. Other expressions are evaluated once for each spelling.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import from_numpy, to_numpy, true_mask
from lazydelta.errors import ConstraintViolationError, PredicateError
from lazydelta.expressions import bind_expression
from lazydelta.schema import DecimalType, PrimitiveType, StructField, StructType, to_arrow_type
from lazydelta.schema.values import build_array

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lazydelta.schema import DataType

__all__ = ["constant_values"]

_STRING, _LONG = PrimitiveType("string"), PrimitiveType("long")
_WHOLE = r"^-?\d{1,18}$"
_TEXT = r"^'[^'\\]*'$"
_POINT = r"^-?\d{1,18}\.\d{1,18}$"
_ONE_ROW = pa.RecordBatch.from_arrays([pa.nulls(1)], [""])


def constant_values(
    values: Sequence[str], column: StructField, table: str, *, now: int
) -> pa.Array:
    """Return the values of expressions without columns, cast to the type of a column.

    Args:
        values: SQL of the expressions.
        column: The column that stores them.
        table: The table's URL, for errors.
        now: The time of the statement, in microseconds since 1970.

    Raises:
        ConstraintViolationError: A value cannot be computed, or does not fit the column.
        PredicateError: An expression is not supported, or its values need a CAST.
    """
    encoded = build_array(values, _STRING).dictionary_encode()
    constants = _Constants(column, table, now)
    places, parts = [], []
    for where, part in constants.parts(encoded.dictionary):
        places.append(where)
        parts.append(part)
    order = np.argsort(np.concatenate(places))
    found = pa.concat_arrays(parts).take(from_numpy(order))
    return found.take(encoded.indices)


@dataclass(frozen=True, slots=True)
class _Constants:
    """Evaluates distinct expressions for one column."""

    column: StructField
    table: str
    now: int

    def parts(self, sql: pa.Array) -> Iterator[tuple[np.ndarray, pa.Array]]:
        """Yield values with their places among the expressions."""
        rest = np.arange(len(sql))
        for pattern in (_WHOLE, _TEXT, _POINT):
            is_literal = true_mask(pc.match_substring_regex(sql.take(from_numpy(rest)), pattern))
            literals, rest = rest[is_literal], rest[~is_literal]
            for where, kind, given in _typed(pattern, sql, literals):
                yield where, self._stored(given, kind, sql.take(from_numpy(where)))
        if len(rest):
            yield rest, self._each(sql.take(from_numpy(rest)))

    def _stored(self, given: pa.Array, kind: DataType, sql: pa.Array) -> pa.Array:
        """Return literals of one type as the column stores them."""
        rows = pa.RecordBatch.from_arrays([given], ["value"])
        schema = StructType((StructField("value", kind),))
        try:
            bound = bind_expression(
                "value", schema, to_type=self.column.type, strict=False, now=self.now
            )
        except PredicateError:  # the error of the first one names it
            return self._each(sql)
        result = bound(rows)
        if result.failed is not None:
            self._refuse(sql.filter(result.failed)[0].as_py())
        return result.values

    def _each(self, sql: pa.Array) -> pa.Array:
        """Return the values of any expressions."""
        arrays = []
        for value in sql.to_pylist():
            bound = bind_expression(
                value, StructType(()), to_type=self.column.type, strict=False, now=self.now
            )
            result = bound(_ONE_ROW)
            if result.failed is not None:
                self._refuse(value)
            arrays.append(result.values)
        return pa.concat_arrays(arrays)

    def _refuse(self, value: str) -> None:
        line = f"{self.column.name} = {value}: cannot be computed"
        raise ConstraintViolationError(self.table, (line,))


def _typed(
    pattern: str, sql: pa.Array, literals: np.ndarray
) -> Iterator[tuple[np.ndarray, DataType, pa.Array]]:
    """Yield literals by type, with their places and values."""
    if not len(literals):
        return
    given = sql.take(from_numpy(literals))
    if pattern == _WHOLE:
        yield literals, _LONG, given.cast(pa.int64())
    elif pattern == _TEXT:
        yield literals, _STRING, pc.utf8_slice_codeunits(given, 1, -1)
    else:
        scales = to_numpy(pc.binary_length(given)) - to_numpy(pc.find_substring(given, ".")) - 1
        for scale in np.unique(scales).tolist():  # it shows where the column is a string
            chosen = literals[scales == scale]
            kind = DecimalType(18 + scale, scale)
            yield chosen, kind, sql.take(from_numpy(chosen)).cast(to_arrow_type(kind))
