"""Action reconciliation: the newest action of each file key wins.

Commits are processed newest first and checked against the keys seen so far. A checkpoint is
reconciled already: its adds are checked but not recorded. Memory is bound by the keys of the tail.
Both scan orders use it: a reverse scan returns live adds at once, a forward scan reads the tail
first and returns its adds last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import from_mask, from_numpy, to_mask, to_numpy
from lazydelta.replay.action_keys import file_keys

if TYPE_CHECKING:
    from lazydelta.protocol import CommitBatch
    from lazydelta.replay.seen_files import SeenFiles

__all__ = ["Reconciler"]

Canonical = Callable[[pa.Array], pa.Array]


class Reconciler:
    """Determines the live adds, batch by batch from the newest action to the oldest.

    Args:
        seen: The set of seen keys; the caller closes it.
        canonical: Canonicalizes paths.
    """

    def __init__(self, seen: SeenFiles, canonical: Canonical) -> None:
        self.seen = seen
        self._canonical = canonical
        self._deferred: list[tuple[pa.Array, pa.StructArray]] = []

    def live_rows(self, batch: CommitBatch) -> np.ndarray:
        """Return the rows of a commit batch with a live add, newest first; records all keys."""
        return self.decide(batch)[0]

    def decide(self, batch: CommitBatch) -> tuple[np.ndarray, list[pa.StructArray]]:
        """Return the rows with a live add, and the removes that are tombstones.

        Within one commit an add wins over a remove of the same key: actions of a commit are
        unordered, and a writer that removes a file does not add it. Therefore the removes of a
        commit that continues in the next batch are deferred until its end.
        """
        is_add, is_remove = _is_valid(batch.add), _is_valid(batch.remove)
        rows = np.flatnonzero(is_add | is_remove)
        if len(rows) == 0:
            return rows, self._release(batch.complete)
        keys = self._keys(batch, rows)
        versions, removes = batch.versions[rows], is_remove[rows]
        if not batch.complete:
            deferred = removes & (versions == batch.versions[-1])
            deferred_removes = batch.remove.take(from_numpy(rows[deferred]))
            self._deferred.append((keys.filter(from_mask(deferred)), deferred_removes))
            rows, removes, versions = rows[~deferred], removes[~deferred], versions[~deferred]
            keys = keys.filter(from_mask(~deferred))
        winners = _first_of_each(keys, versions, removes)
        winners = winners[~self.seen.contains(keys.take(from_numpy(winners)))]
        self.seen.add(keys.take(from_numpy(winners)))
        removed = rows[winners[removes[winners]]]
        tombstones = [batch.remove.take(from_numpy(removed))] if len(removed) else []
        return rows[winners[~removes[winners]]], [*tombstones, *self._release(batch.complete)]

    def is_live(self, paths: pa.Array, vectors: pa.Array | None) -> np.ndarray | None:
        """Return a mask of the adds of a checkpoint that are live; None means all of them."""
        if len(self.seen) == 0:
            return None
        return ~self.seen.contains(file_keys(self._canonical(paths), vectors))

    def mark_emitted(self, paths: pa.Array, vectors: pa.Array | None) -> None:
        """Record the keys of adds that were returned already, so that they are not repeated."""
        keys = pc.unique(file_keys(self._canonical(paths), vectors))
        self.seen.add(keys.filter(from_mask(~self.seen.contains(keys))))

    def keys(self, batch: CommitBatch) -> pa.Array:
        """Return the key of every add and remove of a batch."""
        return self._keys(batch, np.flatnonzero(_is_valid(batch.add) | _is_valid(batch.remove)))

    def _keys(self, batch: CommitBatch, rows: np.ndarray) -> pa.Array:
        add, remove = batch.add, batch.remove
        paths, vectors = pc.struct_field(add, "path"), pc.struct_field(add, "deletionVector")
        if remove.null_count < len(remove):
            paths = pc.coalesce(paths, pc.struct_field(remove, "path"))
            removed = pc.struct_field(remove, "deletionVector")
            if removed.null_count < len(removed):
                vectors = pc.if_else(add.is_valid(), vectors, removed)
        if len(rows) < len(paths):
            indices = from_numpy(rows)
            paths, vectors = paths.take(indices), vectors.take(indices)
        return file_keys(self._canonical(paths), vectors)

    def _release(self, complete: bool) -> list[pa.StructArray]:
        """Record the deferred removes of a complete commit; return those that are tombstones."""
        if not complete or not self._deferred:
            return []
        keys = pa.concat_arrays([keys for keys, _ in self._deferred])
        removes = pa.concat_arrays([removes for _, removes in self._deferred])
        self._deferred = []
        first = from_numpy(_first_rows(keys))
        keys, removes = keys.take(first), removes.take(first)
        unseen = from_mask(~self.seen.contains(keys))
        self.seen.add(keys.filter(unseen))
        return [removes.filter(unseen)]


def _is_valid(actions: pa.StructArray) -> np.ndarray:
    return to_mask(actions.is_valid())


def _first_of_each(keys: pa.Array, versions: np.ndarray, removes: np.ndarray) -> np.ndarray:
    """Return the winning row of each key: of the newest version, an add before a remove."""
    order = np.lexsort((removes, -versions))
    return order[_first_rows(keys, order)]


def _first_rows(keys: pa.Array, order: np.ndarray | None = None) -> np.ndarray:
    """Return the first position of each distinct key, in the given order."""
    encoded = keys.dictionary_encode()
    codes = to_numpy(encoded.indices)
    codes = codes if order is None else codes[order]
    first = np.empty(len(encoded.dictionary), np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]  # reversed: the first of equal codes stays
    return np.sort(first)
