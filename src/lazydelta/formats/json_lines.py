"""Newline-delimited JSON <-> Arrow, with the validation that untrusted input needs.

arro3 decodes a block of lines at once (exact types, maps, any line length). What it accepts, but
another engine might read differently, is validated in addition: two objects on a line, duplicate
keys, excessive nesting. Knows nothing of actions or versions; errors have the line within the
block, and the caller adds the file.
"""

from __future__ import annotations

import io
import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import arro3.core  # noqa: F401 - arro3.io returns its types: else loaded before the first file
import arro3.io
import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import to_mask
from lazydelta.formats import tuning

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "BadLineError",
    "JsonLimits",
    "decode_lines",
    "join_surrogates",
    "normalized_lines",
    "object_mask",
    "parse_object",
    "split_lines",
]

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
# Two escapes of one character; an even number of backslashes before them escapes nothing.
_SURROGATES = re.compile(
    rb"(?<!\\)((?:\\\\)*)\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})"
)
_SPACE = 0x20
_NUL = b"\\u0000"
_OPENING = 0x7B  # `{`, and `[` once bit 0x20 is set
_TWO_OBJECTS = re.compile(rb"\}\s*\{")


@dataclass
class BadLineError(ValueError):
    """An invalid line; `line` counts from 0 within the block."""

    line: int
    reason: str


class JsonLimits(NamedTuple):
    """Limits of one line."""

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


def object_mask(lines: pa.Array) -> np.ndarray:
    """Return which lines begin and end as an object; blank, padded and truncated ones do not."""
    offsets, data = _offsets(lines), _bytes(lines)
    return (data[offsets[:-1]] == ord("{")) & (data[np.maximum(offsets[1:] - 2, 0)] == ord("}"))


def normalized_lines(data: bytes) -> bytes:
    """Return `data` without blank lines and without white space around the others."""
    kept = [line.strip() for line in data.split(b"\n")]
    return b"".join(line + b"\n" for line in kept if line)


def decode_lines(
    lines: pa.Array, schema: pa.Schema, *, unique_keys: Sequence[str], limits: JsonLimits
) -> pa.RecordBatch:
    """Decode lines into one batch, a row per line, or raise `BadLineError`.

    Args:
        lines: From `split_lines`.
        schema: The fields to decode; others are skipped.
        unique_keys: Keys that must not be repeated in one object of a line.
        limits: Maximum length and nesting.
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


def join_surrogates(raw: bytes) -> bytes:
    """Return JSON with escaped surrogate pairs replaced by their character.

    arro3 decodes pairs of some planes wrongly (arrow-rs: U+20000 becomes U+10000), and another
    path is another file.
    """
    if b"\\ud" in raw or b"\\uD" in raw:
        return _SURROGATES.sub(_character, raw)
    return raw


def _decoded(data: bytes | pa.Buffer, schema: pa.Schema) -> pa.Table:
    raw = bytes(data)
    if b"\\u" not in raw:  # one search instead of three: few logs have escapes
        return _read_all(raw, schema)
    raw = join_surrogates(raw)
    if _NUL in raw:
        # The decoder aborts the process if an error message contains NUL, which a hostile log can
        # cause. What decodes with another character decodes with this one too.
        _read_all(raw.replace(_NUL, b"\\u0001"), schema)
    return _read_all(raw, schema)


def _character(pair: re.Match[bytes]) -> bytes:
    high, low = int(pair[2], 16), int(pair[3], 16)
    return pair[1] + chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00)).encode()


def _read_all(data: bytes, schema: pa.Schema) -> pa.Table:
    # Read before it crosses to pyarrow: an error message with a NUL would abort the process.
    read = arro3.io.read_json(
        io.BytesIO(data), schema, batch_size=tuning.JSON_BATCH_ROWS
    ).read_all()
    return pa.RecordBatchReader.from_stream(read).read_all()


def _offsets(lines: pa.Array) -> np.ndarray:
    return np.frombuffer(lines.buffers()[1], np.int64)


def _bytes(lines: pa.Array) -> np.ndarray:
    return np.frombuffer(lines.buffers()[2], np.uint8)


def _check_lines(lines: pa.Array, limits: JsonLimits) -> None:
    # If every line opens and closes an object, and there are as many objects as lines (as the
    # decoder's row count shows), each line has exactly one.
    objects = object_mask(lines)
    if not objects.all():
        raise BadLineError(int(np.flatnonzero(~objects)[0]), "not one complete JSON object")
    offsets = _offsets(lines)
    longest = int(np.diff(offsets).max())
    if longest > limits.line_bytes:
        line = int(np.diff(offsets).argmax())
        raise BadLineError(line, f"a line of {longest} bytes, more than {limits.line_bytes}")
    _check_characters(lines)
    opening = np.flatnonzero((_bytes(lines) | 0x20) == _OPENING)
    if len(opening) <= limits.depth:
        return
    # Nesting cannot be deeper than the number of opening brackets: most lines need no closer check.
    counts = np.diff(np.searchsorted(opening, offsets))
    for line in np.flatnonzero(counts > limits.depth).tolist():
        if _depth(lines[line].as_py()) > limits.depth:
            raise BadLineError(line, f"nested deeper than {limits.depth} levels")


def _check_characters(lines: pa.Array) -> None:
    """Refuse control characters, which JSON forbids and the decoder accepts in strings."""
    data = _bytes(lines)
    control = data < _SPACE
    if np.count_nonzero(control) == len(lines):  # the newlines
        return
    control &= (data != ord("\n")) & (data != ord("\r")) & (data != ord("\t"))
    if control.any():
        position = np.searchsorted(_offsets(lines), np.flatnonzero(control)[0], side="right") - 1
        raise BadLineError(int(position), "a control character")


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
    """Return the lines that may repeat a key."""
    if len(lines) > tuning.FEW_LINES:
        matches = pc.match_substring_regex(lines, _suspect(tuple(keys)))
        return list(np.flatnonzero(to_mask(matches)).tolist())
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
    """Return a pattern of lines that may repeat a key.

    It matches a key that occurs twice, at any level; an escaped ASCII character, which may be part
    of such a key; and two adjacent objects, whose extra row an unterminated string of another line
    could hide.
    """
    twice = [f'"{key}"\\s*:.*"{key}"\\s*:' for key in keys]
    return "|".join([*twice, r"\\u00[2-7]", r"\}\s*\{"])


def _reject_duplicates(line: bytes) -> None:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) != len(pairs):
            names = [name for name, _ in pairs]
            repeated = next(name for name in names if names.count(name) > 1)
            raise BadLineError(0, f"duplicate key {repeated!r}")
        return value

    try:
        json.loads(line, object_pairs_hook=unique)
    except RecursionError:
        raise BadLineError(0, "nested too deeply") from None
    except json.JSONDecodeError as error:
        raise BadLineError(0, f"invalid JSON: {error}") from None


def _first_bad_line(lines: pa.Array, schema: pa.Schema, reason: str) -> BadLineError:
    """Return the error of the line on which the bulk decoder failed."""
    for number, line in enumerate(lines.to_pylist()):
        try:
            rows = _decoded(line, schema).num_rows
        except Exception as error:  # noqa: BLE001 - arro3 raises bare Exceptions
            return BadLineError(number, _plain(str(error)))
        if rows != 1:
            return BadLineError(number, "more than one object on a line")
    return BadLineError(len(lines) - 1, _plain(reason))


def _plain(reason: str) -> str:
    """Return a message of the decoder without its prefixes."""
    return reason.removeprefix("C Data interface error: ").removeprefix("Json error: ")
