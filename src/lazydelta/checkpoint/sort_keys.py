"""Which add of a checkpoint comes before which: by partition, leading columns, then path.

A total order over whole values, null first and NaN last. Almost always numbers decide it, which
sort quickly and are all that has to stay in memory: a rank for the partition, and two numbers that
never contradict the columns after it (a text gives its first bytes). Rows that agree in those are
told apart by the values themselves, and nothing else has to be looked at. Pure: columns in, places
out.
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

__all__ = ["LEAST", "Partitions", "PlainRow", "Ties", "plain", "sort_numbers"]

LEAST = int(np.iinfo(np.int64).min)
"""The number of a null; nothing is before it."""
_WORD = 8

PlainRow = tuple[tuple[bool, Any], ...]
"""Values of one row as Python compares them, null first."""


@dataclass(slots=True)
class Ties:
    """Rows in order as far as some numbers tell, and which of them these do not tell apart.

    Args:
        order: The rows.
        same: Whether each row of the order, but the first, agrees with the one before it.
    """

    order: np.ndarray
    same: np.ndarray

    @classmethod
    def by_numbers(cls, first: np.ndarray, second: np.ndarray, third: np.ndarray) -> Ties:
        """Sort rows by three numbers, the first counts most; `first` is small and not below 0.

        The first, as much of the second as there is room for, and the row are packed into one word:
        words are sorted in a third of the time in which places are.
        """
        row_bits = max(len(first) - 1, 0).bit_length()
        room = min(64 - row_bits - int(first.max(initial=0)).bit_length(), 63)
        low, high = (int(second.min()), int(second.max())) if len(second) else (0, 0)
        lost = max((high - low).bit_length() - room, 0)
        words = second.astype(np.uint64)  # what is below 0 wraps, and the difference is right
        words -= np.uint64(low % 2**64)
        words >>= np.uint64(lost)
        words |= first.astype(np.uint64) << np.uint64(room)
        words <<= np.uint64(row_bits)
        words |= np.arange(len(words), dtype=np.uint64)
        words.sort()
        order = (words & np.uint64(2**row_bits - 1)).astype(np.int32)  # rows of one table: small
        words >>= np.uint64(row_bits)
        found = cls(order, words[1:] == words[:-1])
        if lost:
            found = found.told_apart(lambda rows: second[rows])
        return found.told_apart(lambda rows: third[rows])

    def told_apart(self, numbers_of: Callable[[np.ndarray], np.ndarray]) -> Ties:
        """Sort rows that agree by one more number, which only these are asked for."""
        if not self.same.any():
            return self
        agrees = np.zeros(len(self.order) + 1, np.bool_)
        agrees[1:-1] = self.same
        at = np.flatnonzero(agrees[1:] | agrees[:-1])
        group = np.cumsum(~agrees[:-1])[at]
        rows = self.order[at]
        numbers = numbers_of(rows)
        inner = np.lexsort((numbers, group))
        order, numbers = self.order.copy(), numbers[inner]
        order[at] = rows[inner]
        still = (group[1:] == group[:-1]) & (numbers[1:] == numbers[:-1])
        same = np.zeros_like(self.same)
        same[at[1:][still] - 1] = True
        return Ties(order, same)

    def by_values(self, columns: Sequence[pa.Array]) -> Ties:
        """Sort rows that agree by whole values, one column after the other."""
        found = self
        for column in columns:
            found = found.told_apart(partial(_dense_ranks, column))
        return found


@dataclass(slots=True)
class Partitions:
    """The combinations of partition values met so far, each with a number."""

    _known: dict[PlainRow, int] = field(default_factory=dict)
    _ranks: np.ndarray | None = None

    def codes(self, columns: Sequence[pa.Array], rows: int) -> np.ndarray:
        """Return the number of each row's combination."""
        places = np.zeros(rows, np.int64)
        met: list[PlainRow] = [()]
        for column in columns:
            encoded = column.dictionary_encode(null_encoding="encode")
            values = plain(encoded.dictionary)
            both = places * len(values) + to_numpy(encoded.indices)
            if len(met) == 1:  # all values occur
                places, met = both, [(*met[0], value) for value in values]
                continue
            # Few combinations occur, however many there might be: numbers never grow too large.
            distinct, places = np.unique(both, return_inverse=True)
            pairs = (divmod(pair, len(values)) for pair in distinct.tolist())
            met = [(*met[before], values[value]) for before, value in pairs]
        return np.array([self.code(row) for row in met], np.int32)[places]

    def code(self, row: PlainRow) -> int:
        """Return the number of a combination; a new one gets the next."""
        code = self._known.setdefault(row, len(self._known))
        if self._ranks is not None and code >= len(self._ranks):
            self._ranks = None
        return code

    def ranks(self) -> np.ndarray:
        """Return the place of each number in the order of the values, null first."""
        if self._ranks is None:
            self._ranks = np.empty(len(self._known), np.int32)
            for rank, row in enumerate(sorted(self._known)):
                self._ranks[self._known[row]] = rank
        return self._ranks


