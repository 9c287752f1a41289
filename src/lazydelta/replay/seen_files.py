"""The keys a scan has seen: exact under any memory limit.

Three layers, from cheap to certain. A Bloom filter says "never seen" for most keys. Sorted 64-bit
hashes say where a key would be. The key's own text, compared last, decides, so a false positive
of the first two costs a look-up and never a file (a file wrongly called seen is rows lost). Past
the memory limit texts and hashes move to temporary files and are looked up there.
"""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc

from lazydelta._arrow import bits, from_numpy
from lazydelta.replay.keys import hash_keys, new_seed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["SeenFiles"]

_MOST_SPILLED_RUNS = 8
_MERGE_BUCKET_BITS = 6
_MERGE_BUCKETS = 1 << _MERGE_BUCKET_BITS
_FEW_KEYS = 1 << 12
"""Up to here the filter is small: a large one is a page fault for nearly every key."""
_TEXT = pa.large_string()


@dataclass(slots=True)
class _Run:
    """Keys in the order of their hashes; in memory, or mapped from files."""

    hashes: np.ndarray
    keys: pa.ChunkedArray
    spilled: bool = False

    @property
    def nbytes(self) -> int:
        return 0 if self.spilled else self.hashes.nbytes + self.keys.nbytes


class SeenFiles:
    """A set of file keys with vectorised `add` and `contains`.

    Args:
        memory_limit: Bytes that hashes and texts may hold in RAM; 0 keeps all of them on disk.
        capacity: How many keys the Bloom filter is laid out for, unless there are few; it grows
            when there are more.
        false_positive_rate: Of the Bloom filter at that many keys.
    """

    def __init__(self, *, memory_limit: int, capacity: int, false_positive_rate: float) -> None:
        self._memory_limit = memory_limit
        self._seed = new_seed()
        self._runs: list[_Run] = []
        self._capacity = capacity
        self._bloom = _Bloom(min(capacity, _FEW_KEYS), false_positive_rate)
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        self._files = 0
        self._length = 0

    def __len__(self) -> int:
        return self._length

    @property
    def memory_bytes(self) -> int:
        """Bytes held in RAM, the Bloom filter included."""
        return self._bloom.nbytes + sum(run.nbytes for run in self._runs)

    @property
    def spilled_runs(self) -> int:
        """How many sorted runs lie in temporary files."""
        return sum(run.spilled for run in self._runs)

    def add(self, keys: pa.Array) -> None:
        """Insert keys that are not in the set, each once (as `contains` and the caller know)."""
        if len(keys) == 0:
            return
        hashes = hash_keys(keys, self._seed)
        order = np.argsort(hashes, kind="stable")
        run = _Run(hashes[order], pa.chunked_array([keys.cast(_TEXT).take(from_numpy(order))]))
        self._length += len(keys)
        if not self._bloom.has_room(self._length):
            enough = self._capacity if self._length <= self._capacity else 4 * self._length
            self._bloom = self._bloom.larger(enough)
            for known in self._runs:
                self._bloom.add(known.hashes)
        self._bloom.add(run.hashes)
        self._push(run)
        if sum(run.nbytes for run in self._runs) > self._memory_limit:
            self._spill()

    def contains(self, keys: pa.Array) -> np.ndarray:
        """Return for each key whether it is in the set."""
        found = np.zeros(len(keys), np.bool_)
        if self._length == 0 or len(keys) == 0:
            return found
        hashes = hash_keys(keys, self._seed)
        maybe = np.flatnonzero(self._bloom.may_contain(hashes))
        if len(maybe) == 0:
            return found
        # Sorted look-ups walk the runs in order, several times faster than random ones.
        maybe = maybe[np.argsort(hashes[maybe])]
        for run in self._runs:
            self._look_up(run, keys, hashes, maybe[~found[maybe]], found)
        return found

    def close(self) -> None:
        """Forget everything and remove the temporary files."""
        self._runs.clear()
        self._length = 0
        if self._directory is not None:
            self._directory.cleanup()
            self._directory = None

    @staticmethod
    def _look_up(
        run: _Run, keys: pa.Array, hashes: np.ndarray, rows: np.ndarray, found: np.ndarray
    ) -> None:
        wanted = hashes[rows]
        at = np.searchsorted(run.hashes, wanted)
        # Different keys may share a hash: step on while the hash is the same and the text is not.
        while len(rows):
            same = at < len(run.hashes)
            same[same] = run.hashes[at[same]] == wanted[same]
            rows, at, wanted = rows[same], at[same], wanted[same]
            if len(rows) == 0:
                return
            asked = keys.take(from_numpy(rows)).cast(_TEXT)
            hit = bits(pc.equal(run.keys.take(from_numpy(at)).combine_chunks(), asked))
            found[rows[hit]] = True
            rows, at, wanted = rows[~hit], at[~hit] + 1, wanted[~hit]

    def _push(self, run: _Run) -> None:
        """Append a run, merging it with smaller ones so that few runs are left to look into."""
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
        if len(spilled) > _MOST_SPILLED_RUNS:
            spilled = [self._written(_buckets(spilled))]
        self._runs = spilled

    def _written(self, pieces: Iterable[_Run]) -> _Run:
        """Write runs whose hash ranges follow each other as one run, and map it."""
        if self._directory is None:
            self._directory = tempfile.TemporaryDirectory(prefix="lazydelta-keys-")
        stem = Path(self._directory.name) / f"{self._files}"
        self._files += 1
        hashes, keys = stem.with_suffix(".hashes"), stem.with_suffix(".keys")
        schema = pa.schema([("key", _TEXT)])
        with (
            hashes.open("wb") as out,
            pa.OSFile(str(keys), "wb") as sink,
            pa.ipc.new_file(sink, schema) as writer,
        ):
            for piece in pieces:
                out.write(piece.hashes.tobytes())
                writer.write_table(pa.table([piece.keys], schema=schema))
        mapped = pa.ipc.open_file(pa.memory_map(str(keys))).read_all().column("key")
        return _Run(np.memmap(hashes, np.uint64, "r"), mapped, spilled=True)


