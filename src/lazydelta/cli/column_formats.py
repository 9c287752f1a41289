"""Format Arrow columns as strings: JSON for any type, plain strings for single fields.

Arrow formats whole columns; only values that it cannot escape or encode (control characters,
binary) are formatted one by one.
"""

from __future__ import annotations

import base64

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lazydelta._arrow import from_mask, string_scalar
from lazydelta.cli.output import visible
from lazydelta.schema.values import format_date, format_timestamp

__all__ = ["iso", "join_lines", "printable", "to_json", "to_string"]

_EMPTY, _NULL, _QUOTE, _COMMA, _COLON, _NEWLINE = map(
    string_scalar, ("", "null", '"', ",", ":", "\n")
)
_OPEN, _CLOSE, _OPEN_LIST, _CLOSE_LIST = map(string_scalar, "{}[]")

# The characters that `visible` writes out, in the syntax of Arrow's regular expressions.
_CONTROL = r"[\x00-\x1f\x7f-\x{9f}\x{2028}-\x{202e}\x{2066}-\x{2069}]"
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
_PER_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000}
_SPECIAL_FLOATS = {"nan": '"NaN"', "inf": '"Infinity"', "-inf": '"-Infinity"'}


def to_json(array: pa.Array) -> pa.Array:
    """Return each value as JSON, nulls as `null`.

    Timestamps and dates are ISO 8601, binary is Base64, numbers keep every digit; NaN and
    infinity, which JSON does not have, are strings.

    >>> to_json(pa.array([{"a": [1, None]}, None])).to_pylist()
    ['{"a":[1,null]}', 'null']
    """
    array = _plain(array)
    kind = array.type
    if pt.is_string(kind):
        encoded = _quoted(array)
    elif pt.is_struct(kind):
        encoded = _structs(array)
    elif pt.is_map(kind):
        encoded = _maps(array)
    elif pt.is_list(kind):
        encoded = _lists(array)
    elif pt.is_floating(kind):
        encoded = _floats(array)
    elif pt.is_boolean(kind) or pt.is_integer(kind) or pt.is_decimal(kind):
        encoded = array.cast(pa.string())
    else:
        encoded = _wrapped(_QUOTE, to_string(array), _QUOTE)
    return pc.coalesce(encoded, _NULL)


def to_string(array: pa.Array) -> pa.Array:  # noqa: PLR0911 - one return for each kind
    """Return each value as a string; nulls stay null, nested values are JSON."""
    array = _plain(array)
    kind = array.type
    if pt.is_string(kind):
        return array
    if pt.is_nested(kind):
        return _nulled(to_json(array), array)
    if pt.is_timestamp(kind):
        return iso(array)
    if pt.is_binary(kind):
        coded = [v if v is None else base64.b64encode(v).decode() for v in array.to_pylist()]
        return pa.array(coded, pa.string())
    if pt.is_null(kind):
        return pa.nulls(len(array), pa.string())
    if pt.is_date32(kind):
        return _dates(array)
    try:
        return array.cast(pa.string())
    except pa.ArrowNotImplementedError:  # intervals and the like, from other engines
        strings = [None if value is None else str(value) for value in array.to_pylist()]
        return pa.array(strings, pa.string())


def printable(array: pa.Array) -> pa.Array:
    r"""Return strings that fit one field: control characters escaped, null empty.

    >>> printable(pa.array(["a\tb", None])).to_pylist()
    ['a\\tb', '']
    """
    strings = to_string(array)
    if _has_control(strings):
        escaped = [None if value is None else visible(value) for value in strings.to_pylist()]
        strings = pa.array(escaped, pa.string())
    return pc.coalesce(strings, _EMPTY)


def iso(times: pa.Array) -> pa.Array:
    """Return timestamps as ISO 8601, in UTC if they have a zone; years after 9999 as in Spark."""
    unit, zone = times.type.unit, "" if times.type.tz is None else "Z"
    numbers = times.view(pa.int64())
    if unit == "ns" or _is_in_calendar(numbers, _PER_DAY[unit]):
        return pc.strftime(times.view(pa.timestamp(unit)), f"%Y-%m-%dT%H:%M:%S{zone}")
    micros, digits = _PER_DAY["us"] // _PER_DAY[unit], {"s": -7, "ms": -3, "us": None}[unit]
    strings = [n if n is None else format_timestamp(n * micros)[:digits] + zone
             for n in numbers.to_pylist()]  # fmt: skip
    return pa.array(strings, pa.string())


