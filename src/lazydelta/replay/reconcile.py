"""Which adds are live: newest action per key wins, met newest first.

Commits come newest first and are checked against what was seen above them; a checkpoint is
reconciled already, so its adds are only checked, never remembered. Memory is the tail's keys.
One mechanism serves both orders: a reverse scan hands live adds out at once, a forward scan reads
the tail first and hands its adds out last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import bits, from_numpy, integers, selection
from lazydelta.replay.keys import file_keys

if TYPE_CHECKING:
    from lazydelta.protocol import CommitBatch
    from lazydelta.replay.seen_files import SeenFiles

__all__ = ["Reconciler"]

Canonical = Callable[[pa.Array], pa.Array]


class Reconciler:
    """Decides, batch by batch from the newest action down, which adds are live.

    Args:
        seen: Where keys are remembered; the caller closes it.
        canonical: Gives paths one spelling per file.
    """

    def __init__(self, seen: SeenFiles, canonical: Canonical) -> None:
        self.seen = seen
        self._canonical = canonical
        self._held_back: list[tuple[pa.Array, pa.StructArray]] = []

    def live_rows(self, batch: CommitBatch) -> np.ndarray:
        """Return the rows of a commit batch whose add is live, newest first; remember all keys."""
        return self.decide(batch)[0]

    def decide(self, batch: CommitBatch) -> tuple[np.ndarray, list[pa.StructArray]]:
        """Return the rows whose add is live, and the removes that are the last word on a file.

        Within one commit an add outlives a remove of the same key: the two are unordered, and a
        writer that means "gone" does not add. So the removes of a commit that goes on in the next
        batch are held back until it ends.
        """
        is_add, is_remove = _is_valid(batch.add), _is_valid(batch.remove)
        rows = np.flatnonzero(is_add | is_remove)
        if len(rows) == 0:
            return rows, self._release(batch.complete)
        keys = self._keys(batch, rows)
        versions, removes = batch.versions[rows], is_remove[rows]
        if not batch.complete:
            late = removes & (versions == batch.versions[-1])
            held = batch.remove.take(from_numpy(rows[late]))
            self._held_back.append((keys.filter(selection(late)), held))
            rows, removes, versions = rows[~late], removes[~late], versions[~late]
            keys = keys.filter(selection(~late))
        winners = _first_of_each(keys, versions, removes)
        winners = winners[~self.seen.contains(keys.take(from_numpy(winners)))]
        self.seen.add(keys.take(from_numpy(winners)))
        gone = rows[winners[removes[winners]]]
        tombstones = [batch.remove.take(from_numpy(gone))] if len(gone) else []
        return rows[winners[~removes[winners]]], [*tombstones, *self._release(batch.complete)]

    def is_live(self, paths: pa.Array, vectors: pa.Array | None) -> np.ndarray | None:
        """Return which adds of a checkpoint no newer action replaced; None means all of them."""
        if len(self.seen) == 0:
            return None
        return ~self.seen.contains(file_keys(self._canonical(paths), vectors))

    def mark_given(self, paths: pa.Array, vectors: pa.Array | None) -> None:
        """Remember keys that were handed out already, so that they are not handed out again."""
        keys = pc.unique(file_keys(self._canonical(paths), vectors))
        self.seen.add(keys.filter(selection(~self.seen.contains(keys))))

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
            at = from_numpy(rows)
            paths, vectors = paths.take(at), vectors.take(at)
        return file_keys(self._canonical(paths), vectors)

    def _release(self, complete: bool) -> list[pa.StructArray]:
        """Remember the removes of a commit that has ended; return those that nothing replaced."""
        if not complete or not self._held_back:
            return []
        keys = pa.concat_arrays([keys for keys, _ in self._held_back])
        removes = pa.concat_arrays([removes for _, removes in self._held_back])
        self._held_back = []
        first = from_numpy(_first_rows(keys))
        keys, removes = keys.take(first), removes.take(first)
        unseen = selection(~self.seen.contains(keys))
        self.seen.add(keys.filter(unseen))
        return [removes.filter(unseen)]


def _is_valid(actions: pa.StructArray) -> np.ndarray:
    return bits(actions.is_valid())


def _first_of_each(keys: pa.Array, versions: np.ndarray, removes: np.ndarray) -> np.ndarray:
    """Return the row that decides each key: of the newest version, an add before a remove."""
    order = np.lexsort((removes, -versions))
    return order[_first_rows(keys, order)]


def _first_rows(keys: pa.Array, order: np.ndarray | None = None) -> np.ndarray:
    """Return, in an order of the keys, the place where each of them comes first."""
    encoded = keys.dictionary_encode()
    codes = integers(encoded.indices)
    codes = codes if order is None else codes[order]
    first = np.empty(len(encoded.dictionary), np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]  # of equal codes the first is written last
    return np.sort(first)
