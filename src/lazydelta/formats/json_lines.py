"""Newline-delimited JSON <-> Arrow, with the checks that untrusted input needs.

A block of lines is decoded in bulk by arro3 (exact types, maps, any line length). What a bulk
decoder lets pass, and another engine might read differently, is looked for beside it: two
objects on a line, duplicate keys, bottomless nesting. Knows nothing of actions or versions; errors
carry the line within the block, and whoever knows the file says which one it was.
"""

from __future__ import annotations

import io
import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import arro3.core  # noqa: F401 - what arro3.io gives is of it: else loaded before the first file
import arro3.io
import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import to_mask

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "BadLineError",
    "JsonLimits",
    "are_objects",
    "decode_lines",
    "normalized_lines",
    "parse_object",
    "plain_pairs",
    "split_lines",
]

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
# Two escapes that make one character; an even number of backslashes before them escapes nothing.
_SURROGATES = re.compile(
    rb"(?<!\\)((?:\\\\)*)\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})"
)
_SPACE = 0x20
_NUL = b"\\u0000"
_OPENING = 0x7B  # `{`, and `[` once bit 0x20 is set
_ROWS_PER_READ = 1 << 20
_FEW_LINES = 32
_TWO_OBJECTS = re.compile(rb"\}\s*\{")


