"""The set of file keys that a scan has seen: exact under any memory limit.

Three layers. A Bloom filter rules out most keys. Sorted 64-bit hashes locate a key. The key itself
is compared last and decides, so a false positive of the first two costs a lookup and never a file
(a file wrongly reported as seen loses rows). Beyond the memory limit, keys and hashes are spilled
to temporary files and looked up there.
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc

from lazydelta._arrow import from_numpy, to_mask
from lazydelta.replay import tuning
from lazydelta.replay.action_keys import hash_keys, new_seed

if TYPE_CHECKING:
    import tempfile
    from collections.abc import Iterable, Iterator

__all__ = ["SeenFiles"]

_KEY_TYPE = pa.large_string()


@dataclass(slots=True)
class _Run:
    """Keys sorted by hash; in memory, or memory-mapped from files."""

    hashes: np.ndarray
    keys: pa.ChunkedArray
    spilled: bool = False

    @property
    def nbytes(self) -> int:
        return 0 if self.spilled else self.hashes.nbytes + self.keys.nbytes


class SeenFiles:
    """A set of file keys with vectorized `add` and `contains`.

    Args:
        memory_limit: Bytes of hashes and keys held in memory; 0 spills all of them.
        capacity: Number of keys that the Bloom filter is sized for. It starts smaller, and grows
            beyond this if needed.
        false_positive_rate: Rate of the Bloom filter at its capacity.
    """

    def __init__(self, *, memory_limit: int, capacity: int, false_positive_rate: float) -> None:
        self._memory_limit = memory_limit
        self._seed = new_seed()
        self._runs: list[_Run] = []
        self._capacity = capacity
        self._bloom = _BloomFilter(min(capacity, tuning.SMALL_BLOOM_KEYS), false_positive_rate)
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        self._files = 0
        self._length = 0

    def __len__(self) -> int:
        return self._length

    @property
    def memory_bytes(self) -> int:
        """Bytes held in memory, including the Bloom filter."""
        return self._bloom.nbytes + sum(run.nbytes for run in self._runs)

    @property
    def spilled_runs(self) -> int:
        """Number of sorted runs in temporary files."""
        return sum(run.spilled for run in self._runs)

    def add(self, keys: pa.Array) -> None:
        """Insert distinct keys that are not in the set; the caller guarantees both."""
        if len(keys) == 0:
            return
        hashes = hash_keys(keys, self._seed)
        order = np.argsort(hashes, kind="stable")
        ordered = keys.cast(_KEY_TYPE).take(from_numpy(order))
        run = _Run(hashes[order], pa.chunked_array([ordered]))
        self._length += len(keys)
        if not self._bloom.has_room(self._length):
            needed = 4 * self._length
            if self._length <= self._capacity:
                needed = min(needed, self._capacity)
            self._bloom = self._bloom.resized(needed)
            for existing in self._runs:
                self._bloom.add(existing.hashes)
        self._bloom.add(run.hashes)
        self._push(run)
        if sum(run.nbytes for run in self._runs) > self._memory_limit:
            self._spill()

    def contains(self, keys: pa.Array) -> np.ndarray:
        """Return for each key whether it is in the set."""
        is_member = np.zeros(len(keys), np.bool_)
        if self._length == 0 or len(keys) == 0:
            return is_member
        hashes = hash_keys(keys, self._seed)
        candidates = np.flatnonzero(self._bloom.may_contain(hashes))
        if len(candidates) == 0:
            return is_member
        # Sorted lookups access the runs in order, several times faster than random ones.
        candidates = candidates[np.argsort(hashes[candidates])]
        for run in self._runs:
            self._look_up(run, keys, hashes, candidates[~is_member[candidates]], is_member)
        return is_member

    def copied(self) -> SeenFiles:
        """Return a set with the same keys; adding to one does not change the other.

        The keys share their memory. Nothing may be spilled.
        """
        found = copy(self)
        found._runs = list(self._runs)  # noqa: SLF001 - own class
        found._bloom = self._bloom.copied()  # noqa: SLF001 - own class
        return found

    def close(self) -> None:
        """Clear the set and delete the temporary files."""
        self._runs.clear()
        self._length = 0
        if self._directory is not None:
            self._directory.cleanup()
            self._directory = None

    @staticmethod
    def _look_up(
        run: _Run, keys: pa.Array, hashes: np.ndarray, rows: np.ndarray, is_member: np.ndarray
    ) -> None:
        targets = hashes[rows]
        positions = np.searchsorted(run.hashes, targets)
        # Different keys may share a hash: advance while the hash is equal and the key is not.
        while len(rows):
            same = positions < len(run.hashes)
            same[same] = run.hashes[positions[same]] == targets[same]
            rows, positions, targets = rows[same], positions[same], targets[same]
            if len(rows) == 0:
                return
            lookup = keys.take(from_numpy(rows)).cast(_KEY_TYPE)
            stored = run.keys.take(from_numpy(positions)).combine_chunks()
            hit = to_mask(pc.equal(stored, lookup))
            is_member[rows[hit]] = True
            rows, positions, targets = rows[~hit], positions[~hit] + 1, targets[~hit]

    def _push(self, run: _Run) -> None:
        """Append a run; merges it with smaller ones, to keep the number of runs low."""
        while self._runs and not self._runs[-1].spilled:
            last = self._runs[-1]
            if len(last.hashes) > 2 * len(run.hashes):
                break
            run = _merged([self._runs.pop(), run])
        self._runs.append(run)

    def _spill(self) -> None:
        resident = [run for run in self._runs if not run.spilled]
        spilled = [run for run in self._runs if run.spilled]
        spilled.append(self._written([_merged(resident)]))
        if len(spilled) > tuning.MAX_SPILLED_RUNS:
            spilled = [self._written(_buckets(spilled))]
        self._runs = spilled

    def _written(self, runs: Iterable[_Run]) -> _Run:
        """Write runs of consecutive hash ranges as one run, and memory-map it."""
        import tempfile  # slow to import, and few scans spill
        from pathlib import Path

        if self._directory is None:
            self._directory = tempfile.TemporaryDirectory(prefix="lazydelta-keys-")
        stem = Path(self._directory.name) / f"{self._files}"
        self._files += 1
        hashes, keys = stem.with_suffix(".hashes"), stem.with_suffix(".keys")
        schema = pa.schema([("key", _KEY_TYPE)])
        with (
            hashes.open("wb") as out,
            pa.OSFile(str(keys), "wb") as sink,
            pa.ipc.new_file(sink, schema) as writer,
        ):
            for run in runs:
                out.write(run.hashes.tobytes())
                writer.write_table(pa.table([run.keys], schema=schema))
        mapped = pa.ipc.open_file(pa.memory_map(str(keys))).read_all().column("key")
        return _Run(np.memmap(hashes, np.uint64, "r"), mapped, spilled=True)


def _buckets(runs: list[_Run]) -> Iterator[_Run]:
    """Merge runs by hash range, each range small enough to be sorted in memory."""
    bits = tuning.MERGE_BUCKET_BITS
    edges = np.arange(1, 1 << bits, dtype=np.uint64) << np.uint64(64 - bits)
    cuts = [[0, *np.searchsorted(r.hashes, edges).tolist(), len(r.hashes)] for r in runs]
    for bucket in range(1 << bits):
        bounds = [(cut[bucket], cut[bucket + 1]) for cut in cuts]
        parts = [
            _Run(run.hashes[start:end], run.keys.slice(start, end - start))
            for run, (start, end) in zip(runs, bounds, strict=True)
        ]
        yield _merged(parts)


def _merged(runs: list[_Run]) -> _Run:
    if len(runs) == 1:
        return runs[0]
    hashes = np.concatenate([run.hashes for run in runs])
    keys = pa.chunked_array([chunk for run in runs for chunk in run.keys.chunks], _KEY_TYPE)
    order = np.argsort(hashes, kind="stable")
    sorted_keys = keys.combine_chunks().take(from_numpy(order))
    return _Run(hashes[order], pa.chunked_array([sorted_keys]))


class _BloomFilter:
    """A blocked Bloom filter: each key sets four bits of one 64-bit word."""

    def __init__(self, capacity: int, false_positive_rate: float) -> None:
        self._rate = false_positive_rate
        self._capacity = capacity
        # 1.5 times the bits of an unblocked filter, because blocks fill unevenly.
        bits = 1.5 * capacity * -math.log(false_positive_rate) / math.log(2) ** 2
        self._shift = np.uint64(64 - max(1, math.ceil(math.log2(max(bits, 128) / 64))))
        self._words = np.zeros(1 << (64 - int(self._shift)), np.uint64)

    @property
    def nbytes(self) -> int:
        return self._words.nbytes

    def has_room(self, keys: int) -> bool:
        return keys <= self._capacity

    def copied(self) -> _BloomFilter:
        found = copy(self)
        found._words = self._words.copy()  # noqa: SLF001 - own class
        return found

    def resized(self, keys: int) -> _BloomFilter:
        return _BloomFilter(keys, self._rate)

    def add(self, hashes: np.ndarray) -> None:
        np.bitwise_or.at(self._words, hashes >> self._shift, _bits(hashes))

    def may_contain(self, hashes: np.ndarray) -> np.ndarray:
        bits = _bits(hashes)
        return (self._words[hashes >> self._shift] & bits) == bits


def _bits(hashes: np.ndarray) -> np.ndarray:
    """Return four of 64 bits for each hash, from its low bits (the high bits select the word)."""
    bits = np.zeros(len(hashes), np.uint64)
    for shift in (0, 6, 12, 18):
        bits |= np.uint64(1) << ((hashes >> np.uint64(shift)) & np.uint64(63))
    return bits
