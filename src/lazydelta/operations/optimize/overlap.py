"""Overlap of files in the clustering columns, from the statistics of the log alone. No I/O.

The overlap depth of a column is the number of files that a reader of one value opens. It measures
how well a table is clustered, and which files are worth rewriting.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lazydelta._arrow import to_mask, to_numpy
from lazydelta.expressions.nodes import Column
from lazydelta.operations.optimize import tuning
from lazydelta.operations.optimize.range_ids import common_prefix, order_keys
from lazydelta.replay.skipping import file_bounds
from lazydelta.schema import PrimitiveType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lazydelta.snapshot import SnapshotState

__all__ = ["FileBounds", "column_bounds"]

_LIMIT = 1e300


@dataclass(frozen=True, slots=True)
class FileBounds:
    """Bounds of files as numbers in the order of the values, one pair of arrays per column."""

    low: tuple[np.ndarray, ...]
    high: tuple[np.ndarray, ...]
    is_known: tuple[np.ndarray, ...]
    """Whether the log has both bounds; a file without them may hold any value."""

    @classmethod
    def joined(cls, batches: Sequence[Sequence[tuple[pa.Array, pa.Array]]]) -> FileBounds:
        """Return the bounds of the files of batches, from the `column_bounds` of each."""
        low, high, known = [], [], []
        for pairs in zip(*batches, strict=True):
            least, greatest = (pa.concat_arrays(side) for side in zip(*pairs, strict=True))
            keys = _positions(pa.concat_arrays([least, greatest]))
            low.append(keys[: len(least)])
            high.append(keys[len(least) :])
            known.append(to_mask(pc.and_(least.is_valid(), greatest.is_valid())))
        return cls(tuple(low), tuple(high), tuple(known))

    def depths(self, groups: np.ndarray) -> list[float]:
        """Return the overlap depth of each column: files at the middle of a file, on average.

        Args:
            groups: The partition of each file; files of different ones do not overlap.
        """
        order = np.argsort(groups, kind="stable")
        parts = np.split(order, np.flatnonzero(np.diff(groups[order])) + 1)
        pairs = zip(self.low, self.high, self.is_known, strict=True)
        return [
            round(sum(_total_depth(*(side[part] for side in sides)) for part in parts)
                  / max(len(groups), 1), 2)
            for sides in pairs
        ]  # fmt: skip

    def overlapping(self, chosen: np.ndarray) -> np.ndarray:
        """Return which files overlap in all columns with one of the chosen files.

        Args:
            chosen: A mask of files.
        """
        found = np.zeros(len(chosen), np.bool_)
        indices = np.flatnonzero(chosen)
        if not len(indices):
            return found
        indices = indices[np.argsort(self.low[0][indices], kind="stable")]
        boxes = np.array_split(indices, min(len(indices), tuning.OVERLAP_BOXES))
        for box in boxes:
            found |= self._touching(box)
        return found

    def _touching(self, box: np.ndarray) -> np.ndarray:
        """Return which files overlap with the bounding box of some files."""
        touches = np.ones(len(self.low[0]), np.bool_)
        for low, high, known in zip(self.low, self.high, self.is_known, strict=True):
            if known[box].all():
                overlaps = (low <= high[box].max()) & (high >= low[box].min())
                touches &= overlaps | ~known
        return touches


def column_bounds(
    snapshot: SnapshotState, adds: pa.RecordBatch, paths: Sequence[tuple[str, ...]]
) -> list[tuple[pa.Array, pa.Array]]:
    """Return for each column (logical path) the least and greatest values; null if not known."""
    found = []
    for path in paths:
        kind = snapshot.schema.find(path)[-1].type
        bounds = None
        if isinstance(kind, PrimitiveType):
            column = Column(path, type=kind)
            bounds = file_bounds(adds, column, snapshot.schema, snapshot.column_mapping_mode)
        unknown = pa.nulls(adds.num_rows, pa.int64())
        found.append((unknown, unknown) if bounds is None else (bounds.lower, bounds.upper))
    return found


def _positions(values: pa.Array) -> np.ndarray:
    """Return finite numbers in the order of the values, equal only for equal values.

    Strings that differ behind the bytes that `order_keys` compares are ranked.
    """
    keys = _finite(order_keys(values, common_prefix(values)))
    if pt.is_string(values.type) or pt.is_binary(values.type):
        known = to_mask(values.is_valid())
        if pc.count_distinct(values).as_py() > len(np.unique(keys[known])):
            keys = _finite(to_numpy(pc.rank(values, tiebreaker="dense")))
    return keys


def _finite(keys: np.ndarray) -> np.ndarray:
    """Return keys that can be averaged."""
    return np.clip(keys.astype(np.float64), -_LIMIT, _LIMIT)


def _total_depth(low: np.ndarray, high: np.ndarray, known: np.ndarray) -> float:
    """Return the overlap depth of files of one partition, times their number."""
    anywhere = float((~known).sum())
    low, high = low[known], high[known]
    at = low / 2 + high / 2
    inside = np.searchsorted(np.sort(low), at, "right")
    inside -= np.searchsorted(np.sort(high), at, "left")
    average = float(inside.mean()) if len(at) else 0.0
    return (average + anywhere) * len(known)
