"""Sorted adds in temporary files, which are read once from front to back.

Of two kinds: those of the compiled decoder copy rows from block to block and nothing else; without
it, files are mapped, and rows pass through Arrow's functions. Knows neither what is sorted by what
nor how much goes together.
"""

from __future__ import annotations

import mmap
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
import pyarrow as pa
import pyarrow.ipc

from lazydelta._arrow import from_numpy
from lazydelta.checkpoint.add_slices import joined, settled, whole
from lazydelta.checkpoint.sort_keys import Ties
from lazydelta.parquet import SortedRun, has_native_decoder, write_gently

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lazydelta.checkpoint.add_slices import Columns
    from lazydelta.checkpoint.checkpoint_schema import CheckpointShape

__all__ = ["CompiledRun", "MappedRun", "Run", "run_kind"]


class Run(ABC):
    """Sorted adds in a file."""

    @classmethod
    @abstractmethod
    def spilled(
        cls, path: str, parts: Sequence[Columns], ties: Ties, shape: CheckpointShape,
        *, block_rows: int,
    ) -> Self:  # fmt: skip
        """Write adds to a file in their order, so many rows to a block."""

    @classmethod
    @abstractmethod
    def taken(
        cls, runs: Sequence[Self], counts: Sequence[int], ties: Ties, shape: CheckpointShape
    ) -> Columns:
        """Return the next rows of runs, so many of each, in their order."""

    @abstractmethod
    def next_piece(self, most: int) -> Columns:
        """Return the next rows, at most so many, and no more than a block."""

    @abstractmethod
    def release(self) -> None:
        """Let go of what is held only because it was looked at."""


@dataclass(slots=True)
class CompiledRun(Run):
    """A run that the compiled decoder has written, and reads."""

    _rows: SortedRun
    _left: int
    _block_rows: int

    @classmethod
    def spilled(
        cls, path: str, parts: Sequence[Columns], ties: Ties, shape: CheckpointShape,
        *, block_rows: int,
    ) -> Self:  # fmt: skip
        """Write adds to a file in their order, so many rows to a block."""
        order = settled(parts, ties, shape)
        present = [item for item in shape.add if any(item.name in part for part in parts)]
        batches = [
            pa.RecordBatch.from_arrays(
                [whole([part], item) for item in present], schema=pa.schema(present)
            )
            for part in parts
        ]
        rows = SortedRun.written(path, batches, order, block_rows=block_rows)
        return cls(rows, len(order), block_rows)

    @classmethod
    def taken(
        cls, runs: Sequence[Self], counts: Sequence[int], ties: Ties, shape: CheckpointShape
    ) -> Columns:
        """Return the next rows of runs, so many of each, in their order."""
        batch = SortedRun.taken([run._rows for run in runs], counts, ties.order)  # noqa: SLF001
        for run, count in zip(runs, counts, strict=True):
            run._left -= count  # noqa: SLF001
        found = dict(zip(batch.schema.names, batch.columns, strict=True))
        if not ties.same.any():
            return found
        as_they_lie = Ties(np.arange(batch.num_rows, dtype=np.int32), ties.same)
        order = from_numpy(settled([found], as_they_lie, shape))
        return {name: column.take(order) for name, column in found.items()}

    def next_piece(self, most: int) -> Columns:
        """Return the next rows, at most so many."""
        count = min(most, self._left, self._block_rows)
        batch = SortedRun.taken([self._rows], [count], np.arange(count, dtype=np.int32))
        self._left -= count
        return dict(zip(batch.schema.names, batch.columns, strict=True))

    def release(self) -> None:
        """Do nothing: no more than a block is held."""


@dataclass(slots=True)
class MappedRun(Run):
    """A run that is mapped, so that nothing is copied to be read.

    What was looked at counts as memory of the process until `release`.
    """

    _mapped: mmap.mmap
    _schema: pa.Schema
    _blocks: list[tuple[int, int]]
    """Where each block begins and ends that was not read yet, the next one last."""
    _columns: Columns = field(default_factory=dict)
    _at: int = 0

    @classmethod
    def spilled(
        cls, path: str, parts: Sequence[Columns], ties: Ties, shape: CheckpointShape,
        *, block_rows: int,
    ) -> Self:  # fmt: skip
        """Write adds to a file in their order, so many rows to a block, and map it."""
        columns = joined(parts, ties, shape)
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
        return cls(mapped, schema, blocks[::-1])

    @classmethod
    def taken(
        cls, runs: Sequence[Self], counts: Sequence[int], ties: Ties, shape: CheckpointShape
    ) -> Columns:
        """Return the next rows of runs, so many of each, in their order."""
        pairs = zip(runs, counts, strict=True)
        parts = [part for run, count in pairs for part in run._next(count)]  # noqa: SLF001
        found = joined(parts, ties, shape)
        for run in runs:
            run.release()
        return found

    def _next(self, rows: int) -> Iterator[Columns]:
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


def run_kind() -> type[Run]:
    """Return which kind is used here."""
    return CompiledRun if has_native_decoder() else MappedRun
