"""Sorted adds in a temporary file, which are read once from front to back.

The file is mapped, so that nothing is copied to be read; what was looked at counts as memory of
the process until `release`. Knows neither what is sorted by what, nor who merges; the numbers by
which a merge is planned are only kept here.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.ipc

from lazydelta.files import write_gently

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

__all__ = ["Run"]

Columns = dict[str, pa.Array]


@dataclass(slots=True)
class Run:
    """A spilled run, with the place of each row in the order."""

    keys: list[np.ndarray]
    """Partition code and numbers; whoever plans the merge takes them away."""
    _mapped: mmap.mmap
    _schema: pa.Schema
    _blocks: list[tuple[int, int]]
    """Where each block begins and ends that was not read yet, the next one last."""
    _columns: Columns = field(default_factory=dict)
    _at: int = 0

    @classmethod
    def spilled(
        cls, path: str, columns: Columns, keys: list[np.ndarray], *, block_rows: int
    ) -> Run:
        """Write sorted adds to a file, so many rows to a block, and map it."""
        schema = pa.schema([(name, column.type) for name, column in columns.items()])
        batch = pa.RecordBatch.from_arrays(list(columns.values()), schema=schema)
        # Not compressed: that would take longer than all the rest of the sorting. Each block in one
        # piece: it has many small buffers, which would be as many calls.
        with pa.OSFile(path, "w") as sink:
            sizes = [
                write_gently(sink, batch.slice(start, block_rows).serialize())
                for start in range(0, batch.num_rows, block_rows)
            ]
        with Path(path).open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        blocks = list(pairwise(accumulate(sizes, initial=0)))
        return cls(keys, mapped, schema, blocks[::-1])

    def next(self, rows: int) -> Iterator[Columns]:
        """Yield the next rows, in as many pieces as they lie in."""
        while rows:
            piece = self.next_piece(rows)
            rows -= len(piece["path"])
            yield piece

    def next_piece(self, most: int) -> Columns:
        """Return the next rows that lie together, at most so many."""
        if not self._columns:
            start, end = self._blocks.pop()
            block = pa.py_buffer(self._mapped).slice(start, end - start)
            batch = pa.ipc.read_record_batch(block, self._schema)
            self._columns = dict(zip(batch.schema.names, batch.columns, strict=True))
            self._at = 0
        left = len(self._columns["path"]) - self._at
        taken = min(most, left)
        piece = {name: column.slice(self._at, taken) for name, column in self._columns.items()}
        self._at += taken
        if taken == left:
            self._columns = {}
        return piece

    def release(self) -> None:
        """Give mapped pages back; those that somebody still looks at come again by themselves."""
        self._mapped.madvise(mmap.MADV_DONTNEED)
