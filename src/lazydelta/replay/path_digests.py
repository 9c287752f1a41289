"""A set of paths as 16-byte digests: for files that must not be deleted.

A digest has no string to compare with, so two paths with equal digests are taken for one. That
makes a dead file look referenced, never a referenced file dead. Beyond the memory limit, digests
are spilled to temporary files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from lazydelta.replay.action_keys import hash_keys, new_seed

if TYPE_CHECKING:
    import tempfile

    import pyarrow as pa

__all__ = ["PathDigests"]

_DIGEST_BYTES = 16


class _Run(NamedTuple):
    """Digests sorted by their first half; in memory, or memory-mapped."""

    first: np.ndarray
    second: np.ndarray


class PathDigests:
    """A set of paths with vectorized `add` and `contains`.

    Args:
        memory_limit: Bytes of digests held in memory before they are sorted and spilled.
    """

    def __init__(self, *, memory_limit: int) -> None:
        self._memory_limit = memory_limit
        self._seeds = (new_seed(), new_seed())
        self._unsorted: list[_Run] = []
        self._unsorted_bytes = 0
        self._runs: list[_Run] = []
        self._directory: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __bool__(self) -> bool:
        return bool(self._unsorted or self._runs)

    @property
    def spilled_runs(self) -> int:
        """Number of sorted runs in temporary files."""
        return sum(isinstance(run.first, np.memmap) for run in self._runs)

    def add(self, paths: pa.Array) -> None:
        """Insert paths; duplicates are allowed."""
        if len(paths):
            self._unsorted.append(self._digests(paths))
            self._unsorted_bytes += _DIGEST_BYTES * len(paths)
        if self._unsorted_bytes > self._memory_limit:
            self._runs.append(self._spilled(self._sorted()))

    def contains(self, paths: pa.Array) -> np.ndarray:
        """Return for each path whether it is in the set."""
        found = np.zeros(len(paths), np.bool_)
        self.sort()
        if not len(paths) or not self._runs:
            return found
        first, second = self._digests(paths)
        order = np.argsort(first)  # sorted lookups access a run in order
        for run in self._runs:
            _look_up(run, first, second, order[~found[order]], found)
        return found

    def sort(self) -> None:
        """Sort what was added, as the next `contains` would: it takes twice the set's memory."""
        if self._unsorted:
            self._runs.append(self._sorted())

    def close(self) -> None:
        """Clear the set and delete the temporary files."""
        self._runs.clear()
        self._unsorted.clear()
        if self._directory is not None:
            self._directory.cleanup()
            self._directory = None

    def _digests(self, paths: pa.Array) -> _Run:
        return _Run(*(hash_keys(paths, seed) for seed in self._seeds))

    def _sorted(self) -> _Run:
        # One half at a time: each copy of it is 8 bytes a path.
        firsts, seconds = map(list, zip(*self._unsorted, strict=True))
        self._unsorted, self._unsorted_bytes = [], 0
        first = np.concatenate(firsts)
        del firsts
        order = np.argsort(first)
        first = first[order]
        second = np.concatenate(seconds)
        del seconds
        return _Run(first, second[order])

    def _spilled(self, run: _Run) -> _Run:
        import tempfile  # slow to import, and few sets spill
        from pathlib import Path

        if self._directory is None:
            self._directory = tempfile.TemporaryDirectory(prefix="lazydelta-paths-")
        halves = []
        for name, half in zip(run._fields, run, strict=True):
            file = Path(self._directory.name) / f"{len(self._runs)}.{name}"
            half.tofile(file)
            halves.append(np.memmap(file, np.uint64, "r"))
        return _Run(*halves)


def _look_up(
    run: _Run, first: np.ndarray, second: np.ndarray, rows: np.ndarray, found: np.ndarray
) -> None:
    positions = np.searchsorted(run.first, first[rows])
    while len(rows):
        same = positions < len(run.first)
        same[same] = run.first[positions[same]] == first[rows[same]]
        rows, positions = rows[same], positions[same]
        hit = run.second[positions] == second[rows]
        found[rows[hit]] = True
        rows, positions = rows[~hit], positions[~hit] + 1
