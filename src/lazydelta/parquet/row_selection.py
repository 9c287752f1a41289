"""Selections of rows by position, as deletion vectors make them, and their bitmaps."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from lazydelta._arrow import from_mask
from lazydelta.parquet import tuning

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    RowSelection: TypeAlias = Callable[[int, int], pa.BooleanArray | None]
    """Returns a mask of the rows to keep, given a start position and a count; None keeps all."""

__all__ = ["selection_bitmap"]


def selection_bitmap(keep: RowSelection, start: int, end: int) -> bytes:
    """Return the selection between two positions as a bitmap."""
    chunks = []
    for position in range(start, end, tuning.BITMAP_CHUNK_ROWS):
        count = min(tuning.BITMAP_CHUNK_ROWS, end - position)
        mask = keep(position, count)
        chunks.append(from_mask(np.ones(count, np.bool_)) if mask is None else mask)
    return b"".join(chunk.buffers()[1].to_pybytes() for chunk in chunks)
