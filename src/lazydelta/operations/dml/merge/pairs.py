"""Find the pairs of target and source rows that satisfy the ON condition."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lazydelta._arrow import from_numpy, true_mask
from lazydelta.operations.dml.merge import tuning
from lazydelta.operations.dml.merge.joined_rows import evaluate_rows, joined_batch
from lazydelta.operations.dml.merge.key_index import KeyIndex

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lazydelta.operations.dml.merge.condition import Condition
    from lazydelta.operations.dml.merge.joined_rows import JoinedSchema

__all__ = ["PairFinder", "Pairs"]


@dataclass(frozen=True)
class Pairs:
    """Some rows of a target batch, each with a row of the source chunk that matches it.

    Sorted by target row. Columns are joined on first use: most pairs of pass 1 need none.
    """

    schema: JoinedSchema
    target: pa.RecordBatch
    source: pa.RecordBatch
    target_rows: np.ndarray
    source_rows: np.ndarray

    def __len__(self) -> int:
        return len(self.target_rows)

    @cached_property
    def batch(self) -> pa.RecordBatch:
        """The pairs in the joined schema."""
        left = self.target.take(from_numpy(self.target_rows))
        right = self.source.take(from_numpy(self.source_rows))
        return joined_batch(self.schema, left, right)

    @property
    def old(self) -> pa.RecordBatch:
        """The target rows, with the columns that were read."""
        return pa.RecordBatch.from_struct_array(self.batch.column(self.schema.target_alias))

    def select(self, mask: np.ndarray) -> Pairs:
        """Return some of the pairs."""
        if mask.all():
            return self
        chosen = np.flatnonzero(mask)
        rows = self.target_rows[chosen], self.source_rows[chosen]
        return replace(self, target_rows=rows[0], source_rows=rows[1])


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
        """Yield the pairs of a target batch in blocks; all pairs of a row are in one."""
        residual = self._condition.residual
        for target_rows, source_rows in self._candidates(target):
            found = Pairs(self._schema, target, self._source, target_rows, source_rows)
            if residual is not None and len(found):
                found = found.select(true_mask(evaluate_rows(residual, found.batch)))
            if len(found):
                yield found

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
