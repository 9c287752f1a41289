"""Key columns as 64-bit words: hashed and compared by the equality of Spark, without a row loop.

Two values are equal if their words are: -0.0 and 0.0 have the same words, and so have all NaNs.
Strings and binaries have a word for every eight bytes, the last one padded with zeros, and their
length. A null equals a null here; `key_index` leaves out nulls where SQL's `=` compares.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from lazydelta._arrow import to_mask

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "BinaryColumn",
    "KeyColumn",
    "WordColumn",
    "equal_rows",
    "hash_rows",
    "is_bytes",
    "key_column",
    "mix",
    "plain_array",
]

_MULTIPLIERS = np.array([0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93], np.uint64)
_NULL_HASH = np.uint64(0x2545F4914F6CDD1D)
_WORD = 8
_INT64_DIGITS = 18
"""Digits of the largest decimals whose unscaled value is always a 64-bit integer."""


@dataclass(frozen=True, slots=True)
class WordColumn:
    """Values of a fixed number of words, each an array of integers with one entry a row."""

    words: tuple[np.ndarray, ...]

    def hash(self, start: int, stop: int) -> np.ndarray:
        """Return the hash of each value from row `start` to `stop`."""
        first, *others = (_unsigned(words[start:stop]) for words in self.words)
        hashes = mix(first)
        for words in others:
            hashes = mix(hashes ^ words)
        return hashes

    def equal(self, rows: np.ndarray, other: Any, other_rows: np.ndarray) -> np.ndarray:
        """Return for each pair of rows whether the values are equal."""
        same = np.ones(len(rows), np.bool_)
        for mine, others in zip(self.words, other.words, strict=True):
            same &= mine[rows] == others[other_rows]
        return same


@dataclass(frozen=True, slots=True)
class BinaryColumn:
    """Strings or binaries: offsets into one buffer."""

    offsets: np.ndarray
    data: np.ndarray
    """The word at each byte of the buffer: overlapping views, not copies."""

    @classmethod
    def build(cls, values: pa.Array) -> BinaryColumn:
        """Return the column of a binary array of `plain_array`."""
        _, offset_buffer, buffer = values.buffers()
        dtype = np.dtype(np.int64 if pt.is_large_binary(values.type) else np.int32)
        offsets = np.frombuffer(offset_buffer or bytes(dtype.itemsize), dtype)
        if buffer is None or buffer.size < _WORD:
            buffer = (b"" if buffer is None else buffer.to_pybytes()).ljust(_WORD, b"\0")
        data = np.ndarray((len(memoryview(buffer)) - _WORD + 1,), "<u8", buffer, strides=(1,))
        return cls(offsets[values.offset : values.offset + len(values) + 1], data)

    def hash(self, start: int, stop: int) -> np.ndarray:
        """Return the hash of each value from row `start` to `stop`."""
        begins = self.offsets[start:stop].astype(np.int64)
        lengths = np.diff(self.offsets[start : stop + 1]).astype(np.int64)
        hashes = mix(lengths.view(np.uint64))
        shortest, longest = (int(lengths.min()), int(lengths.max())) if len(lengths) else (0, 0)
        stride = shortest if shortest == longest else None
        for at in range(0, shortest, _WORD):
            hashes ^= self._words(begins + at, lengths - at, stride)
            hashes = mix(hashes)
        # The other words are of the longer values, fewer with each word.
        at, rows = -(-shortest // _WORD) * _WORD, np.arange(len(lengths))
        while len(rows := rows[lengths[rows] > at]):
            words = self._words(begins[rows] + at, lengths[rows] - at)
            hashes[rows] = mix(hashes[rows] ^ words)
            at += _WORD
        return hashes

    def equal(self, rows: np.ndarray, other: Any, other_rows: np.ndarray) -> np.ndarray:
        """Return for each pair of rows whether the values are equal."""
        begins, lengths = self._extents(rows)
        other_begins, other_lengths = other._extents(other_rows)  # noqa: SLF001
        same = lengths == other_lengths
        pairs, at = np.flatnonzero(same), 0
        while len(pairs := pairs[lengths[pairs] > at]):
            left = lengths[pairs] - at
            words = self._words(begins[pairs] + at, left)
            differs = words != other._words(other_begins[pairs] + at, left)  # noqa: SLF001
            same[pairs[differs]] = False
            pairs, at = pairs[~differs], at + _WORD
        return same

    def padded(self, start: int, stop: int, *, skip: int, width: int) -> np.ndarray:
        """Return `width` words of each value after `skip` bytes, zeros after its end."""
        padded = np.zeros((stop - start, width), np.dtype("<u8"))
        begins, lengths = self._extents(np.arange(start, stop))
        for word in range(width):
            at = skip + word * _WORD
            rows = np.flatnonzero(lengths > at)
            padded[rows, word] = self._words(begins[rows] + at, lengths[rows] - at)
        return padded

    def _extents(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        begins = self.offsets[rows].astype(np.int64)
        return begins, self.offsets[rows + 1] - begins

    def _words(self, begins: np.ndarray, left: np.ndarray, stride: int | None = None) -> np.ndarray:
        """Return the next word of values that have bytes left, with zeros after their end.

        Args:
            begins: The position of the word.
            left: The number of bytes from there to the end of the value; positive.
            stride: The distance of the positions, if it is always the same.
        """
        last = len(self.data) - 1
        if len(begins) and int(begins.max()) > last:
            # The buffer ends within the word: shift the word that ends with the buffer.
            words = self.data[np.minimum(begins, last)]
            words >>= (np.maximum(begins - last, 0) * 8).view(np.uint64)
        elif stride:
            words = self.data[begins[0] : begins[-1] + 1 : stride].copy()
        else:
            words = self.data[begins]
        if len(left) and int(left.min()) < _WORD:
            unused = (64 - 8 * np.minimum(left, _WORD)).view(np.uint64)
            words <<= unused
            words >>= unused
        return words


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A key column: distinct values in any order, or one a row, and which rows are null."""

    values: WordColumn | BinaryColumn
    valid: np.ndarray | None
    """Which rows are not null; None if no row is null."""
    indices: np.ndarray | None = None
    """For each row the index of its value, if the column is encoded by a dictionary."""
    value_hashes: np.ndarray | None = None
    """The hashes of the values of the dictionary."""

    @property
    def hash_is_exact(self) -> bool:
        """Whether different values that are not null always have different hashes."""
        return isinstance(self.values, WordColumn) and len(self.values.words) == 1

    def hash(self, start: int, stop: int) -> np.ndarray:
        """Return the hash of each row from `start` to `stop`."""
        if self.indices is None or self.value_hashes is None:
            hashes = self.values.hash(start, stop)
        else:
            hashes = self.value_hashes[self.indices[start:stop]]
        if self.valid is not None:
            hashes[~self.valid[start:stop]] = _NULL_HASH
        return hashes

    def value_rows(self, rows: np.ndarray) -> np.ndarray:
        """Return where the values of rows are."""
        return rows if self.indices is None else self.indices[rows]

    def is_null(self, rows: np.ndarray) -> np.ndarray:
        """Return which of the rows are null."""
        return np.zeros(len(rows), np.bool_) if self.valid is None else ~self.valid[rows]


