"""The sort order of adds in a checkpoint: by partition, sort columns, then path.

It is a total order over values: nulls first, NaN last. Integer keys decide it almost always; they
sort fast, and only they stay in memory. A row has three: the rank of its partition, and two keys
that never contradict the columns after it (a string gives its first bytes). Rows with equal keys
are ties, which the values themselves break. Pure: columns in, positions out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import from_numpy, string_scalar, to_mask, to_numpy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = [
    "NULL_KEY",
    "ComparableRow",
    "PartitionCodes",
    "SortOrder",
    "comparable_values",
    "sort_keys",
]

NULL_KEY = int(np.iinfo(np.int64).min)
"""The key of a null; no key is less."""
_BYTES_PER_KEY = 8

ComparableRow = tuple[tuple[bool, Any], ...]
"""The values of a row in a form that Python compares in sort order, nulls first."""


@dataclass(slots=True)
class SortOrder:
    """Rows sorted by some keys, and which of them these keys do not separate.

    Args:
        rows: The row numbers, sorted.
        ties: Whether each sorted row except the first ties with the row before it.
    """

    rows: np.ndarray
    ties: np.ndarray

    @classmethod
    def by_keys(cls, first: np.ndarray, second: np.ndarray, third: np.ndarray) -> SortOrder:
        """Sort rows by three integer keys, most significant first; `first` is small and >= 0.

        `first`, as many bits of `second` as fit, and the row number are packed into one word:
        sorting words takes a third of the time of an argsort.
        """
        row_bits = max(len(first) - 1, 0).bit_length()
        second_bits = min(64 - row_bits - int(first.max(initial=0)).bit_length(), 63)
        low, high = (int(second.min()), int(second.max())) if len(second) else (0, 0)
        lost_bits = max((high - low).bit_length() - second_bits, 0)
        words = second.astype(np.uint64)  # negative keys wrap, and the difference is right
        words -= np.uint64(low % 2**64)
        words >>= np.uint64(lost_bits)
        words |= first.astype(np.uint64) << np.uint64(second_bits)
        words <<= np.uint64(row_bits)
        words |= np.arange(len(words), dtype=np.uint64)
        words.sort()
        rows = (words & np.uint64(2**row_bits - 1)).astype(np.int32)
        words >>= np.uint64(row_bits)
        order = cls(rows, words[1:] == words[:-1])
        if lost_bits:
            order = order.break_ties(lambda tied: second[tied])
        return order.break_ties(lambda tied: third[tied])

    def break_ties(self, keys_of: Callable[[np.ndarray], np.ndarray]) -> SortOrder:
        """Sort tied rows by one more key, which is computed for these rows only."""
        if not self.ties.any():
            return self
        is_tied = np.zeros(len(self.rows) + 1, np.bool_)
        is_tied[1:-1] = self.ties
        positions = np.flatnonzero(is_tied[1:] | is_tied[:-1])
        groups = np.cumsum(~is_tied[:-1])[positions]
        tied = self.rows[positions]
        keys = keys_of(tied)
        inner = np.lexsort((keys, groups))
        rows, keys = self.rows.copy(), keys[inner]
        rows[positions] = tied[inner]
        still_tied = (groups[1:] == groups[:-1]) & (keys[1:] == keys[:-1])
        ties = np.zeros_like(self.ties)
        ties[positions[1:][still_tied] - 1] = True
        return SortOrder(rows, ties)

    def break_ties_by_values(self, columns: Sequence[pa.Array]) -> SortOrder:
        """Sort tied rows by the values of columns, most significant first."""
        order = self
        for column in columns:
            order = order.break_ties(partial(_dense_ranks, column))
        return order


@dataclass(slots=True)
class PartitionCodes:
    """A code for each partition (combination of partition values) in order of appearance."""

    _codes: dict[ComparableRow, int] = field(default_factory=dict)
    _ranks: np.ndarray | None = None

    def encode(self, columns: Sequence[pa.Array], rows: int) -> np.ndarray:
        """Return the code of each row's partition."""
        indices = np.zeros(rows, np.int64)
        partitions: list[ComparableRow] = [()]
        for column in columns:
            encoded = column.dictionary_encode(null_encoding="encode")
            values = comparable_values(encoded.dictionary)
            pairs = indices * len(values) + to_numpy(encoded.indices)
            if len(partitions) == 1:  # all values occur
                indices, partitions = pairs, [(*partitions[0], value) for value in values]
                continue
            # Only combinations that occur are numbered, so the products stay small.
            distinct, indices = np.unique(pairs, return_inverse=True)
            split = (divmod(pair, len(values)) for pair in distinct.tolist())
            partitions = [(*partitions[outer], values[inner]) for outer, inner in split]
        return np.array([self.code(partition) for partition in partitions], np.int32)[indices]

    def code(self, partition: ComparableRow) -> int:
        """Return the code of a partition; a new one gets the next."""
        code = self._codes.setdefault(partition, len(self._codes))
        if self._ranks is not None and code >= len(self._ranks):
            self._ranks = None
        return code

    def ranks(self) -> np.ndarray:
        """Return the rank of each code in the order of partition values, nulls first."""
        if self._ranks is None:
            self._ranks = np.empty(len(self._codes), np.int32)
            for rank, partition in enumerate(sorted(self._codes)):
                self._ranks[self._codes[partition]] = rank
        return self._ranks


