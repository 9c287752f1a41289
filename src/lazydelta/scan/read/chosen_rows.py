"""Read only some rows of files, chosen by position, as operations that change rows do.

The choice takes the place of the file's deletion vector: rows that are not chosen are left out like
deleted ones, so every read path handles them already.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lazydelta._arrow import from_mask
from lazydelta.formats import DeletedRows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from lazydelta.formats import DeletionVectorGroup

__all__ = ["ChosenRows", "ChosenVectors", "SelectedRows"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenRows:
    """Which rows of each file to read."""

    positions: Mapping[str, Any]
    """A 64-bit bitmap for each file that has such rows, by its decoded path; none is deleted."""
    drops: bool = False
    """Whether to read the other rows instead."""


class SelectedRows:
    """The only rows of one file to read. Has the interface of `DeletedRows`."""

    __slots__ = ("_bitmap", "last")
    count = 0
    """Deleted rows count for row limits, which such a read does not have."""

    def __init__(self, bitmap: Any) -> None:
        self._bitmap = bitmap
        self.last = bitmap.max() if bitmap else -1

    def kept(self, start: int, length: int) -> pa.BooleanArray:
        """Return which of `length` rows from `start` on are selected."""
        mask = np.zeros(length, np.bool_)
        mask[self._between(start, start + length) - start] = True
        return from_mask(mask)

    def ranges(self, start: int, end: int, *, min_gap: int) -> list[tuple[int, int]]:
        """Return the ranges of selected rows between two positions; short gaps are included."""
        positions = self._between(start, end)
        if not len(positions):
            return []
        cuts = np.flatnonzero(np.diff(positions) > min_gap)
        firsts = positions[np.append(0, cuts + 1)].tolist()
        lasts = positions[np.append(cuts, len(positions) - 1)].tolist()
        return [(first, last + 1) for first, last in zip(firsts, lasts, strict=True)]

    def _between(self, start: int, end: int) -> np.ndarray:
        part = self._bitmap & type(self._bitmap)(range(start, end))
        return np.frombuffer(part.to_array(), np.uint64).astype(np.int64)


class ChosenVectors:
    """Deletion vectors of files, combined with the chosen rows. Has their group's interface.

    Args:
        group: The deletion vectors.
        paths: The decoded path of each file.
        rows: The chosen rows.
    """

    def __init__(self, group: DeletionVectorGroup, paths: Sequence[str], rows: ChosenRows) -> None:
        self._group = group
        self._paths = paths
        self._rows = rows

    def request(self, index: int) -> None:
        """Start to fetch a deletion vector, if it is needed."""
        if self._rows.drops:
            self._group.request(index)

    def take(self, index: int) -> DeletedRows | SelectedRows | None:
        """Return the rows to leave out, or to select; None reads all rows."""
        bitmap = self._rows.positions.get(self._paths[index])
        if not self._rows.drops:
            return SelectedRows(_no_rows() if bitmap is None else bitmap)
        deleted = self._group.take(index)
        if bitmap is None or deleted is None:
            return deleted if bitmap is None else DeletedRows(bitmap)
        return DeletedRows(deleted.union(bitmap))


def _no_rows() -> Any:
    from pyroaring import BitMap64

    return BitMap64()
