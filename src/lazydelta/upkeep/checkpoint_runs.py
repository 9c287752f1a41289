"""Sorted adds in a temporary file, which are read once from front to back.

Knows neither what is sorted by what, nor who merges; the numbers by which a merge is planned are
only kept here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.ipc

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
    _source: Any
    _schema: pa.Schema
    _blocks: list[int]
    """How long each block is that was not read yet."""
    _columns: Columns = field(default_factory=dict)
    _at: int = 0

    @classmethod
    def spilled(
        cls, path: str, columns: Columns, keys: list[np.ndarray], *, block_rows: int
    ) -> Run:
        """Write sorted adds to a file, so many rows to a block, and open it."""
        schema = pa.schema([(name, column.type) for name, column in columns.items()])
        batch = pa.RecordBatch.from_arrays(list(columns.values()), schema=schema)
        sizes = []
        # Not compressed: that would take longer than all the rest of the sorting.
        with pa.OSFile(path, "w") as sink:
            for start in range(0, batch.num_rows, block_rows):
                block = batch.slice(start, block_rows).serialize()
                sizes.append(sink.write(block))
        return cls(keys, pa.OSFile(path), schema, sizes)

    def next(self, rows: int) -> Iterator[Columns]:
        """Yield the next rows, in as many pieces as they lie in."""
        while rows:
            piece = self.next_piece(rows)
            rows -= len(piece["path"])
            yield piece

    def next_piece(self, most: int) -> Columns:
        """Return the next rows that lie together, at most so many."""
        if not self._columns:
            # In one piece: a block has many small buffers, each of which would be read by itself.
            block = self._source.read_buffer(self._blocks.pop(0))
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

    def close(self) -> None:
        """Close the file."""
        self._source.close()
