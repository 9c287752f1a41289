"""Kernels of hash functions: Spark's Murmur3 and XXH64 over columns, and digests of strings.

`hash` and `xxhash64` start with the seed 42 and feed the hash of each argument to the next; null
leaves it as it is. All rows are hashed together, one word of their bytes at a time.
"""

from __future__ import annotations

import hashlib
import zlib
from decimal import Context
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import to_numpy
from lazydelta.expressions.evaluation_result import Result
from lazydelta.expressions.kernels.distinct import per_distinct
from lazydelta.expressions.kernels.numbers import with_nulls
from lazydelta.schema import PrimitiveType
from lazydelta.schema.values import build_scalar

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazydelta.expressions.kernels.comparisons import Kernel
    from lazydelta.schema import DataType

__all__ = ["HASH_KERNELS"]

_SEED = 42
_ZERO = build_scalar(0, PrimitiveType("long"))
_SHORT_DECIMAL = 18
"""Decimals of at most so many digits are hashed as longs."""
_EXACT = Context(prec=76)
U32, U64 = np.uint32, np.uint64
_P1, _P2, _P3, _P4, _P5 = (
    U64(n)
    for n in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)


# --- Murmur3, 32 bits -----------------------------------------------------------------------------


def _rotated(x: np.ndarray, count: int) -> np.ndarray:
    kind, width = x.dtype.type, x.dtype.itemsize * 8
    return (x << kind(count)) | (x >> kind(width - count))


def _mixed(h: np.ndarray, word: np.ndarray) -> np.ndarray:
    k = _rotated(word * U32(0xCC9E2D51), 15) * U32(0x1B873593)
    return _rotated(h ^ k, 13) * U32(5) + U32(0xE6546B64)


def _finished(h: np.ndarray, length: np.ndarray | int) -> np.ndarray:
    h = h ^ np.asarray(length).astype(U32)
    h = (h ^ (h >> U32(16))) * U32(0x85EBCA6B)
    h = (h ^ (h >> U32(13))) * U32(0xC2B2AE35)
    return h ^ (h >> U32(16))


def _murmur_int(h: np.ndarray, values: np.ndarray) -> np.ndarray:
    return _finished(_mixed(h, values.astype(np.int32).view(U32)), 4)


def _murmur_long(h: np.ndarray, values: np.ndarray) -> np.ndarray:
    bits = values.view(U64)
    h = _mixed(h, (bits & U64(0xFFFFFFFF)).astype(U32))
    return _finished(_mixed(h, (bits >> U64(32)).astype(U32)), 8)


def _murmur_bytes(h: np.ndarray, rows: _Bytes) -> np.ndarray:
    h = h.copy()
    words = rows.lengths // 4
    for index in range(int(words.max(initial=0))):
        at = np.nonzero(words > index)[0]
        h[at] = _mixed(h[at], rows.words(at, index * 4, U32))
    for index in range(3):  # Spark mixes the last bytes one by one, as signed integers
        at = np.nonzero(rows.lengths - words * 4 > index)[0]
        last = rows.words(at, words[at] * 4 + index, np.uint8).view(np.int8)
        h[at] = _mixed(h[at], last.astype(np.int32).view(U32))
    return _finished(h, rows.lengths)


# --- XXH64 ----------------------------------------------------------------------------------------


def _avalanche(h: np.ndarray) -> np.ndarray:
    h = (h ^ (h >> U64(33))) * _P2
    h = (h ^ (h >> U64(29))) * _P3
    return h ^ (h >> U64(32))


def _xx_int(h: np.ndarray, values: np.ndarray) -> np.ndarray:
    word = values.astype(np.int32).view(U32).astype(U64)
    h = h + _P5 + U64(4)
    return _avalanche(_rotated(h ^ (word * _P1), 23) * _P2 + _P3)


def _xx_long(h: np.ndarray, values: np.ndarray) -> np.ndarray:
    return _avalanche(_xx_step(h + _P5 + U64(8), values.view(U64)))


def _xx_step(h: np.ndarray, word: np.ndarray) -> np.ndarray:
    return _rotated(h ^ (_rotated(word * _P2, 31) * _P1), 27) * _P1 + _P4


def _xx_bytes(seed: np.ndarray, rows: _Bytes) -> np.ndarray:
    h = seed + _P5
    stripes = rows.lengths // 32
    long = np.nonzero(stripes > 0)[0]
    if len(long):
        h[long] = _xx_stripes(seed[long], rows, long, stripes)
    h = h + rows.lengths.astype(U64)
    done = stripes * 32
    for index in range(3):
        at = np.nonzero(rows.lengths - done >= 8 * (index + 1))[0]
        h[at] = _xx_step(h[at], rows.words(at, done[at] + 8 * index, U64))
    done = rows.lengths // 8 * 8
    at = np.nonzero(rows.lengths - done >= 4)[0]
    word = rows.words(at, done[at], U32).astype(U64)
    h[at] = _rotated(h[at] ^ (word * _P1), 23) * _P2 + _P3
    done = rows.lengths // 4 * 4
    for index in range(3):
        at = np.nonzero(rows.lengths - done > index)[0]
        last = rows.words(at, done[at] + index, np.uint8).astype(U64)
        h[at] = _rotated(h[at] ^ (last * _P5), 11) * _P1
    return _avalanche(h)


