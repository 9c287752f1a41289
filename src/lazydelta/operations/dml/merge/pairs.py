"""Find the pairs of target and source rows that satisfy the ON condition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lazydelta._arrow import from_numpy, true_mask
from lazydelta.operations.dml.merge import tuning
from lazydelta.operations.dml.merge.joined_rows import evaluate_rows, joined_batch
from lazydelta.operations.dml.merge.key_index import KeyIndex

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from lazydelta.operations.dml.merge.condition import Condition
    from lazydelta.operations.dml.merge.joined_rows import JoinedSchema

__all__ = ["PairFinder", "Pairs"]


@dataclass(frozen=True, slots=True)
class Pairs:
    """Some rows of a target batch, each with a row of the source chunk that matches it."""

    target_rows: np.ndarray
    source_rows: np.ndarray
    batch: pa.RecordBatch
    """In the joined schema; without rows if no expression needs them."""

    def __len__(self) -> int:
        return len(self.target_rows)


class PairFinder:
    """Matches target batches with one chunk of the source.

    Args:
        condition: The ON condition.
        schema: The names of the columns.
        source: The chunk.
        source_columns: Columns of the source that expressions on pairs read.
    """

    def __init__(
        self,
        condition: Condition,
        schema: JoinedSchema,
        source: pa.RecordBatch,
        source_columns: list[str],
    ) -> None:
        self._condition = condition
        self._schema = schema
        self._num_rows = source.num_rows
        self._source = source.select(source_columns or source.schema.names[:1])
        self.index: KeyIndex | None = None
        self.keys: list[pa.Array] = []
        if condition.keys:
            keys = condition.keys
            rows = joined_batch(schema, None, source)
            self.keys = [evaluate_rows(key.source, rows) for key in keys]
            self.index = KeyIndex.build(self.keys, [key.null_safe for key in keys])

    def pairs(self, target: pa.RecordBatch) -> Iterator[Pairs]:
        """Yield the pairs of a target batch; a row of it may be in several."""
        for target_rows, source_rows in self._candidates(target):
            batch = self.joined(target, target_rows, source_rows)
            found = Pairs(target_rows, source_rows, batch)
            residual = self._condition.residual
            if residual is not None:
                found = self.select(found, true_mask(evaluate_rows(residual, batch)))
            if len(found):
                yield found

    def select(self, pairs: Pairs, mask: np.ndarray) -> Pairs:
        """Return some of the pairs."""
        if mask.all():
            return pairs
        chosen = np.flatnonzero(mask)
        return Pairs(
            pairs.target_rows[chosen],
            pairs.source_rows[chosen],
            pairs.batch.take(from_numpy(chosen)),
        )

    def joined(
        self, target: pa.RecordBatch, target_rows: np.ndarray, source_rows: np.ndarray
    ) -> pa.RecordBatch:
        """Return pairs of rows in the joined schema."""
        left = target.take(from_numpy(target_rows))
        right = self._source.take(from_numpy(source_rows))
        return joined_batch(self._schema, left, right)

    def _candidates(self, target: pa.RecordBatch) -> Iterator[tuple[Any, Any]]:
        if self.index is not None:
            rows = joined_batch(self._schema, target, None)
            keys = [evaluate_rows(key.target, rows) for key in self._condition.keys]
            yield from self.index.blocks(keys, max_pairs=tuning.PAIRS_PER_BLOCK)
            return
        # Without an equality every pair is a candidate: in blocks of bounded size.
        if not self._num_rows:
            return
        step = max(1, tuning.PAIRS_PER_BLOCK // self._num_rows)
        for start in range(0, target.num_rows, step):
            count = min(step, target.num_rows - start)
            target_rows = np.repeat(np.arange(start, start + count), self._num_rows)
            yield target_rows, np.tile(np.arange(self._num_rows), count)
