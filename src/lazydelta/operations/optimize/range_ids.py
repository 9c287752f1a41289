"""Range ids: which of many ranges of equal row counts a value falls into. No I/O.

Ranges come from a sample. A range id says where a value is in the distribution of its column, so
columns of any type and skew are comparable, which a space-filling curve needs. A value that fills
several ranges has the id in their middle (its mid-rank): half of its ranges lie between it and each
neighbour, so that the curve meets it apart from other values, and files do not mix them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lazydelta._arrow import to_mask
from lazydelta.operations.optimize.curves import bits_of, curve_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lazydelta.operations.optimize.curves import Curve

__all__ = ["CurveRanges", "common_prefix", "key_column", "order_keys"]

_PREFIX_BYTES = 8


@dataclass(frozen=True, slots=True)
class _Ranges:
    """Upper bounds of the ranges of one column."""

    bounds: np.ndarray
    prefix: bytes
    """Bytes that the strings of the sample have in common."""
    nulls: int
    """How many ranges nulls fill: the first ones."""
    has_ties: bool
    """Whether a value fills several ranges."""

    @classmethod
    def of(cls, sample: pa.Array, count: int) -> _Ranges:
        prefix = common_prefix(sample)
        nulls = min(count * sample.null_count // max(len(sample), 1), count - 1)
        ordered = np.sort(order_keys(sample.drop_null(), prefix))
        if len(ordered):
            others = count - nulls
            ordered = ordered[np.arange(1, others) * len(ordered) // others]
        return cls(ordered, prefix, nulls, bool((ordered[1:] == ordered[:-1]).any()))

    def ids(self, values: pa.Array) -> np.ndarray:
        keys = order_keys(values, self.prefix)
        found = np.searchsorted(self.bounds, keys, "right")
        if self.has_ties:
            found = (found + np.searchsorted(self.bounds, keys, "left")) // 2
        found += self.nulls
        if values.null_count:
            found[~to_mask(values.is_valid())] = self.nulls // 2
        return found


@dataclass(frozen=True, slots=True)
class CurveRanges:
    """Ranges of all clustering columns, and the curve through them."""

    paths: tuple[tuple[str, ...], ...]
    columns: tuple[_Ranges, ...]
    curve: Curve

    @classmethod
    def of(
        cls, sample: Sequence[pa.RecordBatch], paths: Sequence[tuple[str, ...]], curve: Curve
    ) -> CurveRanges:
        """Return the ranges of a sample of rows."""
        count = 1 << bits_of(len(paths))
        columns = (
            _Ranges.of(pa.concat_arrays([key_column(batch, path) for batch in sample]), count)
            for path in paths
        )
        return cls(tuple(paths), tuple(columns), curve)

    def keys(self, batch: pa.RecordBatch) -> np.ndarray:
        """Return the position of each row on the curve."""
        pairs = zip(self.columns, self.paths, strict=True)
        ids = [ranges.ids(key_column(batch, path)) for ranges, path in pairs]
        return curve_keys(ids, self.curve)


def key_column(batch: pa.RecordBatch, path: tuple[str, ...]) -> pa.Array:
    """Return a column or a field of structs; a field of a null struct is null."""
    values = batch.column(path[0])
    for name in path[1:]:
        values = pc.struct_field(values, [values.type.get_field_index(name)])
    return values


def order_keys(values: pa.Array, prefix: bytes = b"") -> np.ndarray:
    """Return numbers in the order of the values; those of nulls are arbitrary.

    Strings are compared by the bytes that follow the prefix, decimals approximately: both only
    decide where a row is stored.
    """
    kind = values.type
    if pt.is_dictionary(kind):
        return order_keys(values.dictionary_decode(), prefix)
    if _has_bytes(kind):
        return _byte_keys(values, prefix)
    if pt.is_boolean(kind) or pt.is_decimal(kind):
        values = values.cast(pa.int8() if pt.is_boolean(kind) else pa.float64())
    elif pt.is_temporal(kind):
        values = values.cast(pa.int32() if pt.is_date32(kind) else pa.int64())
    numbers = values.fill_null(0).to_numpy(zero_copy_only=False)
    if numbers.dtype.kind == "f":  # NaN is the greatest value
        numbers = np.where(np.isnan(numbers), np.inf, numbers)
    return numbers


def _has_bytes(kind: pa.DataType) -> bool:
    return pt.is_string(kind) or pt.is_binary(kind)


def common_prefix(values: pa.Array) -> bytes:
    """Return the bytes that all strings start with; none for other types."""
    if not _has_bytes(values.type):
        return b""
    low, high = (bound.as_py() for bound in pc.min_max(values.cast(pa.binary())).values())
    if low is None:
        return b""
    pairs = enumerate(zip(low, high, strict=False))
    same = next((at for at, (a, b) in pairs if a != b), min(len(low), len(high)))
    return bytes(low[:same])


def _byte_keys(values: pa.Array, prefix: bytes) -> np.ndarray:
    """Return the bytes after the prefix as numbers; the ends for values without the prefix."""
    values = values.cast(pa.binary())
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
    content = np.frombuffer(data or b"\0", np.uint8)
    content = content if len(content) else np.zeros(1, np.uint8)
    starts = ends[:-1] + len(prefix)
    lengths = ends[1:] - starts
    keys = np.zeros(len(values), np.uint64)
    for index in range(_PREFIX_BYTES):
        byte = content[np.minimum(starts + index, len(content) - 1)]
        keys = (keys << np.uint64(8)) | np.where(lengths > index, byte, 0).astype(np.uint64)
    if prefix:
        scalar = pa.scalar(prefix, pa.binary())
        other = pc.invert(pc.starts_with(values, prefix))
        if pc.any(other).as_py():
            below = pc.and_(other, pc.less(values, scalar))
            keys[to_mask(other.fill_null(False))] = np.iinfo(np.uint64).max
            keys[to_mask(below.fill_null(False))] = 0
    return keys
