"""Apply a Python function to each distinct combination of arguments.

For what no Arrow or numpy kernel computes exactly as Spark does: columns repeat their values, so
the function runs once for each of them and not once for each row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lazydelta._arrow import from_mask, from_numpy, to_numpy
from lazydelta.expressions.evaluation_result import Result
from lazydelta.schema.values import build_array

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazydelta.schema import DataType

__all__ = ["per_distinct"]


def per_distinct(
    function: Callable[..., Any], given: list[pa.Array], kind: DataType, *constants: Any
) -> Result:
    """Return the function of each row's arguments; null if one of them is null.

    Args:
        function: Of Python values, and then the constants. Returns None for null; ValueError and
            ArithmeticError fail the row.
        given: The arguments, of one length.
        kind: The type of the results.
        constants: Further arguments of the function.
    """
    valid = _all_valid(given)
    if not valid.all():
        given = [values.filter(from_mask(valid)) for values in given]
    coded = [values.dictionary_encode() for values in map(_countable, given)]
    places, choices = _combinations([to_numpy(c.indices).astype(np.int64) for c in coded])
    values: list[Any] = []
    failed = np.zeros(len(choices[0]), np.bool_)
    pairs = zip(coded, choices, strict=True)
    columns = [c.dictionary.take(from_numpy(part)).to_pylist() for c, part in pairs]
    for index, args in enumerate(zip(*columns, strict=True)):
        try:
            values.append(function(*args, *constants))
        except (ValueError, ArithmeticError):
            values.append(None)
            failed[index] = True
    found = build_array([*values, None], kind)  # the last one stands for rows with a null
    rows = np.full(len(valid), len(values), np.int64)
    rows[valid] = places
    result = Result(found.take(from_numpy(rows)))
    lost = np.append(failed, False)[rows]
    return result.failing(from_mask(lost)) if lost.any() else result


def _combinations(parts: list[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return which combination each row has, and the codes of each combination."""
    places, keys = np.zeros(len(parts[0]), np.int64), []
    for part in parts:
        width = int(part.max(initial=0)) + 1
        _, first, places = np.unique(places * width + part, return_index=True, return_inverse=True)
        keys = [p[first] for p in parts]
    return places.reshape(-1).astype(np.int64), keys


def _countable(values: pa.Array) -> pa.Array:
    """Return values that Python represents without loss, and that compare by their bits."""
    if pa.types.is_timestamp(values.type):
        return values.view(pa.int64())
    return values.view(pa.int32()) if pa.types.is_date32(values.type) else values


def _all_valid(given: list[pa.Array]) -> np.ndarray:
    valid = np.ones(len(given[0]), np.bool_)
    for values in given:
        if values.null_count:
            valid &= to_numpy(values.is_valid().cast(pa.int8())).astype(np.bool_)
    return valid
