"""An object opened for random reads, whose ranges can be fetched together before they are read."""

from __future__ import annotations

import bisect
import threading
from typing import TYPE_CHECKING

import pyarrow as pa

from lazydelta.store import tuning
from lazydelta.store.interface import is_local
from lazydelta.store.ranges import merged_ranges, open_ranges

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lazydelta.store.interface import Buffer, Store

__all__ = ["RangedInput"]


class RangedInput:
    """A file object over an object of a store.

    A Parquet reader asks for one column chunk at a time, and each would wait for its own request.
    `fetch` requests all of them at once; the file object then reads from memory. Bytes that were
    not fetched are requested when they are read. A local file needs none of this.

    Args:
        store: The store.
        path: The path of the object.
        size: Its size, if the caller knows it; saves a request.
    """

    def __init__(self, store: Store, path: str, size: int | None = None) -> None:
        self._store = store
        self._path = path
        self._lock = threading.Lock()
        self._blocks: list[tuple[int, pa.Buffer]] = []  # with their positions, ascending
        self._is_local = is_local(store)
        if self._is_local:
            self.file: pa.NativeFile = store.open_input(path, size=size)
            return
        self.file = open_ranges(self._read, store.head(path).size if size is None else size)

    def size(self) -> int:
        """Return the size of the object."""
        return int(self.file.size())

    def fetch(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Request ranges, all at once, and keep them until `release`."""
        if self._is_local:
            return
        missing = [span for span in ranges if self._fetched(*span) is None]
        merged = merged_ranges(missing, gap=tuning.COALESCE_GAP)
        if not merged:
            return
        buffers = map(_as_buffer, self._store.read_ranges(self._path, merged))
        with self._lock:
            blocks = [*self._blocks, *zip((start for start, _ in merged), buffers, strict=True)]
            self._blocks = sorted(blocks, key=lambda block: block[0])

    def release(self, before: int | None = None) -> None:
        """Free the bytes before a position, by default all of them.

        The end of the object is kept: the footer is read again.
        """
        size = self.size()
        stop = size if before is None else before
        with self._lock:
            self._blocks = [
                (start, block)
                for start, block in self._blocks
                if start + block.size > stop
                or (start + block.size == size and block.size <= tuning.COALESCE_GAP)
            ]

    def close(self) -> None:
        """Close the file object and free what was fetched."""
        with self._lock:
            self._blocks = []
        self.file.close()

    def _read(self, start: int, end: int) -> pa.Buffer:
        data = self._fetched(start, end)
        if data is None:
            data = _as_buffer(self._store.read_ranges(self._path, [(start, end)])[0])
        return data

    def _fetched(self, start: int, end: int) -> pa.Buffer | None:
        """Return the fetched bytes of a range; None if a part of it was not fetched."""
        blocks = self._blocks
        for first, block in blocks[: bisect.bisect_right(blocks, start, key=lambda b: b[0])][::-1]:
            if end <= first + block.size:
                return block.slice(start - first, end - start)
        return None


def _as_buffer(data: Buffer) -> pa.Buffer:
    return data if isinstance(data, pa.Buffer) else pa.py_buffer(data)
