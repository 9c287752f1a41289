"""Result of evaluating an expression over a batch: a value per row, and the rows that failed.

A row fails where Spark's ANSI mode raises: integer overflow, division by zero, a string that does
not parse. A failure counts only where its value is used: CASE, AND, OR and coalesce ignore
failures in branches that they do not take.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lazydelta.schema import PrimitiveType
from lazydelta.schema.values import build_scalar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FALSE", "NULL", "TRUE", "Result", "attempt", "both", "either", "nulls_failed"]

TRUE, FALSE, NULL = (build_scalar(value, PrimitiveType("boolean")) for value in (True, False, None))


class Result(NamedTuple):
    """Values of the rows of a batch; null also where a row failed."""

    values: pa.Array
    failed: pa.BooleanArray | None = None
    """Has no nulls; None if no row failed."""

    def failing(self, more: pa.BooleanArray | None) -> Result:
        """Return the result with further rows failed."""
        failed = either(self.failed, more)
        if failed is None or failed is self.failed:
            return self
        null = pa.nulls(1, self.values.type)[0]
        return Result(pc.if_else(failed, null, self.values), failed)


def either(a: pa.BooleanArray | None, b: pa.BooleanArray | None) -> pa.BooleanArray | None:
    """Return where one of two masks is true; None is a mask without true, null is false."""
    if a is None or b is None:
        return _definite(b if a is None else a)
    return _definite(pc.or_kleene(a, b))


def both(a: pa.BooleanArray | None, b: pa.BooleanArray | None) -> pa.BooleanArray | None:
    """Return where both masks are true; None is a mask without true, null is false."""
    return None if a is None or b is None else _definite(pc.and_kleene(a, b))


def nulls_failed(found: pa.Array, *given: pa.Array) -> Result:
    """Return a result; a row failed if its value is null though no argument is."""
    if found.null_count == 0:
        return Result(found)
    failed: pa.BooleanArray = found.is_null()
    for values in given:
        if values.null_count:
            failed = pc.and_(failed, values.is_valid())
    return Result(found, _definite(failed))


def attempt(kernel: Callable[..., pa.Array], *given: pa.Array) -> Result:
    """Run a kernel that raises if it cannot compute one of the rows; those rows fail.

    Batches are halved until each failing row is alone, so a few failures cost little.
    """
    try:
        return Result(kernel(*given))
    except pa.ArrowInvalid:
        size = len(given[0])
    if size == 1:
        null = pa.nulls(1, kernel(*(values.slice(0, 0) for values in given)).type)
        return Result(null, pa.repeat(TRUE, 1))
    half = size // 2
    left = attempt(kernel, *(values.slice(0, half) for values in given))
    right = attempt(kernel, *(values.slice(half) for values in given))
    failed = [part.failed or pa.repeat(FALSE, len(part.values)) for part in (left, right)]
    return Result(pa.concat_arrays([left.values, right.values]), pa.concat_arrays(failed))


def _definite(mask: pa.BooleanArray | None) -> pa.BooleanArray | None:
    if mask is None:
        return None
    known = pc.coalesce(mask, FALSE) if mask.null_count else mask
    return known if known.true_count else None