def _buckets(runs: list[_Run]) -> Iterator[_Run]:
    """Merge runs piece by piece, each piece small enough to be sorted in memory."""
    edges = (np.arange(1, _MERGE_BUCKETS, dtype=np.uint64)) << np.uint64(64 - _MERGE_BUCKET_BITS)
    cuts = [[0, *np.searchsorted(r.hashes, edges).tolist(), len(r.hashes)] for r in runs]
    for bucket in range(_MERGE_BUCKETS):
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
    keys = pa.chunked_array([chunk for run in runs for chunk in run.keys.chunks], _TEXT)
    order = np.argsort(hashes, kind="stable")
    sorted_keys = keys.combine_chunks().take(from_numpy(order))
    return _Run(hashes[order], pa.chunked_array([sorted_keys]))


class _Bloom:
    """A blocked Bloom filter: each key sets a few bits of one 64-bit word."""

    def __init__(self, capacity: int, false_positive_rate: float) -> None:
        self._rate = false_positive_rate
        self._capacity = capacity
        # Half as many bits again as the textbook says, for the blocks fill unevenly.
        bits = 1.5 * capacity * -math.log(false_positive_rate) / math.log(2) ** 2
        self._shift = np.uint64(64 - max(1, math.ceil(math.log2(max(bits, 128) / 64))))
        self._words = np.zeros(1 << (64 - int(self._shift)), np.uint64)

    @property
    def nbytes(self) -> int:
        return self._words.nbytes

    def has_room(self, keys: int) -> bool:
        return keys <= self._capacity

    def larger(self, keys: int) -> _Bloom:
        return _Bloom(keys, self._rate)

    def add(self, hashes: np.ndarray) -> None:
        np.bitwise_or.at(self._words, hashes >> self._shift, _bits(hashes))

    def may_contain(self, hashes: np.ndarray) -> np.ndarray:
        bits = _bits(hashes)
        return (self._words[hashes >> self._shift] & bits) == bits


def _bits(hashes: np.ndarray) -> np.ndarray:
    """Return four of 64 bits for each hash, taken from its low end (the block is its high end)."""
    bits = np.zeros(len(hashes), np.uint64)
    for shift in (0, 6, 12, 18):
        bits |= np.uint64(1) << ((hashes >> np.uint64(shift)) & np.uint64(63))
    return bits