def sort_numbers(columns: Sequence[pa.Array]) -> tuple[np.ndarray, np.ndarray]:
    """Return two numbers for each row that never contradict the order of the columns.

    They are of the first two columns; of the first alone if that is a text, of which more bytes
    tell more, or a decimal, which a number only comes near to.

    >>> first, second = sort_numbers([pa.array([7, None, 7]), pa.array(["b", "z", "a"])])
    >>> np.lexsort((second, first)).tolist()
    [1, 2, 0]
    """
    column = columns[0]
    if _is_text(column.type):
        first, second = _words(column, 2)
    elif pa.types.is_decimal(column.type) or len(columns) == 1:
        first, second = _number(column), np.zeros(len(column), np.int64)
    else:
        first, second = _number(column), _number(columns[1])
        # A null and the least of all integers have one number: what follows must not part them.
        second = np.where(first == LEAST, 0, second)
    return first, second


def plain(values: pa.Array) -> list[tuple[bool, Any]]:
    """Return values that Python compares in their order, null first; moments as numbers.

    >>> sorted(plain(pa.array([float("nan"), None, -1.0]))) == plain(
    ...     pa.array([None, -1.0, float("nan")])
    ... )
    True
    """
    kind = values.type
    if pa.types.is_timestamp(kind) or pa.types.is_date32(kind):
        values = values.view(pa.int64() if pa.types.is_timestamp(kind) else pa.int32())
    if pa.types.is_floating(kind):
        valid = to_mask(values.is_valid()).tolist()
        return list(zip(valid, _number(values).tolist(), strict=True))
    if pa.types.is_string(kind):
        values = values.cast(pa.binary())  # in the order of bytes, as every engine compares them
    return [(value is not None, value) for value in values.to_pylist()]


def _number(values: pa.Array) -> np.ndarray:
    """Return numbers that never contradict the order of the values."""
    kind = values.type
    if values.null_count == len(values):
        return np.full(len(values), LEAST)
    if _is_text(kind):
        (numbers,) = _words(values, 1)
    elif pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        numbers = _of_floats(values.cast(pa.float64()))
    else:
        whole = values.cast(pa.int32()) if pa.types.is_date32(kind) else values
        numbers = to_numpy(whole.cast(pa.int64()))
    # What stands in the place of a null means nothing.
    return np.where(to_mask(values.is_null()), LEAST, numbers) if values.null_count else numbers


def _of_floats(values: pa.Array) -> np.ndarray:
    floats = to_numpy(values) + 0.0  # of the two zeros one is left
    raw = np.where(np.isnan(floats), np.nan, floats).view(np.int64)
    return raw ^ ((raw >> 63) & np.iinfo(np.int64).max)


def _words(values: pa.Array, count: int) -> list[np.ndarray]:
    """Return the first bytes of texts as so many numbers."""
    width = count * _WORD
    short = pc.binary_slice(values.cast(pa.binary()), 0, width)
    if short.null_count:
        short = pc.coalesce(short, string_scalar("").cast(pa.binary()))
    padded = pc.ascii_rpad(short.cast(pa.string(), safe=False), width, "\0")
    words = np.frombuffer(padded.buffers()[2] or b"", ">u8", count * len(padded)).astype(np.uint64)
    signed = (words ^ np.uint64(1 << 63)).view(np.int64)
    return [signed[at::count] for at in range(count)]


def _dense_ranks(column: pa.Array, rows: np.ndarray) -> np.ndarray:
    values = column.take(from_numpy(rows))
    if values.null_count == len(values):
        return np.zeros(len(values), np.int64)
    if pa.types.is_floating(column.type):
        return _number(values)  # `rank` would leave the place of NaN to the version of Arrow
    ranks = to_numpy(pc.rank(values, tiebreaker="dense")).astype(np.int64)
    return np.where(to_mask(values.is_null()), 0, ranks) if values.null_count else ranks


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))
