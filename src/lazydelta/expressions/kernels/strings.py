"""Kernels of strings. Positions and lengths count code points, from 1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import from_numpy, to_numpy
from lazydelta.expressions.evaluation_result import TRUE, Result
from lazydelta.expressions.kernels.distinct import per_distinct
from lazydelta.expressions.regexes import named_groups, re2_replacement
from lazydelta.schema import PrimitiveType
from lazydelta.schema.values import build_scalar

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazydelta.expressions.kernels.comparisons import Kernel
    from lazydelta.schema import DataType

__all__ = ["GENERAL", "STRING_KERNELS"]

_STRING, _INTEGER = PrimitiveType("string"), PrimitiveType("integer")
_LINE_ENDS = "[\n\r\x0b\x85\u2028\u2029]"
"""Line ends or white space to Java, not all of them to RE2."""
_MAX_LENGTH = 2**28


# --- Python functions of one row: for arguments that are not constants ----------------------------


def _substring(string: str, position: int, length: int | None = None) -> str:
    start = position - 1 if position > 0 else len(string) + position if position < 0 else 0
    end = len(string) if length is None else start + length
    return string[max(start, 0) : max(end, 0)]


def _right(string: str, count: int) -> str:
    return string[-count:] if count > 0 else ""


def _padding(string: str, length: int, pad: str) -> str:
    missing = length - len(string)
    if missing <= 0 or not pad:
        return ""
    if missing > _MAX_LENGTH:
        raise ValueError("the padded string is too long")
    return (pad * (missing // len(pad) + 1))[:missing]


def _lpad(string: str, length: int, pad: str = " ") -> str:
    return _padding(string, length, pad) + string[: max(length, 0)]


def _rpad(string: str, length: int, pad: str = " ") -> str:
    return string[: max(length, 0)] + _padding(string, length, pad)


def _repeat(string: str, count: int) -> str:
    if len(string) * count > _MAX_LENGTH:
        raise ValueError("the repeated string is too long")
    return string * count


def _instr(string: str, sought: str) -> int:
    return string.find(sought) + 1


def _locate(sought: str, string: str, position: int = 1) -> int:
    if position < 1:
        return 0
    return string.find(sought, position - 1) + 1 if sought else 1


def _replace(string: str, old: str, new: str = "") -> str:
    return string.replace(old, new) if old else string


def _translate(string: str, old: str, new: str) -> str:
    table = {ord(c): new[i] if i < len(new) else None for i, c in reversed([*enumerate(old)])}
    return string.translate(table)


def _substring_index(string: str, mark: str, count: int) -> str:
    if not mark or not count:
        return ""
    if count > 0:
        return mark.join(string.split(mark)[:count])
    return mark.join(string.rsplit(mark, -count)[1:]) if string.count(mark) >= -count else string


def _initcap(string: str) -> str:
    """Capitalize words, which only spaces separate."""
    return " ".join(
        word[:1].title() + word.lower()[len(word[:1].lower()) :] for word in string.split(" ")
    )


GENERAL: dict[str, Callable[..., Any]] = {
    "substring": _substring,
    "right": _right,
    "lpad": _lpad,
    "rpad": _rpad,
    "repeat": _repeat,
    "instr": _instr,
    "locate": _locate,
    "replace": _replace,
    "translate": _translate,
    "substring_index": _substring_index,
    "contains": lambda string, sought: sought in string,
    "startswith": str.startswith,
    "endswith": str.endswith,
    "btrim": lambda string, removed: string.strip(removed) if removed else string,
    "ltrim": lambda removed, string: string.lstrip(removed) if removed else string,
    "rtrim": lambda removed, string: string.rstrip(removed) if removed else string,
}
"""Functions of Python values, for arguments that are not constants."""


# --- Arrow kernels --------------------------------------------------------------------------------


def _cased(kernel: Callable[..., pa.Array], method: Callable[[str], str]) -> Kernel:
    """Change case; beyond ASCII one letter may become two, which Arrow's kernel does not do."""

    def run(given: list[pa.Array], _: list[Any], kind: DataType) -> Result:
        plain = pc.coalesce(pc.string_is_ascii(given[0]), TRUE)
        if plain.true_count == len(plain):
            return Result(kernel(given[0]))
        return per_distinct(method, given, kind)

    return run


def _per_distinct(function: Callable[..., Any], *, constants_first: bool = False) -> Kernel:
    """Run a Python function once for each distinct string."""

    def run(given: list[pa.Array], constants: list[Any], kind: DataType) -> Result:
        if constants_first:
            first, *rest = constants
            return per_distinct(lambda string: function(first, string, *rest), given, kind)
        return per_distinct(function, given, kind, *constants)

    return run


def _substring_kernel(given: list[pa.Array], constants: list[Any], _: DataType) -> Result:
    """Slice as Spark does: positions count from 1, negative ones from the end."""
    position, length = (*constants, None)[:2]
    if length is not None and length <= 0:
        return Result(pc.utf8_slice_codeunits(given[0], start=0, stop=0))
    start = position - 1 if position > 0 else position
    stop = None if length is None else start + length
    if stop is not None and start < 0 <= stop:
        stop = None
    return Result(pc.utf8_slice_codeunits(given[0], start=start, stop=stop))


def _replace_kernel(given: list[pa.Array], constants: list[Any], _: DataType) -> Result:
    old, new = (*constants, "")[:2]
    if not old:
        return Result(given[0])
    return Result(pc.replace_substring(given[0], pattern=old, replacement=new))


