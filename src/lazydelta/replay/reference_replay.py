"""Reference replay: oldest to newest, with one dictionary.

A literal implementation of action reconciliation in the protocol. The lazy scan falls back to it,
and all other replays are tested against it. It holds every live file in memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import from_numpy
from lazydelta.replay.action_keys import file_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from lazydelta.protocol import CommitBatch

__all__ = ["ReferenceReplay"]


class ReferenceReplay:
    """Live files of a checkpoint and the commits after it, applied oldest first."""

    def __init__(self, canonical: Callable[[pa.Array], pa.Array]) -> None:
        self._canonical = canonical
        self._batches: list[tuple[int, pa.RecordBatch]] = []
        self._live: dict[str, tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._live)

    def apply_checkpoint(self, version: int, adds: pa.RecordBatch) -> None:
        """Add the files of a checkpoint; `adds` has the fields of the add action as columns."""
        vectors = adds.column("deletionVector") if "deletionVector" in adds.schema.names else None
        self._put(version, adds, file_keys(self._canonical(adds.column("path")), vectors))

    def apply_commit(self, version: int, blocks: Iterable[CommitBatch]) -> None:
        """Apply one complete commit: first its removes, then its adds."""
        blocks = list(blocks)
        for block in blocks:
            removed = block.remove.drop_null()
            for key in self._keys(removed).to_pylist():
                self._live.pop(key, None)
        for block in blocks:
            added = block.add.drop_null()
            if len(added):
                self._put(version, pa.RecordBatch.from_struct_array(added), self._keys(added))

    def live(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the live files with the version that added them, newest first.

        Those of one version are in the order of its actions, however they were batched: a resumed
        scan may read with other batches.
        """
        rows: dict[int, list[int]] = {}
        for batch, row in self._live.values():
            rows.setdefault(batch, []).append(row)
        for batch in sorted(rows, key=lambda batch: (-self._batches[batch][0], batch)):
            version, adds = self._batches[batch]
            yield version, adds.take(from_numpy(np.array(sorted(rows[batch]), np.int64)))

    def _keys(self, actions: pa.StructArray) -> pa.Array:
        paths = self._canonical(pc.struct_field(actions, "path"))
        return file_keys(paths, pc.struct_field(actions, "deletionVector"))

    def _put(self, version: int, adds: pa.RecordBatch, keys: pa.Array) -> None:
        number = len(self._batches)
        self._batches.append((version, adds))
        for row, key in enumerate(keys.to_pylist()):
            self._live[key] = (number, row)
