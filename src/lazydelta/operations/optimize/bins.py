"""Bins: files of one partition that are rewritten together. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import from_numpy, string_scalar, to_numpy
from lazydelta.operations.dml.row_deletion import total_size
from lazydelta.operations.optimize import tuning
from lazydelta.scan.plan import partition_strings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lazydelta.snapshot import SnapshotState

__all__ = ["Bin", "batched", "fitting", "group_codes", "pack", "partition_codes", "within"]

_EMPTY = string_scalar("")


@dataclass(frozen=True, slots=True)
class Bin:
    """Files to rewrite together, as add actions in the schema of `FILES`."""

    files: pa.Table
    round: int = 0
    """How often it was rewritten and not committed."""

    @property
    def size(self) -> int:
        """Total size of the files."""
        return total_size(self.files)

    @property
    def average_size(self) -> float:
        """Average size of a file."""
        return self.size / self.files.num_rows

    @property
    def is_useful(self) -> bool:
        """Whether a rewrite gains anything: fewer files, or a deletion vector less."""
        return self.files.num_rows > 1 or not self.files.column("deletionVector").null_count


def partition_codes(snapshot: SnapshotState, files: pa.Table) -> np.ndarray:
    """Return a number for each file: equal for files of one partition."""
    names = snapshot.partition_columns
    if not names or not files.num_rows:
        return np.zeros(files.num_rows, np.int64)
    values = files.column("partitionValues").combine_chunks()
    return group_codes(partition_strings(snapshot, values, names).values())


def group_codes(columns: Iterable[pa.StringArray]) -> np.ndarray:
    """Return the number of each row's partition, from the strings of its partition values.

    >>> group_codes([pa.array(["b", "a", "b"]), pa.array([None, None, ""])]).tolist()
    [0, 1, 0]
    """
    codes: np.ndarray | int = 0
    for strings in columns:
        # The protocol has two spellings of null: the empty string is the other.
        coded = pc.coalesce(strings, _EMPTY).dictionary_encode()
        combined = codes * len(coded.dictionary) + to_numpy(coded.indices)
        codes = np.unique(combined, return_inverse=True)[1]
    return np.asarray(codes)


def pack(snapshot: SnapshotState, files: pa.Table, target: int) -> list[Bin]:
    """Pack files into bins of one partition and at most the target size.

    Files keep the order in which they were written, so that rows written together stay together.
    A larger file is a bin of its own.
    """
    if not files.num_rows:
        return []
    codes = partition_codes(snapshot, files)
    times = pc.coalesce(files.column("modificationTime"), from_numpy(np.zeros(1, np.int64))[0])
    order = np.lexsort((to_numpy(times.combine_chunks()), codes))
    files, codes = files.take(from_numpy(order)).combine_chunks(), codes[order]
    ends = np.cumsum(to_numpy(files.column("size").combine_chunks()))
    borders = np.append(np.flatnonzero(np.diff(codes)) + 1, len(codes))
    bins, start = [], 0
    for border in borders.tolist():
        while start < border:
            before = int(ends[start - 1]) if start else 0
            end = int(np.searchsorted(ends, before + target, "right"))
            end = min(max(end, start + 1), border)
            bins.append(Bin(files.slice(start, end - start)))
            start = end
    return bins


def within(bins: Sequence[Bin], max_bytes: int | None) -> Iterable[Bin]:
    """Return the bins to rewrite with at most so many bytes: those with the smallest files."""
    if max_bytes is None:
        return bins
    return fitting(sorted(bins, key=lambda one: one.average_size), max_bytes)


def fitting(bins: Iterable[Bin], max_bytes: int) -> Iterator[Bin]:
    """Yield bins, the first ones first, of at most so many bytes in total."""
    left = max_bytes
    for one in bins:
        if one.size <= left:
            left -= one.size
            yield one


def batched(bins: Iterable[Bin], batch_bytes: int) -> Iterator[list[Bin]]:
    """Yield bins in batches of about so many bytes, or of very many files; each is one commit."""
    batch: list[Bin] = []
    size = files = 0
    for one in bins:
        is_full = size + one.size > batch_bytes or files > tuning.BATCH_FILES
        if batch and is_full:
            yield batch
            batch, size, files = [], 0, 0
        batch.append(one)
        size += one.size
        files += one.files.num_rows
    if batch:
        yield batch