def key_column(column: pa.Array) -> KeyColumn:
    """Return a key column as words; shares the memory of the array where it can.

    Raises:
        TypeError: Keys of this type cannot be matched: it is nested, or has no values.
    """
    column = plain_array(column)
    if not pt.is_dictionary(column.type):
        return KeyColumn(_values(column), _valid(column))
    valid, dictionary = _valid(column), plain_array(column.dictionary)
    if not len(dictionary):  # then every row is null
        dictionary = pa.nulls(1, dictionary.type)
    values, valid_values = _values(dictionary), _valid(dictionary)
    indices = _fixed(column.indices, f"i{column.type.index_type.bit_width // 8}")
    indices = indices.astype(np.int64)
    if valid is not None:
        indices[~valid] = 0
    if valid_values is not None:
        valid = valid_values[indices] if valid is None else valid & valid_values[indices]
    return KeyColumn(values, valid, indices, values.hash(0, len(dictionary)))


def hash_rows(columns: Sequence[KeyColumn], start: int, stop: int) -> np.ndarray:
    """Return a hash of the key of each row from `start` to `stop`.

    A single column with `hash_is_exact` has different hashes for different values.
    """
    hashes, *others = (column.hash(start, stop) for column in columns)
    for other in others:
        hashes = mix(mix(hashes) ^ other)
    return hashes


