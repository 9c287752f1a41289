"""The values of one expression over a batch, and the rows for which there is none.

A row fails where Spark would stop: a sum that overflows, a division by zero, a text that is no
number. It fails only if its value is needed: `CASE`, `AND`, `OR` and `coalesce` leave out what
they do not look at, as Spark does row by row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lazydelta.schema import PrimitiveType, build_scalar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Cells", "attempted", "both", "either", "with_nulls_failed"]

_FALSE = build_scalar(False, PrimitiveType("boolean"))


@dataclass(frozen=True, slots=True)
class Cells:
    """Values of rows; null also where a row failed."""

    values: pa.Array
    failed: pa.BooleanArray | None = None
    """Never null; None if no row failed."""

    def failing(self, more: pa.BooleanArray | None) -> Cells:
        """Return the cells with further rows failed."""
        failed = either(self.failed, more)
        if failed is None or failed is self.failed:
            return self
        nothing = pa.nulls(1, self.values.type)[0]
        return Cells(pc.if_else(failed, nothing, self.values), failed)


def either(a: pa.BooleanArray | None, b: pa.BooleanArray | None) -> pa.BooleanArray | None:
    """Return where one of the two is true; None is false everywhere, and so is a null."""
    if a is None or b is None:
        return _definite(b if a is None else a)
    return _definite(pc.or_kleene(a, b))


def both(a: pa.BooleanArray | None, b: pa.BooleanArray | None) -> pa.BooleanArray | None:
    """Return where both are true; None is false everywhere, and so is a null."""
    return None if a is None or b is None else _definite(pc.and_kleene(a, b))


def with_nulls_failed(found: pa.Array, *given: pa.Array) -> Cells:
    """Return results; a row failed if it has none though every argument was there."""
    if found.null_count == 0:
        return Cells(found)
    failed: pa.BooleanArray = found.is_null()
    for values in given:
        if values.null_count:
            failed = pc.and_(failed, values.is_valid())
    return Cells(found, _definite(failed))


def attempted(kernel: Callable[..., pa.Array], *given: pa.Array) -> Cells:
    """Run a kernel that raises if it cannot compute one of the rows; those rows fail.

    The rows are halved until the ones that fail stand alone, so few of them cost little.
    """
    try:
        return Cells(kernel(*given))
    except pa.ArrowInvalid:
        size = len(given[0])
    if size == 1:
        nothing = pa.nulls(1, kernel(*(values.slice(0, 0) for values in given)).type)
        return Cells(nothing, pa.repeat(build_scalar(True, PrimitiveType("boolean")), 1))
    half = size // 2
    left = attempted(kernel, *(values.slice(0, half) for values in given))
    right = attempted(kernel, *(values.slice(half) for values in given))
    failed = [cells.failed or pa.repeat(_FALSE, len(cells.values)) for cells in (left, right)]
    return Cells(pa.concat_arrays([left.values, right.values]), pa.concat_arrays(failed))


def _definite(mask: pa.BooleanArray | None) -> pa.BooleanArray | None:
    if mask is None:
        return None
    known = pc.coalesce(mask, _FALSE) if mask.null_count else mask
    return known if known.true_count else None