def _xx_stripes(
    seed: np.ndarray, rows: _Bytes, long: np.ndarray, stripes: np.ndarray
) -> np.ndarray:
    """Mix the blocks of 32 bytes of long strings."""
    lanes = [seed + _P1 + _P2, seed + _P2, seed.copy(), seed - _P1]
    for index in range(int(stripes.max())):
        some = np.nonzero(stripes[long] > index)[0]
        for at, lane in enumerate(lanes):
            word = rows.words(long[some], index * 32 + at * 8, U64)
            lane[some] = _rotated(lane[some] + word * _P2, 31) * _P1
    h = _rotated(lanes[0], 1) + _rotated(lanes[1], 7) + _rotated(lanes[2], 12)
    h = h + _rotated(lanes[3], 18)
    for lane in lanes:
        h = (h ^ (_rotated(lane * _P2, 31) * _P1)) * _P1 + _P4
    return h


# --- columns --------------------------------------------------------------------------------------


class _Bytes:
    """The bytes of strings or binary values; null is empty."""

    def __init__(self, values: pa.Array) -> None:
        _, offsets, data = values.buffers()
        starts = np.frombuffer(offsets or b"\0" * 4, np.int32)
        starts = starts[values.offset : values.offset + len(values) + 1].astype(np.int64)
        self.starts = starts[:-1]
        self.lengths = np.diff(starts)
        if values.null_count:
            self.lengths = self.lengths * to_numpy(values.is_valid().cast(pa.int8()))
        self.data = np.frombuffer(data or b"", np.uint8)

    def words(self, at: np.ndarray, position: np.ndarray | int, kind: Any) -> np.ndarray:
        """Return a little-endian word of each of some rows, at a position in its bytes."""
        width = np.dtype(kind).itemsize
        places = (self.starts[at] + position)[:, None] + np.arange(width)
        return np.ascontiguousarray(self.data[places]).view(kind).reshape(-1)


def _hashed(seed: np.ndarray, steps: tuple[Callable[..., np.ndarray], ...]) -> Kernel:
    of_int, of_long, of_bytes = steps
    kind = np.int32 if seed.dtype == U32 else np.int64

    def run(given: list[pa.Array], _: list[Any], __: DataType) -> Result:
        h = np.repeat(seed, len(given[0]))
        with np.errstate(over="ignore"):
            for values in given:
                if pa.types.is_null(values.type):
                    continue
                step = _step(h, values, of_int, of_long, of_bytes)
                present = to_numpy(values.is_valid().cast(pa.int8())).astype(np.bool_)
                h = np.where(present, step, h)
        return Result(with_nulls(h.view(kind)))

    return run


def _step(
    h: np.ndarray,
    values: pa.Array,
    of_int: Callable[..., np.ndarray],
    of_long: Callable[..., np.ndarray],
    of_bytes: Callable[..., np.ndarray],
) -> np.ndarray:
    """Hash one column into the hashes of the columns before it."""
    kind = values.type
    if pa.types.is_boolean(kind):
        values = values.cast(pa.int32())
    elif pa.types.is_date32(kind):
        values = values.view(pa.int32())
    elif pa.types.is_timestamp(kind):
        values = values.view(pa.int64())
    elif pa.types.is_decimal(kind):
        if kind.precision > _SHORT_DECIMAL:
            raw = per_distinct(_big_endian, [values], PrimitiveType("binary"), kind.scale)
            return of_bytes(h, _Bytes(raw.values))
        values = _unscaled(values)
    if pa.types.is_string(values.type) or pa.types.is_binary(values.type):
        return of_bytes(h, _Bytes(values))
    numbers = to_numpy(pc.coalesce(values, _ZERO.cast(values.type)))
    if numbers.dtype.kind == "f":  # one bit pattern for NaN, and one for zero
        numbers = np.where(np.isnan(numbers), numbers.dtype.type(np.nan), numbers + 0)
        numbers = numbers.view(np.int32 if numbers.itemsize == 4 else np.int64)
    return (of_long if numbers.itemsize == 8 else of_int)(h, np.ascontiguousarray(numbers))


def _unscaled(values: pa.Array) -> pa.Array:
    """Return the unscaled value of decimals of at most 18 digits: the low half of their bytes."""
    data = np.frombuffer(values.buffers()[1] or b"", np.int64)[::2]
    numbers = np.ascontiguousarray(data[values.offset : values.offset + len(values)])
    return with_nulls(numbers, values)


def _big_endian(value: Any, scale: int) -> bytes:
    unscaled = int(value.scaleb(scale, context=_EXACT))
    width = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
    return unscaled.to_bytes(width, "big", signed=True)


# --- digests: no vectorized kernel exists; each distinct value is hashed once ---------------------


def _raw(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def _digest(function: Callable[[bytes], Any]) -> Kernel:
    return lambda given, _, kind: per_distinct(lambda value: function(_raw(value)), given, kind)


def _sha2(given: list[pa.Array], constants: list[Any], kind: DataType) -> Result:
    bits = {0: 256}.get(constants[0], constants[0])
    if bits not in (224, 256, 384, 512):
        return Result(pa.nulls(len(given[0]), pa.string()))
    make = {224: hashlib.sha224, 256: hashlib.sha256, 384: hashlib.sha384, 512: hashlib.sha512}
    return _digest(lambda raw: make[bits](raw).hexdigest())(given, [], kind)


HASH_KERNELS: dict[str, Kernel] = {
    "hash": _hashed(np.array([_SEED], U32), (_murmur_int, _murmur_long, _murmur_bytes)),
    "xxhash64": _hashed(np.array([_SEED], U64), (_xx_int, _xx_long, _xx_bytes)),
    "md5": _digest(lambda raw: hashlib.md5(raw, usedforsecurity=False).hexdigest()),
    "sha1": _digest(lambda raw: hashlib.sha1(raw, usedforsecurity=False).hexdigest()),
    "sha2": _sha2,
    "crc32": _digest(zlib.crc32),
}
