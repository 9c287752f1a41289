"""Space-filling curves: the position of rows on a curve, from one range id per column. Pure.

Rows that are close on the curve are close in every column, so files that hold a segment of it have
narrow bounds in all of them.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Curve", "bits_of", "curve_keys"]

Curve = Literal["hilbert", "zorder"]

_RANGE_BITS = 10
_SINGLE_COLUMN_BITS = 16
_KEY_BITS = 60
_STEP = 5  # bits of each column that one lookup of the state table consumes


def bits_of(columns: int) -> int:
    """Return the bits of a range id; a key of all columns fits into 64 bits."""
    if columns == 1:
        return _SINGLE_COLUMN_BITS
    return min(_RANGE_BITS, _KEY_BITS // columns)


def curve_keys(ids: Sequence[np.ndarray], curve: Curve) -> np.ndarray:
    """Return the position of each row on the curve.

    Args:
        ids: The range ids of each column, of `bits_of(len(ids))` bits.
        curve: The kind of curve.
    """
    bits = bits_of(len(ids))
    if len(ids) == 1:
        return ids[0].astype(np.uint64)
    if curve == "zorder":
        return _interleaved(ids, bits)
    if len(ids) == 2 and bits % _STEP == 0:
        return _hilbert_plane(ids[0], ids[1], bits)
    return _interleaved(_transposed(ids, bits), bits)


def _interleaved(ids: Sequence[np.ndarray], bits: int) -> np.ndarray:
    """Return the bits of all columns, the highest of each first."""
    count = len(ids)
    spread = np.zeros(1 << bits, np.uint64)
    numbers = np.arange(1 << bits, dtype=np.uint64)
    for bit in range(bits):
        spread |= ((numbers >> np.uint64(bit)) & np.uint64(1)) << np.uint64(bit * count)
    keys = np.zeros(len(ids[0]), np.uint64)
    for index, column in enumerate(ids):
        keys |= spread[column] << np.uint64(count - 1 - index)
    return keys


def _hilbert_plane(x: np.ndarray, y: np.ndarray, bits: int) -> np.ndarray:
    """Return positions on the curve of two columns, by a table over states and bits."""
    table = _state_table()
    keys = np.zeros(len(x), np.uint32)
    found = np.zeros(len(x), np.uint32)
    mask = np.uint32((1 << _STEP) - 1)
    x, y = x.astype(np.uint32), y.astype(np.uint32)
    for shift in range(bits - _STEP, -1, -_STEP):
        at = (found & np.uint32(3)) << np.uint32(2 * _STEP)
        at |= ((x >> np.uint32(shift)) & mask) << np.uint32(_STEP)
        at |= (y >> np.uint32(shift)) & mask
        found = table[at]
        keys = (keys << np.uint32(2 * _STEP)) | (found >> np.uint32(2))
    return keys.astype(np.uint64)


@cache
def _state_table() -> np.ndarray:
    """Return digits and, in the last two bits, next states by state, bits of x and bits of y.

    A state is a pair of flags: whether the remaining bits are swapped, and whether they are
    inverted. Each quadrant of the curve is the whole curve, transformed by these.
    """
    at = np.arange(4 << (2 * _STEP))
    swap, flip = (at >> (2 * _STEP)) & 1, at >> (2 * _STEP + 1)
    digits = np.zeros(len(at), np.uint32)
    for bit in range(_STEP - 1, -1, -1):
        x, y = ((at >> (_STEP + bit)) & 1) ^ flip, ((at >> bit) & 1) ^ flip
        x, y = np.where(swap, y, x), np.where(swap, x, y)
        digits = (digits << np.uint32(2)) | ((3 * x) ^ y).astype(np.uint32)
        flip ^= x & ~y & 1
        swap ^= 1 - y
    return (digits << np.uint32(2)) | (swap | (flip << 1)).astype(np.uint32)


def _transposed(ids: Sequence[np.ndarray], bits: int) -> list[np.ndarray]:
    """Return columns whose interleaved bits are positions on the Hilbert curve.

    This is the algorithm of J. Skilling, "Programming the Hilbert curve" (2004), over arrays.
    """
    axes = [column.astype(np.uint32) for column in ids]
    for shift in range(bits - 1, 0, -1):
        bit, low = np.uint32(1 << shift), np.uint32((1 << shift) - 1)
        for index, axis in enumerate(axes):
            is_set = (axis & bit) != 0
            axes[0] = axes[0] ^ np.where(is_set, low, np.uint32(0))
            exchanged = np.where(is_set, np.uint32(0), (axes[0] ^ axis) & low)
            axes[0] = axes[0] ^ exchanged
            axes[index] = axes[index] ^ exchanged
    for index in range(1, len(axes)):
        axes[index] = axes[index] ^ axes[index - 1]
    parity = np.zeros(len(axes[0]), np.uint32)
    for shift in range(bits - 1, 0, -1):
        is_set = (axes[-1] & np.uint32(1 << shift)) != 0
        parity ^= np.where(is_set, np.uint32((1 << shift) - 1), np.uint32(0))
    return [axis ^ parity for axis in axes]
