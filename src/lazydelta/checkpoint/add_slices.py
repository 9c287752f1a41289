"""Columns of adds: cut, put together, and brought into an order.

A part is the fields of some adds by name, of which those that are null throughout are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lazydelta._arrow import from_numpy
from lazydelta.scan.plan import nulls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lazydelta.checkpoint.checkpoint_schema import CheckpointShape
    from lazydelta.checkpoint.sort_keys import Ties

__all__ = ["Columns", "joined", "settled", "sliced", "whole"]

Columns = dict[str, pa.Array]


def joined(parts: Sequence[Columns], ties: Ties, shape: CheckpointShape) -> Columns:
    """Return rows of all parts in order; those that agree in numbers by their values."""
    places = settled(parts, ties, shape)
    start, rows = int(places[0]), len(places)
    lies_so = bool((np.diff(places) == 1).all())
    order = from_numpy(places)
    found: Columns = {}
    for item in shape.add:
        if any(item.name in part for part in parts):
            column = whole(parts, item)
            found[item.name] = column.slice(start, rows) if lies_so else column.take(order)
    return found


def settled(parts: Sequence[Columns], ties: Ties, shape: CheckpointShape) -> np.ndarray:
    """Return the order of rows, those that agree in numbers by their values; 32-bit places."""
    if ties.same.any():
        # Of nothing else than what is compared, so that one part of it is not copied twice.
        at = [shape.sort_values(part) for part in parts]
        ties = ties.by_values([pa.concat_arrays(column) for column in zip(*at, strict=True)])
    return ties.order.astype(np.int32, copy=False)


def sliced(adds: Columns, start: int, rows: int) -> Columns:
    """Return so many rows from one on, which are not copied."""
    return {name: column.slice(start, rows) for name, column in adds.items()}


def whole(parts: Sequence[Columns], item: pa.Field) -> pa.Array:
    """Return a field of all parts, one after the other; where a part lacks it, it is null."""
    found = [p[item.name] if item.name in p else nulls(len(p["path"]), item.type) for p in parts]
    return found[0] if len(found) == 1 else pa.concat_arrays(found)