def join_lines(parts: list[pa.Array | pa.Scalar]) -> bytes:
    """Return the concatenated parts of each row, one row per line."""
    lines = pc.binary_join_element_wise(*parts, _NEWLINE, _EMPTY)
    _, offsets, data = lines.buffers()
    bounds = np.frombuffer(offsets, np.int32)[lines.offset : lines.offset + len(lines) + 1]
    return bytes(data[int(bounds[0]) : int(bounds[-1])])


def _plain(array: pa.Array) -> pa.Array:
    """Normalize the Arrow encodings of one logical type."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return _plain(array.storage)
    if pt.is_dictionary(kind):
        return _plain(array.dictionary_decode())
    if pt.is_large_string(kind) or pt.is_string_view(kind):
        return array.cast(pa.string())
    if pt.is_large_binary(kind) or pt.is_binary_view(kind) or pt.is_fixed_size_binary(kind):
        return array.cast(pa.binary())
    if pt.is_large_list(kind) or pt.is_fixed_size_list(kind):
        return array.cast(pa.list_(kind.value_type))
    return array


def _dates(array: pa.Array) -> pa.Array:
    day_numbers = array.view(pa.int32())
    if _is_in_calendar(day_numbers, 1):
        return array.cast(pa.string())
    return pa.array(
        [n if n is None else format_date(n) for n in day_numbers.to_pylist()], pa.string()
    )


def _is_in_calendar(numbers: pa.Array, per_day: int) -> bool:
    """Whether values are in the years 1 to 9999; Arrow formats later ones wrongly."""
    least, greatest = pc.min_max(numbers).as_py().values()
    return least is None or (_FIRST_DAY * per_day <= least and greatest < (_LAST_DAY + 1) * per_day)


def _quoted(values: pa.Array) -> pa.Array:
    if _has_control(values):
        encoded = [None if t is None else orjson.dumps(t).decode() for t in values.to_pylist()]
        return pa.array(encoded, pa.string())
    escaped = pc.replace_substring(pc.replace_substring(values, "\\", "\\\\"), '"', '\\"')
    return _wrapped(_QUOTE, escaped, _QUOTE)


def _floats(array: pa.Array) -> pa.Array:
    strings = array.cast(pa.string())
    if bool(pc.all(pc.is_finite(array)).as_py()):
        return strings
    fixed = [_SPECIAL_FLOATS.get(value, value) for value in strings.to_pylist()]
    return pa.array(fixed, pa.string())


def _lists(array: pa.ListArray) -> pa.Array:
    values = pa.ListArray.from_arrays(array.offsets, to_json(array.values))
    encoded = _wrapped(_OPEN_LIST, pc.binary_join(values, _COMMA), _CLOSE_LIST)
    return _nulled(encoded, array)


def _maps(array: pa.MapArray) -> pa.Array:
    keys = array.keys if pt.is_string(array.keys.type) else to_string(array.keys)
    pairs = pc.binary_join_element_wise(_quoted(keys), to_json(array.items), _COLON)
    lists = pa.ListArray.from_arrays(array.offsets, pairs)
    return _nulled(_wrapped(_OPEN, pc.binary_join(lists, _COMMA), _CLOSE), array)


def _structs(array: pa.StructArray) -> pa.Array:
    parts: list[pa.Array | pa.Scalar] = []
    for index, field in enumerate(array.type):
        name = orjson.dumps(field.name).decode()
        parts += [
            string_scalar(f"{',' if parts else '{'}{name}:"),
            to_json(pc.struct_field(array, index)),
        ]
    if not parts:
        parts = [pa.repeat(_OPEN, len(array))]
    return _nulled(pc.binary_join_element_wise(*parts, _CLOSE, _EMPTY), array)


def _nulled(encoded: pa.Array, array: pa.Array) -> pa.Array:
    """Return the strings with the nulls of the array."""
    if not array.null_count:
        return encoded
    valid = from_mask(array.is_valid().to_numpy(zero_copy_only=False))
    return pc.if_else(valid, encoded, pa.nulls(len(array), pa.string()))


def _wrapped(before: pa.Scalar, values: pa.Array, after: pa.Scalar) -> pa.Array:
    return pc.binary_join_element_wise(before, values, after, _EMPTY)


def _has_control(values: pa.Array) -> bool:
    return bool(pc.any(pc.match_substring_regex(values, _CONTROL)).as_py())
