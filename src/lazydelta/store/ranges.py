"""Byte-range reads: coalescing of ranges, and file objects over range requests."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["merged_ranges", "open_ranges", "split_ranges"]


def merged_ranges(ranges: Sequence[tuple[int, int]], *, gap: int) -> list[tuple[int, int]]:
    """Coalesce ranges that are at most `gap` bytes apart; returns the ranges to fetch.

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


def split_ranges(ranges: Sequence[tuple[int, int]], *, part: int) -> list[tuple[int, int]]:
    """Split ranges into parts of at most `part` bytes, in their order.

    >>> split_ranges([(0, 5), (10, 35)], part=10)
    [(0, 5), (10, 20), (20, 30), (30, 35)]
    """
    return [
        (position, min(position + part, end))
        for start, end in ranges
        for position in range(start, end, part)
    ]


def open_ranges(read_range: Callable[[int, int], pa.Buffer], size: int) -> pa.NativeFile:
    """Return a file of `size` bytes; each read is one call of `read_range(start, end)`.

    It does not read ahead: the reader chooses the size of its reads (Parquet: `buffer_size`).
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
        remaining = max(self._size - self._position, 0)
        count = remaining if count is None or count < 0 else min(count, remaining)
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
        """Do nothing: the file is read-only."""

    def close(self) -> None:
        self.closed = True