def equal_rows(
    left: KeyColumn, rows: np.ndarray, right: KeyColumn, right_rows: np.ndarray
) -> np.ndarray:
    """Return for each pair of rows whether their values are equal; a null equals a null."""
    is_null, right_is_null = left.is_null(rows), right.is_null(right_rows)
    same = is_null & right_is_null
    pairs = np.flatnonzero(~(is_null | right_is_null))
    rows, right_rows = left.value_rows(rows[pairs]), right.value_rows(right_rows[pairs])
    same[pairs] = left.values.equal(rows, right.values, right_rows)
    return same


def mix(words: np.ndarray) -> np.ndarray:
    """Return well distributed words; a bijection, so different words stay different."""
    mixed = words >> np.uint64(32)
    mixed ^= words
    mixed *= _MULTIPLIERS[0]
    mixed ^= mixed >> np.uint64(29)
    mixed *= _MULTIPLIERS[1]
    return mixed


def plain_array(column: pa.Array) -> pa.Array:
    """Return a column without extension types; strings and binaries as binaries with offsets."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    kind = column.type
    if pt.is_large_string(kind):
        return column.cast(pa.large_binary())
    if pt.is_binary_view(kind) or pt.is_fixed_size_binary(kind) or pt.is_string(kind):
        return column.cast(pa.binary())
    if pt.is_string_view(kind):
        return column.cast(pa.string()).cast(pa.binary())
    return column


def is_bytes(kind: pa.DataType) -> bool:
    """Whether values of a type of `plain_array` are bytes."""
    return pt.is_binary(kind) or pt.is_large_binary(kind)


def _values(column: pa.Array) -> WordColumn | BinaryColumn:
    if is_bytes(column.type):
        return BinaryColumn.build(column)
    return WordColumn(_words(column))


def _words(column: pa.Array) -> tuple[np.ndarray, ...]:
    kind = column.type
    if pt.is_boolean(kind):
        return (to_mask(column).view(np.uint8),)
    if pt.is_floating(kind):
        return (_float_words(column),)
    if pt.is_decimal128(kind) or pt.is_decimal256(kind):
        width = kind.bit_width // 64
        words = _fixed(column, f"({width},)i8")
        used = 1 if kind.precision <= _INT64_DIGITS else width
        return tuple(words[:, word] for word in range(used))
    if pt.is_unsigned_integer(kind):
        return (_fixed(column, f"u{kind.bit_width // 8}"),)
    if pt.is_interval(kind) or not pt.is_primitive(kind):
        raise TypeError(f"keys of type {kind} cannot be matched")
    return (_fixed(column, f"i{kind.bit_width // 8}"),)


def _float_words(column: pa.Array) -> np.ndarray:
    """Return the bits of doubles, the same for both zeros and for all NaNs."""
    values = _fixed(column, f"f{column.type.bit_width // 8}") + 0.0  # -0.0 becomes 0.0
    values = values.astype(np.float64)
    values[np.isnan(values)] = np.nan
    return values.view(np.int64)


def _fixed(column: pa.Array, dtype: str) -> np.ndarray:
    """Return the values of a fixed width, whatever is in the rows that are null."""
    values = np.frombuffer(column.buffers()[1] or b"", np.dtype(dtype))
    return values[column.offset : column.offset + len(column)]


def _valid(column: pa.Array) -> np.ndarray | None:
    return to_mask(column.is_valid()) if column.null_count else None


def _unsigned(words: np.ndarray) -> np.ndarray:
    if words.dtype.kind == "u":
        return words.astype(np.uint64, copy=False)
    return words.astype(np.int64, copy=False).view(np.uint64)
