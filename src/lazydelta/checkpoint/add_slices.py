"""Columns of adds: slices, and parts concatenated in sort order.

A part maps field names to columns of some adds. Fields that are null in all of them are omitted.
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

__all__ = ["Columns", "joined", "sliced"]

Columns = dict[str, pa.Array]


def joined(parts: Sequence[Columns], ties: Ties, shape: CheckpointShape) -> Columns:
    """Return the rows of all parts in sort order; ties of the sort numbers by their values."""
    places = _settled(parts, ties, shape)
    start, rows = int(places[0]), len(places)
    lies_so = bool((np.diff(places) == 1).all())
    order = from_numpy(places)
    found: Columns = {}
    for item in shape.add:
        if any(item.name in part for part in parts):
            column = _whole(parts, item)
            found[item.name] = column.slice(start, rows) if lies_so else column.take(order)
    return found


def _settled(parts: Sequence[Columns], ties: Ties, shape: CheckpointShape) -> np.ndarray:
    """Return the sort order as 32-bit positions, with ties resolved by their values."""
    if ties.same.any():
        # Only the compared columns are concatenated here, so the others are copied once.
        at = [shape.sort_values(part) for part in parts]
        ties = ties.by_values([pa.concat_arrays(column) for column in zip(*at, strict=True)])
    return ties.order.astype(np.int32, copy=False)


def sliced(adds: Columns, start: int, rows: int) -> Columns:
    """Return a zero-copy slice of rows."""
    return {name: column.slice(start, rows) for name, column in adds.items()}


def _whole(parts: Sequence[Columns], item: pa.Field) -> pa.Array:
    """Return a field of all parts, concatenated; null where a part lacks it."""
    found = [p[item.name] if item.name in p else nulls(len(p["path"]), item.type) for p in parts]
    return found[0] if len(found) == 1 else pa.concat_arrays(found)
