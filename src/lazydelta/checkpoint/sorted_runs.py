"""Sorted runs of adds, spilled to temporary files and read once from front to back."""

from __future__ import annotations

import mmap
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pyarrow as pa
import pyarrow.ipc

from lazydelta.checkpoint.add_slices import joined

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lazydelta.checkpoint.add_slices import Columns
    from lazydelta.checkpoint.checkpoint_schema import CheckpointShape
    from lazydelta.checkpoint.sort_keys import Ties

__all__ = ["Run"]


@dataclass(slots=True)
class Run:
    """Sorted adds in a memory-mapped file. Rows that were read stay resident until `release`."""

    _mapped: mmap.mmap
    _schema: pa.Schema
    _blocks: list[tuple[int, int]]
    """Start and end of each unread block, the next one last."""
    _columns: Columns = field(default_factory=dict)
    _at: int = 0

    @classmethod
    def spilled(
        cls, path: str, parts: Sequence[Columns], ties: Ties, shape: CheckpointShape,
        *, block_rows: int,
    ) -> Self:  # fmt: skip
        """Write adds to a file in their order, in blocks of `block_rows`, and map it."""
        columns = joined(parts, ties, shape)
        schema = pa.schema([(name, column.type) for name, column in columns.items()])
        batch = pa.RecordBatch.from_arrays(list(columns.values()), schema=schema)
        # Not compressed: that would take longer than the rest of the sorting.
        sizes = []
        with pa.OSFile(path, "w") as sink:
            for start in range(0, batch.num_rows, block_rows):
                block = batch.slice(start, block_rows).serialize()
                sink.write(block)
                sizes.append(block.size)
        with Path(path).open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        blocks = list(pairwise(accumulate(sizes, initial=0)))
        return cls(mapped, schema, blocks[::-1])

    @classmethod
    def taken(
        cls, runs: Sequence[Self], counts: Sequence[int], ties: Ties, shape: CheckpointShape
    ) -> Columns:
        """Return the next rows of runs in their order: `counts` rows of each."""
        pairs = zip(runs, counts, strict=True)
        parts = [part for run, count in pairs for part in run._next(count)]  # noqa: SLF001
        found = joined(parts, ties, shape)
        for run in runs:
            run.release()
        return found

    def _next(self, rows: int) -> Iterator[Columns]:
        """Yield the next rows, in one piece for each block."""
        while rows:
            piece = self.next_piece(rows)
            rows -= len(piece["path"])
            yield piece

    def next_piece(self, most: int) -> Columns:
        """Return the next rows of one block, at most `most`."""
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
        """Return mapped pages to the system; pages that are still referenced are read again."""
        self._mapped.madvise(mmap.MADV_DONTNEED)
