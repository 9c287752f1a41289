"""An object opened for random reads, whose ranges can be fetched together before they are read."""

from __future__ import annotations

import bisect
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from lazydelta.store import tuning
from lazydelta.store.interface import is_local
from lazydelta.store.ranges import merged_ranges, open_ranges

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lazydelta.store.interface import Store

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
        self._starts: list[int] = []
        self._blocks: list[pa.Buffer] = []
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
        self._fetch(ranges)

    @contextmanager
    def fetched(self, ranges: Sequence[tuple[int, int]]) -> Iterator[None]:
        """Request ranges, all at once, and keep them for the duration of the context.

        Contexts may overlap: ranges that another one has fetched are not requested again.
        """
        starts = self._fetch(ranges)
        try:
            yield
        finally:
            blocks = dict(zip(self._starts, self._blocks, strict=True))
            self._set({start: block for start, block in blocks.items() if start not in starts})

    def _fetch(self, ranges: Sequence[tuple[int, int]]) -> set[int]:
        """Request the ranges that are missing; returns the positions of the new blocks."""
        if self._is_local:
            return set()
        missing = [span for span in ranges if self._block(*span) is None]
        merged = merged_ranges(missing, gap=tuning.COALESCE_GAP)
        if not merged:
            return set()
        starts = set()
        blocks = dict(zip(self._starts, self._blocks, strict=True))
        for (start, _), data in zip(
            merged, self._store.read_ranges(self._path, merged), strict=True
        ):
            block = data if isinstance(data, pa.Buffer) else pa.py_buffer(data)
            if start not in blocks or blocks[start].size < block.size:
                blocks[start] = block
                starts.add(start)
        self._set(blocks)
        return starts

    def release(self) -> None:
        """Free what was fetched, except the end of the object: the footer is read again."""
        size = self.size()
        self._set(
            {
                start: block
                for start, block in zip(self._starts, self._blocks, strict=True)
                if start + block.size == size and block.size <= tuning.COALESCE_GAP
            }
        )

    def close(self) -> None:
        """Close the file object and free what was fetched."""
        self._set({})
        self.file.close()

    def _set(self, blocks: dict[int, pa.Buffer]) -> None:
        self._starts = sorted(blocks)
        self._blocks = [blocks[start] for start in self._starts]

    def _read(self, start: int, end: int) -> pa.Buffer:
        block = self._block(start, end)
        if block is not None:
            return block
        data = self._store.read_ranges(self._path, [(start, end)])[0]
        return data if isinstance(data, pa.Buffer) else pa.py_buffer(data)

    def _block(self, start: int, end: int) -> pa.Buffer | None:
        """Return the fetched bytes of a range; None if a part of it was not fetched."""
        index = bisect.bisect_right(self._starts, start) - 1
        while index >= 0:
            first, block = self._starts[index], self._blocks[index]
            if end <= first + block.size:
                return block.slice(start - first, end - start)
            index -= 1
        return None
