"""Reading parts of an object: which requests serve which ranges, and files made of ranges. Pure."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["merged_ranges", "open_ranges"]


def merged_ranges(ranges: Sequence[tuple[int, int]], *, gap: int) -> list[tuple[int, int]]:
    """Return what to fetch for the given ranges: those at most `gap` bytes apart become one.

    >>> merged_ranges([(10, 20), (0, 5), (90, 99), (7, 7)], gap=5)
    [(0, 20), (90, 99)]
    """
    merged: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if start == end:
            continue
        if merged and start <= merged[-1][1] + gap:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def open_ranges(read_range: Callable[[int, int], pa.Buffer], size: int) -> pa.NativeFile:
    """Return a file of `size` bytes; each read of it is one call of `read_range(start, end)`.

    Nothing is read ahead here: who reads through it knows better how much to ask for (Parquet:
    `buffer_size` of 4 MiB, without pre-buffering).
    """
    return pa.PythonFile(_RangeFile(read_range, size), mode="r")


class _RangeFile:
    """The part of Python's file interface that `pa.PythonFile` calls."""

    def __init__(self, read_range: Callable[[int, int], pa.Buffer], size: int) -> None:
        self._read_range = read_range
        self._size = size
        self._position = 0
        self.closed = False

    def read(self, count: int | None = -1) -> bytes | pa.Buffer:
        left = max(self._size - self._position, 0)
        count = left if count is None or count < 0 else min(count, left)
        if not count:
            return b""
        data = self._read_range(self._position, self._position + count)
        self._position += count
        return data

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def flush(self) -> None:
        """Nothing to flush: reading only."""

    def close(self) -> None:
        self.closed = True
