"""Rows by the 64-bit hash of their key: sorted hashes, with a bitmap and a directory to find them.

Knows hashes only; rows with equal hashes may have different keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lazydelta.operations.dml.merge import tuning

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["HashTable"]


@dataclass(frozen=True, slots=True)
class HashTable:
    """Rows by hash; about 20 bytes a row."""

    hashes: np.ndarray
    """Distinct hashes in order; a group is a position in it."""
    rows: np.ndarray
    """The rows, by hash, then in order."""
    starts: np.ndarray | None
    """Where the rows of each group start, and the end; None if every group has one row."""
    bitmap: np.ndarray
    """One bit for each value of the top bits of a hash: whether a hash has them."""
    directory: np.ndarray
    """The first group for each value of the top bits of a hash."""

    @classmethod
    def build(cls, hashes: np.ndarray, rows: np.ndarray | None) -> HashTable:
        """Return the table of the given rows; of all without them."""
        if rows is not None:
            hashes = hashes[rows]
        order = np.argsort(hashes)
        ordered = hashes[order]
        is_first = np.ones(len(ordered), np.bool_)
        np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
        starts = None
        if not is_first.all():
            order = np.argsort(hashes, kind="stable")
            starts = np.append(np.flatnonzero(is_first), len(ordered)).astype(np.int32)
            ordered = ordered[is_first]
        rows = (order if rows is None else rows[order]).astype(np.int32)
        return cls(ordered, rows, starts, _bitmap(ordered), _directory(ordered))

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        arrays = (self.hashes, self.rows, self.starts, self.bitmap, self.directory)
        return sum(array.nbytes for array in arrays if array is not None)

    def candidates(self, hashes: np.ndarray) -> np.ndarray:
        """Return the positions of hashes that may be in the table: all that are, and a few."""
        slots = hashes >> _shift(8 * len(self.bitmap))
        bits = slots.astype(np.uint8)
        bits &= 7
        slots >>= np.uint64(3)
        found = self.bitmap.take(slots.view(np.int64))
        found >>= bits
        found &= 1
        return np.flatnonzero(found.view(np.bool_))

    def find(self, hashes: np.ndarray, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return which of some positions have a hash that is in the table, and its group."""
        wanted = hashes[positions]
        slots = (wanted >> _shift(len(self.directory))).view(np.int64)
        groups = self.directory.take(slots).astype(np.int64)
        behind = np.arange(len(wanted))
        for _ in range(tuning.PROBES_AT_MOST):
            behind = behind[self._at(groups[behind]) < wanted[behind]]
            behind = behind[groups[behind] < len(self.hashes)]
            if not len(behind):
                break
            groups[behind] += 1
        groups[behind] = np.searchsorted(self.hashes, wanted[behind])
        found = self._at(groups) == wanted
        return positions[found], groups[found]

    def split(
        self, rows: np.ndarray, groups: np.ndarray, *, max_pairs: int
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield rows and their groups in parts of so many pairs, at least one row in each."""
        if self.starts is None or not len(rows):
            yield rows, groups
            return
        ends = np.cumsum(self.starts[groups + 1].astype(np.int64) - self.starts[groups])
        start = 0
        while start < len(rows):
            before = int(ends[start - 1]) if start else 0
            limit = min(before + max_pairs, int(ends[-1]))
            end = max(start + 1, int(np.searchsorted(ends, limit, "right")))
            yield rows[start:end], groups[start:end]
            start = end

    def pairs(self, rows: np.ndarray, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return each row with every row of its group."""
        if self.starts is None:
            return rows, self.rows[groups].astype(np.int64)
        first = self.starts[groups].astype(np.int64)
        counts = self.starts[groups + 1] - first
        ends = np.cumsum(counts)
        positions = np.repeat(first - (ends - counts), counts)
        positions += np.arange(len(positions))
        return np.repeat(rows, counts), self.rows[positions].astype(np.int64)

    def _at(self, groups: np.ndarray) -> np.ndarray:
        """Return the hash of each group; the last one for a group beyond the end."""
        return self.hashes.take(groups, mode="clip")


def _bitmap(hashes: np.ndarray) -> np.ndarray:
    bits = max(3, len(hashes).bit_length() + tuning.BITMAP_BITS)
    bitmap = np.zeros(1 << (bits - 3), np.uint8)
    for start in range(0, len(hashes), tuning.INDEXED_ROWS):
        slots = hashes[start : start + tuning.INDEXED_ROWS] >> _shift(1 << bits)
        octets = (slots >> np.uint64(3)).view(np.int64)
        flags = np.uint8(1) << (slots & np.uint64(7)).astype(np.uint8)
        firsts = np.flatnonzero(np.append(True, octets[1:] != octets[:-1]))
        bitmap[octets[firsts]] |= np.bitwise_or.reduceat(flags, firsts)
    return bitmap


def _directory(hashes: np.ndarray) -> np.ndarray:
    size = 1 << max(1, len(hashes).bit_length() - 1)
    directory = np.empty(size, np.int32)
    for start in range(0, size, tuning.INDEXED_ROWS):
        slots = np.arange(start, min(start + tuning.INDEXED_ROWS, size), dtype=np.uint64)
        directory[start : start + tuning.INDEXED_ROWS] = np.searchsorted(
            hashes, slots << _shift(size)
        )
    return directory


def _shift(size: int) -> np.uint64:
    """Return the shift that leaves the top bits of a hash that number `size` slots."""
    return np.uint64(64 - (size.bit_length() - 1))