def _trimmed(kernel: Callable[..., pa.Array]) -> Kernel:
    def run(given: list[pa.Array], constants: list[Any], _: DataType) -> Result:
        characters = constants[0] if constants else " "
        return Result(kernel(given[0], characters=characters) if characters else given[0])

    return run


def _length(given: list[pa.Array], _: list[Any], __: DataType) -> Result:
    is_binary = pa.types.is_binary(given[0].type)
    return Result((pc.binary_length if is_binary else pc.utf8_length)(given[0]))


def _bits(given: list[pa.Array], _: list[Any], __: DataType) -> Result:
    return Result(pc.multiply(pc.binary_length(given[0]), build_scalar(8, _INTEGER)))


def _concat(given: list[pa.Array], _: list[Any], __: DataType) -> Result:
    empty = build_scalar("", _STRING)
    return Result(pc.binary_join_element_wise(*given, empty, null_handling="emit_null"))


def _concat_ws(given: list[pa.Array], _: list[Any], __: DataType) -> Result:
    separator, *parts = given
    if not parts:
        return Result(pc.if_else(separator.is_valid(), build_scalar("", _STRING), separator))
    if all(pa.types.is_string(part.type) for part in parts):
        # Arrow drops a row of nulls instead of joining nothing.
        first = pc.if_else(pc.coalesce(*parts).is_null(), build_scalar("", _STRING), parts[0])
        return Result(
            pc.binary_join_element_wise(first, *parts[1:], separator, null_handling="skip")
        )
    return Result(pc.binary_join(_joined_lists(parts), separator))


def _joined_lists(parts: list[pa.Array]) -> pa.ListArray:
    """Return one list of strings a row, from strings and lists of strings, without nulls."""
    rows, values = [], []
    for part in parts:
        if pa.types.is_string(part.type):
            parents, strings = np.arange(len(part)), part
        else:
            parents, strings = to_numpy(pc.list_parent_indices(part)), pc.list_flatten(part)
        kept = strings.is_valid()
        rows.append(parents[to_numpy(kept.cast(pa.int8())).astype(np.bool_)])
        values.append(strings.filter(kept))
    order = np.argsort(np.concatenate(rows), kind="stable")
    counts = np.bincount(np.concatenate(rows), minlength=len(parts[0]))
    offsets = np.zeros(len(parts[0]) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    strings = pa.concat_arrays(values).take(from_numpy(order.astype(np.int64)))
    return pa.ListArray.from_arrays(from_numpy(offsets), strings)


def _pattern(kernel: Callable[..., pa.Array]) -> Kernel:
    return lambda given, constants, _: Result(kernel(given[0], pattern=constants[0]))


def _plain(kernel: Callable[..., pa.Array]) -> Kernel:
    return lambda given, _, __: Result(kernel(*given))


# --- regular expressions --------------------------------------------------------------------------


def _without_line_ends(result: Result, strings: pa.Array) -> Result:
    return result.failing(pc.match_substring_regex(strings, _LINE_ENDS))


def _rlike(given: list[pa.Array], constants: list[Any], _: DataType) -> Result:
    found = Result(pc.match_substring_regex(given[0], constants[0]))
    return _without_line_ends(found, given[0])


def _regexp_replace(given: list[pa.Array], constants: list[Any], _: DataType) -> Result:
    regex, new = constants
    found = pc.replace_substring_regex(given[0], pattern=regex, replacement=re2_replacement(new))
    return _without_line_ends(Result(found), given[0])


def _regexp_extract(given: list[pa.Array], constants: list[Any], _: DataType) -> Result:
    """Return a group of the first match; an empty string without a match."""
    regex, group = (*constants, 1)[:2]
    matches = pc.extract_regex(given[0], pattern=named_groups(regex))
    found = pc.coalesce(pc.struct_field(matches, f"g{group}"), build_scalar("", _STRING))
    found = pc.if_else(given[0].is_valid(), found, build_scalar(None, _STRING))
    return _without_line_ends(Result(found), given[0])


def _split(given: list[pa.Array], constants: list[Any], _: DataType) -> Result:
    found = pc.split_pattern_regex(given[0], pattern=constants[0])
    return _without_line_ends(Result(found), given[0])


STRING_KERNELS: dict[str, Kernel] = {
    "rlike": _rlike,
    "regexp_replace": _regexp_replace,
    "regexp_extract": _regexp_extract,
    "split": _split,
    "endswith": _pattern(pc.ends_with),
    "startswith": _pattern(pc.starts_with),
    "contains": _pattern(pc.match_substring),
    "upper": _cased(pc.utf8_upper, str.upper),
    "lower": _cased(pc.utf8_lower, str.lower),
    "initcap": _per_distinct(_initcap),
    "reverse": _plain(pc.utf8_reverse),
    "trim": _trimmed(pc.utf8_trim),
    "btrim": _trimmed(pc.utf8_trim),
    "ltrim": _trimmed(pc.utf8_ltrim),
    "rtrim": _trimmed(pc.utf8_rtrim),
    "concat": _concat,
    "concat_ws": _concat_ws,
    "substring": _substring_kernel,
    "substring_index": _per_distinct(_substring_index),
    "replace": _replace_kernel,
    "translate": _per_distinct(_translate),
    "lpad": _per_distinct(_lpad),
    "rpad": _per_distinct(_rpad),
    "repeat": _per_distinct(_repeat),
    "instr": _per_distinct(_instr),
    "locate": _per_distinct(_locate, constants_first=True),
    "length": _length,
    "octet_length": _plain(pc.binary_length),
    "bit_length": _bits,
    "space": _per_distinct(lambda count: _repeat(" ", count)),
    "ascii": _per_distinct(lambda string: ord(string[0]) if string else 0),
}