@dataclass
class BadLineError(ValueError):
    """One line that is not what it should be; `line` counts from 0 within the block."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonLimits:
    """How much one line may ask for."""

    line_bytes: int
    depth: int


def split_lines(data: bytes) -> pa.Array:
    """Return the lines of `data`, which ends with a newline, as a binary array that shares it."""
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
    offsets = np.empty(len(ends) + 1, np.int64)
    offsets[0] = 0
    offsets[1:] = ends + 1
    return pa.Array.from_buffers(
        pa.large_binary(), len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )


def are_objects(lines: pa.Array) -> np.ndarray:
    """Return which lines open and close an object: not the blank, padded and broken ones."""
    offsets, data = _offsets(lines), _bytes(lines)
    return (data[offsets[:-1]] == ord("{")) & (data[np.maximum(offsets[1:] - 2, 0)] == ord("}"))


def normalized_lines(data: bytes) -> bytes:
    """Return `data` without blank lines and without white space round the others."""
    kept = [line.strip() for line in data.split(b"\n")]
    return b"".join(line + b"\n" for line in kept if line)


def decode_lines(
    lines: pa.Array, schema: pa.Schema, *, unique_keys: Sequence[str], limits: JsonLimits
) -> pa.RecordBatch:
    """Decode lines into one batch, a row per line, or raise `BadLineError`.

    Args:
        lines: As `split_lines` gives them.
        schema: What to decode; other fields are skipped.
        unique_keys: Keys that may not occur twice in one object of a line.
        limits: Longest line and deepest nesting.
    """
    if len(lines) == 0:
        return pa.RecordBatch.from_pylist([], schema)
    _check_lines(lines, limits)
    try:
        table = _decoded(lines.buffers()[2], schema)
    except Exception as error:  # noqa: BLE001 - arro3 raises bare Exceptions
        raise _first_bad_line(lines, schema, str(error)) from None
    if table.num_rows != len(lines):
        raise _first_bad_line(lines, schema, "more than one object on a line")
    _check_unique_keys(lines, unique_keys)
    return table.combine_chunks().to_batches()[0]


def parse_object(line: bytes) -> dict[str, Any]:
    """Parse one JSON object strictly: valid UTF-8, finite numbers, no duplicate key."""
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise BadLineError(0, f"invalid JSON: {error}") from None
    if not isinstance(value, dict):
        raise BadLineError(0, "not a JSON object")
    _reject_duplicates(line)
    return value


def plain_pairs(raw: bytes) -> bytes:
    """Return JSON text without escapes that make one character together, for arro3 to read.

    It gets such characters of some planes wrong (arrow-rs: U+20000 comes out as U+10000), and a
    path that is another path is another file: so it is given plain ones.
    """
    if b"\\ud" in raw or b"\\uD" in raw:
        return _SURROGATES.sub(_joined, raw)
    return raw


def _decoded(data: bytes | pa.Buffer, schema: pa.Schema) -> pa.Table:
    raw = bytes(data)
    if b"\\u" not in raw:  # one search instead of three: few logs have any
        return _read_all(raw, schema)
    raw = plain_pairs(raw)
    if _NUL in raw:
        # The decoder aborts the process when an error of its own has a NUL in its text, as a
        # hostile log can make it. What decodes with another character decodes with this one too.
        _read_all(raw.replace(_NUL, b"\\u0001"), schema)
    return _read_all(raw, schema)


def _joined(pair: re.Match[bytes]) -> bytes:
    high, low = int(pair[2], 16), int(pair[3], 16)
    return pair[1] + chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00)).encode()


def _read_all(data: bytes, schema: pa.Schema) -> pa.Table:
    # Read before it crosses: an error with a NUL in its text ends the process on the way.
    read = arro3.io.read_json(io.BytesIO(data), schema, batch_size=_ROWS_PER_READ).read_all()
    return pa.RecordBatchReader.from_stream(read).read_all()


def _offsets(lines: pa.Array) -> np.ndarray:
    return np.frombuffer(lines.buffers()[1], np.int64)


def _bytes(lines: pa.Array) -> np.ndarray:
    return np.frombuffer(lines.buffers()[2], np.uint8)


def _check_lines(lines: pa.Array, limits: JsonLimits) -> None:
    # If every line opens and closes an object, and there are as many objects as lines (as the
    # decoder's row count shows), each line has exactly one.
    objects = are_objects(lines)
    if not objects.all():
        raise BadLineError(int(np.flatnonzero(~objects)[0]), "not one whole JSON object")
    offsets = _offsets(lines)
    longest = int(np.diff(offsets).max())
    if longest > limits.line_bytes:
        line = int(np.diff(offsets).argmax())
        raise BadLineError(line, f"a line of {longest} bytes, more than {limits.line_bytes}")
    _check_characters(lines)
    opening = np.flatnonzero((_bytes(lines) | 0x20) == _OPENING)
    if len(opening) <= limits.depth:
        return
    # Nesting cannot be deeper than the number of opening brackets; only such lines are looked at.
    counts = np.diff(np.searchsorted(opening, offsets))
    for line in np.flatnonzero(counts > limits.depth).tolist():
        if _depth(lines[line].as_py()) > limits.depth:
            raise BadLineError(line, f"nested deeper than {limits.depth} levels")


def _check_characters(lines: pa.Array) -> None:
    """Refuse control characters, which JSON forbids and the decoder lets pass in strings."""
    data = _bytes(lines)
    control = data < _SPACE
    if np.count_nonzero(control) == len(lines):  # the newlines
        return
    control &= (data != ord("\n")) & (data != ord("\r")) & (data != ord("\t"))
    if control.any():
        at = np.searchsorted(_offsets(lines), np.flatnonzero(control)[0], side="right") - 1
        raise BadLineError(int(at), "a control character")


def _depth(line: bytes) -> int:
    bare = np.frombuffer(_STRING.sub(b"", line), np.uint8) | 0x20
    steps = (bare == _OPENING).astype(np.int64) - (bare == _OPENING + 2)
    return int(np.cumsum(steps).max(initial=0))


def _check_unique_keys(lines: pa.Array, keys: Sequence[str]) -> None:
    for line in _suspects(lines, keys):
        try:
            _reject_duplicates(lines[line].as_py())
        except BadLineError as error:
            raise BadLineError(line, error.reason) from None


def _suspects(lines: pa.Array, keys: Sequence[str]) -> list[int]:
    """Return the lines worth a closer look."""
    if len(lines) > _FEW_LINES:
        found = pc.match_substring_regex(lines, _suspect(tuple(keys)))
        return list(np.flatnonzero(to_mask(found)).tolist())
    # Arrow makes its pattern ready anew each time, which takes longer than a few lines do.
    pattern = re.compile(_suspect(tuple(keys)).encode())
    quoted = [f'"{key}"'.encode() for key in keys]
    return [
        number
        for number, line in enumerate(lines.to_pylist())
        if (
            b"\\u00" in line
            or any(line.count(key) > 1 for key in quoted)
            or _TWO_OBJECTS.search(line)
        )
        and pattern.search(line)
    ]


@lru_cache
def _suspect(keys: tuple[str, ...]) -> str:
    """Return a pattern of lines worth a closer look.

    A key that occurs twice, at whatever level; an escaped ASCII character, which may be part of
    such a key; and two objects side by side, whose row a string that runs over the end of another
    line could take away again.
    """
    twice = [f'"{key}"\\s*:.*"{key}"\\s*:' for key in keys]
    return "|".join([*twice, r"\\u00[2-7]", r"\}\s*\{"])


def _reject_duplicates(line: bytes) -> None:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise BadLineError(0, f"duplicate key {twice!r}")
        return found

    try:
        json.loads(line, object_pairs_hook=unique)
    except RecursionError:
        raise BadLineError(0, "nested too deeply") from None
    except json.JSONDecodeError as error:
        raise BadLineError(0, f"invalid JSON: {error}") from None


def _first_bad_line(lines: pa.Array, schema: pa.Schema, reason: str) -> BadLineError:
    """Find the line that made the bulk decoder fail; only ever called to report an error."""
    for number, line in enumerate(lines.to_pylist()):
        try:
            rows = _decoded(line, schema).num_rows
        except Exception as error:  # noqa: BLE001 - arro3 raises bare Exceptions
            return BadLineError(number, _plain(str(error)))
        if rows != 1:
            return BadLineError(number, "more than one object on a line")
    return BadLineError(len(lines) - 1, _plain(reason))


def _plain(reason: str) -> str:
    """Strip the decoder's own layers off its message."""
    return reason.removeprefix("C Data interface error: ").removeprefix("Json error: ")