def sort_keys(columns: Sequence[pa.Array]) -> tuple[np.ndarray, np.ndarray]:
    """Return two integer keys for each row that never contradict the order of the columns.

    They represent the first two columns, or only the first if it is a string, of which more bytes
    separate more rows, or a decimal, which a key only approximates.

    >>> first, second = sort_keys([pa.array([7, None, 7]), pa.array(["b", "z", "a"])])
    >>> np.lexsort((second, first)).tolist()
    [1, 2, 0]
    """
    column = columns[0]
    if _is_string_or_binary(column.type):
        first, second = _prefix_keys(column, 2)
    elif pa.types.is_decimal(column.type) or len(columns) == 1:
        first, second = _key(column), np.zeros(len(column), np.int64)
    else:
        first, second = _key(column), _key(columns[1])
        # A null and the least integer share a key: the second key must not separate them.
        second = np.where(first == NULL_KEY, 0, second)
    return first, second


def comparable_values(values: pa.Array) -> list[tuple[bool, Any]]:
    """Return values in a form that Python compares in sort order; timestamps as integers.

    >>> sorted(comparable_values(pa.array([float("nan"), None, -1.0]))) == comparable_values(
    ...     pa.array([None, -1.0, float("nan")])
    ... )
    True
    """
    data_type = values.type
    if pa.types.is_timestamp(data_type) or pa.types.is_date32(data_type):
        values = values.view(pa.int64() if pa.types.is_timestamp(data_type) else pa.int32())
    if pa.types.is_floating(data_type):
        valid = to_mask(values.is_valid()).tolist()
        return list(zip(valid, _key(values).tolist(), strict=True))
    if pa.types.is_string(data_type):
        values = values.cast(pa.binary())  # every engine compares strings by their UTF-8 bytes
    return [(value is not None, value) for value in values.to_pylist()]


def _key(values: pa.Array) -> np.ndarray:
    """Return integer keys that never contradict the order of the values."""
    data_type = values.type
    if values.null_count == len(values):
        return np.full(len(values), NULL_KEY)
    if _is_string_or_binary(data_type):
        (keys,) = _prefix_keys(values, 1)
    elif pa.types.is_floating(data_type) or pa.types.is_decimal(data_type):
        keys = _float_keys(values.cast(pa.float64()))
    else:
        castable = values.cast(pa.int32()) if pa.types.is_date32(data_type) else values
        keys = to_numpy(castable.cast(pa.int64()))
    # The buffer holds anything where a value is null.
    return np.where(to_mask(values.is_null()), NULL_KEY, keys) if values.null_count else keys


def _float_keys(values: pa.Array) -> np.ndarray:
    floats = to_numpy(values) + 0.0  # -0.0 becomes 0.0
    raw = np.where(np.isnan(floats), np.nan, floats).view(np.int64)
    return raw ^ ((raw >> 63) & np.iinfo(np.int64).max)


def _prefix_keys(values: pa.Array, count: int) -> list[np.ndarray]:
    """Return the first bytes of strings as `count` integer keys."""
    width = count * _BYTES_PER_KEY
    prefixes = pc.binary_slice(values.cast(pa.binary()), 0, width)
    if prefixes.null_count:
        prefixes = pc.coalesce(prefixes, string_scalar("").cast(pa.binary()))
    padded = pc.ascii_rpad(prefixes.cast(pa.string(), safe=False), width, "\0")
    words = np.frombuffer(padded.buffers()[2] or b"", ">u8", count * len(padded)).astype(np.uint64)
    signed = (words ^ np.uint64(1 << 63)).view(np.int64)
    return [signed[key::count] for key in range(count)]


def _dense_ranks(column: pa.Array, rows: np.ndarray) -> np.ndarray:
    values = column.take(from_numpy(rows))
    if values.null_count == len(values):
        return np.zeros(len(values), np.int64)
    if pa.types.is_floating(column.type):
        return _key(values)  # where `rank` puts NaN depends on the Arrow version
    ranks = to_numpy(pc.rank(values, tiebreaker="dense")).astype(np.int64)
    return np.where(to_mask(values.is_null()), 0, ranks) if values.null_count else ranks


def _is_string_or_binary(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_string(data_type) or pa.types.is_binary(data_type))
