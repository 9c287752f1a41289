"""Vectorized string operations on columns of paths, and percent-encoding.

A table may have millions of paths, so columns are processed as bytes. A Python loop is used only
for forms that writers do not produce.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import unquote_to_bytes

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import from_mask, to_mask, true_mask
from lazydelta.schema import PrimitiveType
from lazydelta.schema.values import build_array

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = [
    "Bytes",
    "Offsets",
    "any_starts_with",
    "has_byte",
    "map_matching",
    "percent_decode",
    "percent_decode_one",
    "percent_encode",
    "replace_prefix",
    "string_buffers",
]

Bytes: TypeAlias = "np.ndarray[Any, np.dtype[np.uint8]]"
Offsets: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"  # of 32 or 64 bits

_STRING = PrimitiveType("string")
_PART = 1 << 16
_PERCENT = ord("%")
_HEX = np.full(256, -1, np.int16)
for _digits in (b"0123456789abcdef", b"0123456789ABCDEF"):
    _HEX[list(_digits)] = range(16)
_ENCODED = np.ones(256, bool)
_ENCODED[
    list(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/!$&'()*+,;=:@")
] = 0
_PLAIN = bytes(np.flatnonzero(_ENCODED == 0).tolist())
_HEX_DIGITS = np.frombuffer(b"0123456789ABCDEF", np.uint8)


def percent_decode_one(path: str) -> str:
    """Decode `%XX` of one path; returns it unchanged if the result is not UTF-8."""
    try:
        return unquote_to_bytes(path).decode() if "%" in path else path
    except UnicodeDecodeError:
        return path


def string_buffers(paths: pa.StringArray) -> tuple[Bytes, Offsets]:
    """Return the bytes of a string array (without unused ends) and the offsets of its strings."""
    _, offsets_buffer, data_buffer = paths.buffers()
    if not len(paths) or data_buffer is None:
        return np.empty(0, np.uint8), np.zeros(len(paths) + 1, np.int64)
    wide = pa.types.is_large_string(paths.type)
    offsets = np.frombuffer(offsets_buffer, np.int64 if wide else np.int32)
    offsets = offsets[paths.offset : paths.offset + len(paths) + 1]
    data = np.frombuffer(data_buffer, np.uint8)[offsets[0] : offsets[-1]]
    return data, offsets - offsets[0] if offsets[0] else offsets


def _with_bytes(like: pa.StringArray, data: Bytes, offsets: Offsets) -> pa.StringArray:
    """Return an array like another with other bytes; nulls stay."""
    wide = pa.types.is_large_string(like.type)
    starts = offsets if wide else offsets.astype(np.int32)
    valid = None
    if like.null_count:
        valid = pa.py_buffer(np.packbits(to_mask(like.is_valid()), bitorder="little"))
    buffers = [valid, pa.py_buffer(starts), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(like.type, len(like), buffers)


def has_byte(data: Bytes, byte: int) -> bool:
    """Whether a byte occurs."""
    # Copying and memchr is faster than a comparison, which allocates an array of that size.
    return any(byte in part for part in _parts(data))


def _parts(data: Bytes) -> Iterator[bytes]:
    """Yield copies of parts: a large copy would be mapped anew, page by page, under the GIL."""
    return (data[at : at + _PART].tobytes() for at in range(0, len(data), _PART))


def any_starts_with(data: Bytes, offsets: Offsets, byte: int) -> bool:
    """Whether any string starts with a byte."""
    starts = offsets[:-1][offsets[:-1] < offsets[1:]]
    return bool((data[starts] == byte).any())


def replace_prefix(paths: pa.StringArray, pattern: str, to: str) -> pa.StringArray:
    """Replace the match of an anchored pattern; returns the same array if none matches."""
    if not pc.match_substring_regex(paths, pattern=pattern).true_count:
        return paths
    return pc.replace_substring_regex(paths, pattern=pattern, replacement=to, max_replacements=1)


def map_matching(
    paths: pa.StringArray, pattern: str, change: Callable[[str], str]
) -> pa.StringArray:
    """Return the array with `change` applied to the strings that match, one by one."""
    rows = pc.match_substring_regex(paths, pattern=pattern)
    if not rows.true_count:
        return paths
    strings = [change(string) for string in paths.filter(rows).to_pylist()]
    changed = build_array(strings, _STRING).cast(paths.type)
    return pc.replace_with_mask(paths, from_mask(true_mask(rows)), changed)


def percent_decode(paths: pa.StringArray) -> pa.StringArray:
    """Decode `%XX` once, vectorized over all bytes of the column."""
    data, offsets = string_buffers(paths)
    escapes = np.flatnonzero(data == _PERCENT)
    ends = offsets[np.searchsorted(offsets, escapes, side="right")]
    escapes = escapes[escapes + 2 < ends]
    high, low = _HEX[data[escapes + 1]], _HEX[data[escapes + 2]]
    valid = (high >= 0) & (low >= 0)
    escapes, values = escapes[valid], (high[valid] * 16 + low[valid]).astype(np.uint8)
    if not len(escapes):
        return paths
    decoded = data.copy()
    decoded[escapes] = values
    keep = np.ones(len(data), bool)
    keep[escapes + 1] = keep[escapes + 2] = False
    new_offsets = offsets - 2 * np.searchsorted(escapes, offsets, side="left")
    result = _with_bytes(paths, decoded[keep], new_offsets)
    if (values < 128).all():
        return result
    try:
        result.validate(full=True)
    except pa.ArrowInvalid:  # some escapes are not UTF-8: those strings are left as they are
        return map_matching(paths, "%", percent_decode_one)
    return result


def percent_encode(paths: pa.StringArray) -> pa.StringArray:
    """Percent-encode the bytes that a URI's path cannot have, vectorized."""
    data, offsets = string_buffers(paths)
    if not any(part.translate(None, _PLAIN) for part in _parts(data)):
        return paths
    positions = np.flatnonzero(_ENCODED[data])
    escapes = positions + 2 * np.arange(len(positions))
    is_copied = np.ones(len(data) + 2 * len(positions), bool)
    is_copied[escapes + 1] = is_copied[escapes + 2] = False
    encoded = np.empty(len(is_copied), np.uint8)
    encoded[is_copied] = data
    encoded[escapes] = _PERCENT
    encoded[escapes + 1] = _HEX_DIGITS[data[positions] >> 4]
    encoded[escapes + 2] = _HEX_DIGITS[data[positions] & 15]
    new_offsets = offsets + 2 * np.searchsorted(positions, offsets, side="left")
    return _with_bytes(paths, encoded, new_offsets)
