"""The `stats` text of add actions, as Arrow columns of just the leaves that are wanted.

Rows of one table mostly have one shape: the same keys in the same order. A row is taken as the
example, its shape becomes a regular expression that captures the wanted values, and the rows that
fit are done in one pass. The others go to a JSON reader, and what that refuses is read one by
one. A row that cannot be understood has unknown (null) statistics; that is never an error, and
never a wrong value.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta.formats.json_lines import plain_pairs
from lazydelta.schema import DataType, PrimitiveType, to_arrow_type
from lazydelta.schema.values import build_array, build_scalar, parse_partition_values

__all__ = ["num_records", "parse_stats"]

Leaves = Mapping[tuple[str, ...], DataType]

_MAX_SHAPES = 4
_READ_ROWS = 65_536
_MOST_DIGITS, _MORE_DIGITS = 76, 20
_LONG = PrimitiveType("long")
_NULS = (b"\0", b"\\u0000")
_NUM_RECORDS = r'^\{"numRecords":(?P<n>[0-9]{1,18})[,}]'
_TOKEN = re.compile(
    r"""(?P<string>"(?:[^"\\]|\\.)*") | (?P<number>-?[0-9][-+.0-9eE]*) | (?P<word>true|false|null)
      | (?P<sign>[{}:,]) | (?P<space>[ \t\r\n]+)""",
    re.VERBOSE,
)
_CAPTURES = {
    "string": r'"({}[^"\\]*)"',
    "number": r"({}-?[0-9][-+.0-9eE]*)",
    "word": "({}true|false)",
}


def num_records(stats: pa.Array) -> pa.Int64Array:
    """Return `numRecords` of each text; null where it is missing or no count."""
    found = pc.struct_field(pc.extract_regex(stats, _NUM_RECORDS), "n").cast(pa.int64())
    missed = pc.and_(found.is_null(), stats.is_valid())
    if not pc.any(missed).as_py():
        return found
    path = ("numRecords",)
    rest = parse_stats(stats.filter(missed), {path: _LONG})[path]
    counts = pc.if_else(_at_least_zero(rest), rest, build_scalar(None, _LONG))
    return pc.replace_with_mask(found, missed, counts)


def parse_stats(stats: pa.Array, leaves: Leaves) -> dict[tuple[str, ...], pa.Array]:
    """Return the wanted values of each text, as arrays as long as `stats`.

    Args:
        stats: The `stats` texts of add actions.
        leaves: What is wanted: the path of keys, such as `("minValues", "id")`, and the type.
    """
    result = {path: pa.nulls(len(stats), to_arrow_type(kind)) for path, kind in leaves.items()}
    todo = stats.is_valid()
    for _ in range(_MAX_SHAPES):
        example = _first(stats, todo)
        if example is None:
            return result
        shape = _shape(example, leaves)
        if shape is None:
            break
        found, fits = _by_shape(stats, shape, todo)
        if fits.true_count * 4 < todo.true_count:
            break  # the rows have no common shape
        _fill(result, leaves, fits, {p: _typed(a, leaves[p]) for p, a in found.items()})
        todo = pc.and_not(todo, fits)
    rest = stats.filter(todo)
    if len(rest):
        _fill(result, leaves, todo, _by_reader(rest, leaves))
    return result


def _fill(
    result: dict[tuple[str, ...], pa.Array],
    leaves: Leaves,
    mask: pa.BooleanArray,
    values: Mapping[tuple[str, ...], pa.Array],
) -> None:
    """Put values, given for the rows of the mask, in their places."""
    whole = mask.true_count == len(mask)
    for path in leaves:
        given = values.get(path)
        if given is not None:
            result[path] = given if whole else pc.replace_with_mask(result[path], mask, given)


def _first(stats: pa.Array, todo: pa.BooleanArray) -> str | None:
    index = pc.index(todo, build_scalar(True, PrimitiveType("boolean"))).as_py()
    return None if index < 0 else stats[index].as_py()


def _at_least_zero(counts: pa.Array) -> pa.BooleanArray:
    return pc.greater_equal(counts, build_scalar(0, _LONG))


# --- rows of one shape --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Shape:
    """The regular expression of rows like the example, and which group holds which leaf."""

    pattern: str
    groups: dict[str, tuple[str, ...]]


def _by_shape(
    stats: pa.Array, shape: _Shape, todo: pa.BooleanArray
) -> tuple[dict[tuple[str, ...], pa.Array], pa.BooleanArray]:
    """Return the texts captured from the rows that fit, and which rows those are."""
    if not shape.groups:  # nothing is wanted that rows of this shape have
        fits = pc.and_kleene(pc.match_substring_regex(stats, shape.pattern), todo)
        return {}, pc.and_kleene(fits, fits.is_valid())
    captured = pc.extract_regex(stats, shape.pattern)
    fits = pc.and_(captured.is_valid(), todo)
    if fits.true_count != len(stats):
        captured = captured.filter(fits)
    return {path: captured.field(name) for name, path in shape.groups.items()}, fits


def _shape(example: str, leaves: Leaves) -> _Shape | None:
    """Describe the example; None if it is not made of objects, texts and numbers alone."""
    values = _scan(example)
    if values is None:
        return None
    seen = {path for _, path, _ in values if path}
    wanted = [path for path in leaves if path in seen]
    complete = len(wanted) < len(leaves)  # a leaf that is missing must be missing in every row
    pattern, left = "^", len(wanted)
    groups: dict[str, tuple[str, ...]] = {}
    for kind, path, text in values:
        if path in leaves and kind != "null":
            groups[f"g{len(groups)}"] = path
            pattern += _CAPTURES[kind].format(f"?P<g{len(groups) - 1}>")
        elif kind == "fixed":
            pattern += re.escape(text)
        else:
            pattern += _CAPTURES[kind].format("?:") if kind != "null" else "null"
        left -= path in leaves
        if not left and path in leaves and not complete:
            return _Shape(pattern + r"[ \r\n\t]*[,}]", groups)
    return _Shape(pattern + "$", groups)


def _scan(example: str) -> list[tuple[str, tuple[str, ...], str]] | None:
    """Split JSON text into fixed text and values, each value with its path.

    None if it is no object, has a list or an escape, or names a path twice.
    """
    pieces: list[tuple[str, tuple[str, ...], str]] = []
    path: list[str] = []
    paths: set[tuple[str, ...]] = set()
    key: str | None = None
    at = 0
    while at < len(example):
        match = _TOKEN.match(example, at)
        if match is None or "\\" in match[0]:
            return None
        kind, text, at = str(match.lastgroup), match[0], match.end()
        if kind == "string" and key is None:
            key = text[1:-1]
            pieces.append(("fixed", (), text))
        elif kind in ("string", "number", "word"):
            if key is None or (*path, key) in paths:
                return None
            paths.add((*path, key))
            pieces.append(("null" if text == "null" else kind, (*path, key), text))
            key = None
        else:
            pieces.append(("fixed", (), text))
            if text == "{" and key is not None:
                path, key = [*path, key], None
            elif text == "}" and path:
                path = path[:-1]
    return pieces if _is_object(example) else None


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _typed(texts: pa.Array, kind: DataType) -> pa.Array:
    """Read texts as values; one that does not fit the type is unknown."""
    target = to_arrow_type(kind)
    try:
        return texts.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return parse_partition_values(texts, kind, on_error="null")


# --- any other rows -----------------------------------------------------------------------------


def _by_reader(stats: pa.Array, leaves: Leaves) -> dict[tuple[str, ...], pa.Array]:
    """Read rows of any shape with the JSON reader; if it refuses one, read them one by one."""
    import arro3.io

    schema = pa.schema([pa.field("row", _tree(leaves))])
    try:
        data = plain_pairs(_joined(stats))
        if any(nul in data for nul in _NULS):
            # The reader aborts the process when an error of its own has a NUL in its text.
            return _one_by_one(stats, leaves)
        read = arro3.io.read_json(io.BytesIO(data), schema, batch_size=_READ_ROWS).read_all()
        rows = pa.RecordBatchReader.from_stream(read).read_all()
    except Exception:  # noqa: BLE001 - its errors have no common type, and all mean "refused"
        return _one_by_one(stats, leaves)
    if rows.num_rows != len(stats):
        return _one_by_one(stats, leaves)
    column = pa.concat_arrays(rows.column("row").chunks)
    try:
        return {
            path: _exactly(pc.struct_field(column, list(path)), kind)
            for path, kind in leaves.items()
        }
    except pa.ArrowInvalid:  # a number with digits that its type does not have
        return _one_by_one(stats, leaves)


def _exactly(found: pa.Array, kind: DataType) -> pa.Array:
    """Return values as they were read in their own type, or raise `ArrowInvalid`."""
    if pa.types.is_string(found.type):
        return _typed(found, kind)
    return found.cast(to_arrow_type(kind))


def _read_as(kind: DataType) -> pa.DataType:
    """Return the type to read a value in.

    The reader cuts decimals, rounds whole numbers that are written with a point, and moves times
    by a zone that their type does not have: so it is asked for more digits, or for the text.
    """
    target = to_arrow_type(kind)
    if pa.types.is_integer(target):
        return pa.decimal256(_MOST_DIGITS, _MORE_DIGITS)
    if pa.types.is_decimal(target):
        return pa.decimal256(_MOST_DIGITS, target.scale + _MORE_DIGITS)
    if pa.types.is_floating(target) or pa.types.is_boolean(target):
        return target
    return pa.string()


def _joined(stats: pa.Array) -> bytes:
    """Return the rows as lines `{"row":...}`: then a row cannot run into the next unnoticed."""
    offsets = np.array([0, len(stats)], dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets)]
    all_rows = pa.Array.from_buffers(pa.list_(stats.type), 1, buffers, children=[stats])
    between = build_scalar('}\n{"row":', PrimitiveType("string")).cast(stats.type)
    joined: bytes = pc.binary_join(all_rows, between)[0].as_buffer().to_pybytes()
    return b'{"row":' + joined + b"}"


def _tree(leaves: Leaves) -> pa.StructType:
    """Return the type of an object that holds the leaves."""
    below: dict[str, dict[tuple[str, ...], DataType]] = {}
    for path, kind in leaves.items():
        below.setdefault(path[0], {})[path[1:]] = kind
    return pa.struct(
        [
            pa.field(name, _read_as(rest[()]) if () in rest else _tree(rest))
            for name, rest in below.items()
        ]
    )


def _one_by_one(stats: pa.Array, leaves: Leaves) -> dict[tuple[str, ...], pa.Array]:
    """Read each row alone; one that is no JSON has no statistics."""
    texts: dict[tuple[str, ...], list[str | None]] = {path: [] for path in leaves}
    for row in stats.to_pylist():
        parsed = _load(row)
        for path in leaves:
            texts[path].append(_text_at(parsed, path))
    string = PrimitiveType("string")
    return {
        path: parse_partition_values(build_array(texts[path], string), kind, on_error="null")
        for path, kind in leaves.items()
    }


def _load(row: str | None) -> Any:
    """Parse with all numbers as text, so that none is rounded."""
    try:
        return json.loads(row or "", parse_float=str, parse_int=str, parse_constant=str)
    except (ValueError, RecursionError):
        return None


def _text_at(parsed: Any, path: tuple[str, ...]) -> str | None:
    for key in path:
        parsed = parsed.get(key) if isinstance(parsed, dict) else None
    if isinstance(parsed, bool):
        return "true" if parsed else "false"
    if not isinstance(parsed, str) or any("\ud800" <= c <= "\udfff" for c in parsed):
        return None
    return parsed
