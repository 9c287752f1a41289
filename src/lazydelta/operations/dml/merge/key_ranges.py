"""Whether keys of a source may be in a file, from the bounds in its statistics.

Exact for all types but strings and binaries. Those are compared by some of their bytes: a file may
be kept that could have been ruled out, never the reverse.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lazydelta._arrow import from_numpy, to_mask, true_mask
from lazydelta.operations.dml.merge import tuning
from lazydelta.operations.dml.merge.key_hash import BinaryColumn, is_bytes, key_column, plain_array

__all__ = ["KeyRange"]

_WORD = 8
_SIGN = np.int64(-1 << 63)


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The sorted values of one key column of a source."""

    sort_keys: np.ndarray
    """Sort keys in order, of values that are not null."""
    prefix: pa.Scalar | None
    """Bytes that all strings start with, left out of their sort keys; None for other types."""
    width: int
    """Words in the sort key of a string."""
    has_null: bool
    has_nan: bool
    """Statistics may leave out NaN, so then no file is ruled out."""

    @classmethod
    def build(cls, keys: pa.Array, rows: np.ndarray | None) -> KeyRange:
        """Return the range of the given rows of a column of `plain_array`; of all without them."""
        if rows is not None:
            keys = keys.take(from_numpy(rows))
        if pt.is_dictionary(keys.type):
            keys = plain_array(keys.unique().dictionary_decode())
        values = keys.drop_null() if keys.null_count else keys
        has_nan = pt.is_floating(values.type) and bool(pc.any(pc.is_nan(values)).as_py())
        prefix = _common_prefix(values)
        width = tuning.SORT_KEY_BYTES // (_WORD * max(1, len(values)))
        width = max(1, min(width, tuning.SORT_KEY_WORDS))
        sort_keys = _sort_keys(values, prefix, width)
        sort_keys.sort()
        return cls(sort_keys, prefix, width, keys.null_count > 0, has_nan)

    def may_overlap(
        self, lower: pa.Array | None, upper: pa.Array | None, may_have_null: pa.Array | None
    ) -> np.ndarray | None:
        """Return for each file whether one of the keys may be in it; None if in all."""
        known = lower if lower is not None else upper
        if known is None or self.has_nan or (self.has_null and may_have_null is None):
            return None
        first = np.zeros(len(known), np.int64)
        end = np.full(len(known), len(self.sort_keys))
        if lower is not None:
            first = self._search(lower, "left", unknown=0)
        if upper is not None:
            end = self._search(upper, "right", unknown=len(self.sort_keys))
        found: np.ndarray = first < end
        if self.has_null:
            found |= ~true_mask(pc.invert(may_have_null))
        return found

    def _search(
        self, bounds: pa.Array, side: Literal["left", "right"], *, unknown: int
    ) -> np.ndarray:
        """Return how many keys are before each bound (left), or not after it (right)."""
        bounds = plain_array(bounds)
        sort_keys = _sort_keys(bounds, self.prefix, self.width)
        counts = np.searchsorted(self.sort_keys, sort_keys, side)
        if self.prefix is not None:
            starts = pc.binary_slice(bounds, 0, _length(self.prefix))
            prefix = self.prefix.cast(bounds.type)
            counts[true_mask(pc.less(starts, prefix))] = 0
            counts[true_mask(pc.greater(starts, prefix))] = len(self.sort_keys)
        is_unknown = bounds.is_null(nan_is_null=pt.is_floating(bounds.type))
        counts[to_mask(is_unknown)] = unknown
        return counts


def _sort_keys(values: pa.Array, prefix: pa.Scalar | None, width: int) -> np.ndarray:
    """Return a new array in which numpy compares as Spark compares the values."""
    column = key_column(values).values
    if not isinstance(column, BinaryColumn):
        if pt.is_floating(values.type):
            return column.words[0].view(np.float64)
        if len(column.words) == 1:
            return column.words[0].copy()
        high, *others = reversed(column.words)
        return _as_bytes(np.column_stack([high ^ _SIGN, *others]).astype(">i8"))
    skip = 0 if prefix is None else _length(prefix)
    words = np.empty((len(values), width), np.dtype("<u8"))
    for start in range(0, len(values), tuning.HASHED_ROWS):
        stop = min(start + tuning.HASHED_ROWS, len(values))
        words[start:stop] = column.padded(start, stop, skip=skip, width=width)
    if width == 1:  # integers are sorted much faster
        return words[:, 0].byteswap(inplace=True)
    return _as_bytes(words)


def _as_bytes(words: np.ndarray) -> np.ndarray:
    """Return each row of words as bytes, which numpy compares one by one."""
    return words.view(f"S{_WORD * words.shape[1]}")[:, 0]


def _common_prefix(values: pa.Array) -> pa.Scalar | None:
    """Return the bytes that all strings start with; None for other types, or without values."""
    if not len(values) or not is_bytes(values.type):
        return None
    extremes = pc.min_max(values)
    low, high = extremes["min"].as_py(), extremes["max"].as_py()
    pairs = enumerate(zip(low, high, strict=False))
    length = next((index for index, (a, b) in pairs if a != b), len(low))
    return pc.binary_slice(extremes["min"], 0, length)


def _length(value: pa.Scalar) -> int:
    return len(value.as_py())
