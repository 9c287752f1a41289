"""Statistics JSON: the `stats` of add actions as Arrow columns of the requested leaves.

Rows of one table mostly have one shape: the same keys in the same order. The shape of an example
becomes a regular expression that captures the values, and the rows that match are parsed in one
pass. The others are decoded by a JSON decoder, and those that it refuses one by one. A row that
cannot be parsed has unknown (null) statistics: never an error, and never a wrong value.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta.formats import tuning
from lazydelta.formats.json_lines import join_surrogates
from lazydelta.schema import DataType, PrimitiveType, to_arrow_type
from lazydelta.schema.values import build_array, build_scalar, parse_partition_values

__all__ = ["num_records", "parse_stats"]

Leaves = Mapping[tuple[str, ...], DataType]

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
    """Return `numRecords` of each row; null where it is missing or negative."""
    counts = pc.struct_field(pc.extract_regex(stats, _NUM_RECORDS), "n").cast(pa.int64())
    missed = pc.and_(counts.is_null(), stats.is_valid())
    if not pc.any(missed).as_py():
        return counts
    path = ("numRecords",)
    rest = parse_stats(stats.filter(missed), {path: _LONG})[path]
    rest = pc.if_else(_is_count(rest), rest, build_scalar(None, _LONG))
    return pc.replace_with_mask(counts, missed, rest)


def parse_stats(stats: pa.Array, leaves: Leaves) -> dict[tuple[str, ...], pa.Array]:
    """Return values of each row, as arrays as long as `stats`.

    Args:
        stats: The `stats` JSON of add actions.
        leaves: The values to return: path of keys, such as `("minValues", "id")`, and type.
    """
    result = {path: pa.nulls(len(stats), to_arrow_type(kind)) for path, kind in leaves.items()}
    todo = stats.is_valid()
    for _ in range(tuning.MAX_STATS_SHAPES):
        example = _first(stats, todo)
        if example is None:
            return result
        shape = _shape(example, leaves)
        if shape is None:
            break
        strings, fits = _by_shape(stats, shape, todo)
        if fits.true_count < tuning.MIN_SHAPE_SHARE * todo.true_count:
            break  # the rows have no common shape
        _fill(result, leaves, fits, {p: _typed(a, leaves[p]) for p, a in strings.items()})
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
    """Put the values of the masked rows into the result."""
    is_all = mask.true_count == len(mask)
    for path in leaves:
        array = values.get(path)
        if array is not None:
            result[path] = array if is_all else pc.replace_with_mask(result[path], mask, array)


def _first(stats: pa.Array, todo: pa.BooleanArray) -> str | None:
    index = pc.index(todo, build_scalar(True, PrimitiveType("boolean"))).as_py()
    return None if index < 0 else stats[index].as_py()


def _is_count(counts: pa.Array) -> pa.BooleanArray:
    return pc.greater_equal(counts, build_scalar(0, _LONG))


# --- rows of one shape --------------------------------------------------------------------------


class _Shape(NamedTuple):
    """The regular expression of rows with one shape, and the leaf of each of its groups."""

    pattern: str
    groups: dict[str, tuple[str, ...]]


def _by_shape(
    stats: pa.Array, shape: _Shape, todo: pa.BooleanArray
) -> tuple[dict[tuple[str, ...], pa.Array], pa.BooleanArray]:
    """Return the strings captured from the rows that match, and which rows those are."""
    if not shape.groups:  # rows of this shape have none of the leaves
        fits = pc.and_kleene(pc.match_substring_regex(stats, shape.pattern), todo)
        return {}, pc.and_kleene(fits, fits.is_valid())
    captured = pc.extract_regex(stats, shape.pattern)
    fits = pc.and_(captured.is_valid(), todo)
    if fits.true_count != len(stats):
        captured = captured.filter(fits)
    return {path: captured.field(name) for name, path in shape.groups.items()}, fits


def _shape(example: str, leaves: Leaves) -> _Shape | None:
    """Return the shape of an example; None unless it consists of objects and scalars alone."""
    values = _scan(example)
    if values is None:
        return None
    seen = {path for _, path, _ in values if path}
    present = [path for path in leaves if path in seen]
    is_complete = len(present) < len(leaves)  # a missing leaf must be missing in every row
    pattern, left = "^", len(present)
    groups: dict[str, tuple[str, ...]] = {}
    for kind, path, part in values:
        if path in leaves and kind != "null":
            groups[f"g{len(groups)}"] = path
            pattern += _CAPTURES[kind].format(f"?P<g{len(groups) - 1}>")
        elif kind == "fixed":
            pattern += re.escape(part)
        else:
            pattern += _CAPTURES[kind].format("?:") if kind != "null" else "null"
        left -= path in leaves
        if not left and path in leaves and not is_complete:
            return _Shape(pattern + r"[ \r\n\t]*[,}]", groups)
    return _Shape(pattern + "$", groups)


def _scan(example: str) -> list[tuple[str, tuple[str, ...], str]] | None:
    """Split JSON into fixed tokens and values, each value with its path.

    None if it is not an object, has a list or an escape, or repeats a path.
    """
    pieces: list[tuple[str, tuple[str, ...], str]] = []
    path: list[str] = []
    paths: set[tuple[str, ...]] = set()
    key: str | None = None
    position = 0
    while position < len(example):
        match = _TOKEN.match(example, position)
        if match is None or "\\" in match[0]:
            return None
        kind, part, position = str(match.lastgroup), match[0], match.end()
        if kind == "string" and key is None:
            key = part[1:-1]
            pieces.append(("fixed", (), part))
        elif kind in ("string", "number", "word"):
            if key is None or (*path, key) in paths:
                return None
            paths.add((*path, key))
            pieces.append(("null" if part == "null" else kind, (*path, key), part))
            key = None
        else:
            pieces.append(("fixed", (), part))
            if part == "{" and key is not None:
                path, key = [*path, key], None
            elif part == "}" and path:
                path = path[:-1]
    return pieces if _is_object(example) else None


def _is_object(value: str) -> bool:
    try:
        return isinstance(json.loads(value), dict)
    except (ValueError, RecursionError):
        return False


def _typed(strings: pa.Array, kind: DataType) -> pa.Array:
    """Parse strings as values; those that are not of the type are unknown."""
    target = to_arrow_type(kind)
    try:
        return strings.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return parse_partition_values(strings, kind, on_error="null")


# --- any other rows -----------------------------------------------------------------------------


def _by_reader(stats: pa.Array, leaves: Leaves) -> dict[tuple[str, ...], pa.Array]:
    """Read rows of any shape with the JSON decoder; if it refuses one, read each alone."""
    import arro3.io

    schema = pa.schema([pa.field("row", _tree(leaves))])
    try:
        data = join_surrogates(_as_lines(stats))
        if any(nul in data for nul in _NULS):
            # The decoder aborts the process if an error message contains NUL.
            return _one_by_one(stats, leaves)
        read = arro3.io.read_json(
            io.BytesIO(data), schema, batch_size=tuning.STATS_BATCH_ROWS
        ).read_all()
        rows = pa.RecordBatchReader.from_stream(read).read_all()
    except Exception:  # noqa: BLE001 - its errors have no common type,
        return _one_by_one(stats, leaves)
    if rows.num_rows != len(stats):
        return _one_by_one(stats, leaves)
    column = pa.concat_arrays(rows.column("row").chunks)
    try:
        return {
            path: _exactly(pc.struct_field(column, list(path)), kind)
            for path, kind in leaves.items()
        }
    except pa.ArrowInvalid:  # a number with more digits than its type
        return _one_by_one(stats, leaves)


def _exactly(values: pa.Array, kind: DataType) -> pa.Array:
    """Return decoded values in their type, or raise `ArrowInvalid`."""
    if pa.types.is_string(values.type):
        return _typed(values, kind)
    return values.cast(to_arrow_type(kind))


def _read_as(kind: DataType) -> pa.DataType:
    """Return the type to decode a value in.

    The decoder truncates decimals, rounds integers written with a decimal point, and shifts
    timestamps without a zone: so more digits, or the string, are decoded instead.
    """
    target = to_arrow_type(kind)
    if pa.types.is_integer(target):
        return pa.decimal256(_MOST_DIGITS, _MORE_DIGITS)
    if pa.types.is_decimal(target):
        return pa.decimal256(_MOST_DIGITS, target.scale + _MORE_DIGITS)
    if pa.types.is_floating(target) or pa.types.is_boolean(target):
        return target
    return pa.string()


def _as_lines(stats: pa.Array) -> bytes:
    """Return the rows as lines `{"row":...}`: then a row cannot continue in the next unnoticed."""
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
    """Read each row alone; one that is not JSON has no statistics."""
    values: dict[tuple[str, ...], list[str | None]] = {path: [] for path in leaves}
    for row in stats.to_pylist():
        parsed = _load(row)
        for path in leaves:
            values[path].append(_string_at(parsed, path))
    string = PrimitiveType("string")
    return {
        path: parse_partition_values(build_array(values[path], string), kind, on_error="null")
        for path, kind in leaves.items()
    }


def _load(row: str | None) -> Any:
    """Parse with numbers as strings, so that none is rounded."""
    try:
        return json.loads(row or "", parse_float=str, parse_int=str, parse_constant=str)
    except (ValueError, RecursionError):
        return None


def _string_at(parsed: Any, path: tuple[str, ...]) -> str | None:
    for key in path:
        parsed = parsed.get(key) if isinstance(parsed, dict) else None
    if isinstance(parsed, bool):
        return "true" if parsed else "false"
    if not isinstance(parsed, str) or any("\ud800" <= c <= "\udfff" for c in parsed):
        return None
    return parsed
