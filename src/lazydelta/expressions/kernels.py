"""Kernels of operators and functions: Arrow arrays in, a `Result` out.

A kernel takes the values of the arguments, the literal arguments that its signature calls
constant, and the type of the result. CASE, coalesce, AND and OR do not use every argument in
every row; they are in `evaluation`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta.expressions.dates import days, format_dates, in_calendar, last_day, wall_clock
from lazydelta.expressions.evaluation_result import FALSE, TRUE, Result, attempt, nulls_failed
from lazydelta.expressions.functions import DATE_UNITS
from lazydelta.expressions.nodes.patterns import fixed_prefix, to_regex
from lazydelta.schema import DecimalType, PrimitiveType, to_arrow_type
from lazydelta.schema.values import build_scalar

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazydelta.schema import DataType

    Kernel: TypeAlias = Callable[[list[pa.Array], list[Any], DataType], Result]

__all__ = ["KERNELS", "compare", "like"]

_LONG, _STRING = PrimitiveType("long"), PrimitiveType("string")
_LINE_ENDS = "[\n\r\x0b\x85\u2028\u2029]"
"""Line ends or white space to Java, not all of them to RE2."""
_COMPARE = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


# --- comparisons ---------------------------------------------------------------------------------


def compare(op: str, a: Any, b: Any, kind: DataType) -> Any:
    """Compare arrays or scalars; for floats, NaN equals itself and is the greatest."""
    name = kind.name if isinstance(kind, PrimitiveType) else ""
    if name == "boolean":
        a, b = a.cast(pa.int8()), b.cast(pa.int8())
    plain = _COMPARE[op](a, b)
    if name not in ("float", "double"):
        return plain
    nan_a, nan_b = pc.is_nan(a), pc.is_nan(b)
    if op in ("=", "!="):
        both = pc.and_(nan_a, nan_b)
        return pc.or_(plain, both) if op == "=" else pc.and_(plain, pc.invert(both))
    greater, other = (nan_a, nan_b) if op in (">", ">=") else (nan_b, nan_a)
    more = pc.and_(greater, pc.invert(other)) if op in ("<", ">") else greater
    return pc.or_(plain, more)


def like(strings: pa.Array, pattern: str, escape: str) -> pa.BooleanArray:
    """Return which strings match a LIKE pattern."""
    prefix, after = fixed_prefix(pattern, escape)
    if after == "%":
        return pc.starts_with(strings, prefix)
    return pc.match_substring_regex(strings, to_regex(pattern, escape))


def _extreme(op: str) -> Kernel:
    """Return the greatest or least value that is not null."""

    def run(given: list[pa.Array], _: list[Any], kind: DataType) -> Result:
        best = given[0]
        for values in given[1:]:
            taken = pc.or_kleene(compare(op, values, best, kind), best.is_null())
            best = pc.coalesce(pc.if_else(taken, values, best), best)
        return Result(best)

    return run


def _nullif(given: list[pa.Array], _: list[Any], kind: DataType) -> Result:
    same = pc.coalesce(compare("=", given[0], given[1], kind), FALSE)
    return Result(pc.if_else(same, pa.nulls(1, given[0].type)[0], given[0]))


# --- numbers -------------------------------------------------------------------------------------


def _arithmetic(kernel: Callable[..., pa.Array]) -> Kernel:
    """Compute so that integer overflow fails."""

    def run(given: list[pa.Array], _: list[Any], kind: DataType) -> Result:
        if not isinstance(kind, DecimalType):
            return attempt(kernel, *given)
        # The type of the result holds every result; Arrow's own is a digit wider.
        sizes = ((values.type.precision, values.type.scale) for values in given)
        wide = [v.cast(pa.decimal256(*size)) for v, size in zip(given, sizes, strict=True)]
        return Result(kernel(*wide).cast(to_arrow_type(kind)))

    return run


def _minus(given: list[pa.Array], constants: list[Any], kind: DataType) -> Result:
    kernel = pc.negate_checked if len(given) == 1 else pc.subtract_checked
    return _arithmetic(kernel)(given, constants, kind)


def _divide(given: list[pa.Array], _: list[Any], __: DataType) -> Result:
    """Divide; a zero divisor fails, for floats too. Integers are truncated towards zero."""
    left, right = given
    zero = pc.equal(right, _number(0, right.type))
    if not zero.true_count:
        return attempt(pc.divide_checked, left, right)
    # Zeros are masked first: there may be many of them, in rows that CASE does not use.
    usable = pc.if_else(zero, pa.nulls(1, right.type)[0], right)
    return attempt(pc.divide_checked, left, usable).failing(pc.and_(zero, left.is_valid()))


def _remainder(given: list[pa.Array], _: list[Any], __: DataType) -> Result:
    """Return the remainder of a division, with the sign of the dividend."""
    left, right = given
    zero, one = _number(0, right.type), _number(1, right.type)
    usable = pc.coalesce(pc.if_else(pc.equal(right, zero), one, right), one)
    with np.errstate(invalid="ignore"):  # the remainder of an infinity is NaN
        rest = np.fmod(_numbers(pc.coalesce(left, zero)), _numbers(usable))
    found = pa.Array.from_buffers(left.type, len(rest), [None, pa.py_buffer(rest)])
    there = pc.and_(left.is_valid(), right.is_valid())
    defined = pc.and_kleene(there, pc.not_equal(right, zero))
    null = pa.nulls(1, left.type)[0]
    return nulls_failed(pc.if_else(pc.coalesce(defined, FALSE), found, null), *given)


def _number(value: int, kind: pa.DataType) -> pa.Scalar:
    return build_scalar(value, _LONG).cast(kind)


def _numbers(values: pa.Array) -> np.ndarray:
    return np.frombuffer(values.buffers()[1] or b"", values.type.to_pandas_dtype())[
        values.offset : values.offset + len(values)
    ]


# --- strings -------------------------------------------------------------------------------------


def _cased(kernel: Callable[..., pa.Array], method: str) -> Kernel:
    """Change case; beyond ASCII one letter may become two, which Arrow's kernel does not do."""

    def run(given: list[pa.Array], _: list[Any], __: DataType) -> Result:
        plain = pc.coalesce(pc.string_is_ascii(given[0]), TRUE)
        if plain.true_count == len(plain):
            return Result(kernel(given[0]))
        coded = given[0].dictionary_encode()
        changed = [getattr(string, method)() for string in coded.dictionary.to_pylist()]
        return Result(_strings(changed).take(coded.indices))

    return run


def _strings(values: list[str]) -> pa.Array:
    raw = [value.encode() for value in values]
    offsets = np.zeros(len(raw) + 1, np.int32)
    np.cumsum([len(part) for part in raw], out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(raw))]
    return pa.Array.from_buffers(pa.string(), len(raw), buffers)


def _concat(given: list[pa.Array], _: list[Any], __: DataType) -> Result:
    empty = build_scalar("", _STRING)
    return Result(pc.binary_join_element_wise(*given, empty, null_handling="emit_null"))


def _rlike(given: list[pa.Array], constants: list[Any], _: DataType) -> Result:
    found = Result(pc.match_substring_regex(given[0], constants[0]))
    return found.failing(pc.match_substring_regex(given[0], _LINE_ENDS))


def _pattern(kernel: Callable[..., pa.Array]) -> Kernel:
    return lambda given, constants, _: Result(kernel(given[0], pattern=constants[0]))


def _substring(given: list[pa.Array], constants: list[Any], _: DataType) -> Result:
    """Slice as Spark does: positions count from 1, negative ones from the end."""
    position, length = (*constants, None)[:2]
    if length is not None and length <= 0:
        return Result(pc.utf8_slice_codeunits(given[0], start=0, stop=0))
    start = position - 1 if position > 0 else position
    stop = None if length is None else start + length
    if stop is not None and start < 0 <= stop:
        stop = None
    return Result(pc.utf8_slice_codeunits(given[0], start=start, stop=stop))


# --- dates and timestamps ------------------------------------------------------------------------


def _field(kernel: Callable[..., pa.Array], **options: Any) -> Kernel:
    """Extract a field of dates or timestamps."""

    def run(given: list[pa.Array], _: list[Any], __: DataType) -> Result:
        found = kernel(wall_clock(in_calendar(given[0])), **options)
        return nulls_failed(found.cast(pa.int32()), given[0])

    return run


def _trunc(given: list[pa.Array], constants: list[Any], kind: DataType) -> Result:
    unit = DATE_UNITS[str(constants[0]).lower()]
    found = pc.floor_temporal(in_calendar(given[0]), unit=unit)
    return nulls_failed(found.cast(to_arrow_type(kind)), given[0])


def _date_format(given: list[pa.Array], constants: list[Any], _: DataType) -> Result:
    return nulls_failed(format_dates(given[0], constants[0]), given[0])


def _shifted(kernel: Callable[..., pa.Array]) -> Kernel:
    def run(given: list[pa.Array], _: list[Any], __: DataType) -> Result:
        dates, shift = given[0].view(pa.int32()), given[1].cast(pa.int32())
        return attempt(lambda a, b: kernel(a, b).view(pa.date32()), dates, shift)

    return run


def _datediff(given: list[pa.Array], _: list[Any], __: DataType) -> Result:
    difference = pc.subtract(*(days(values) for values in given))
    return attempt(lambda values: values.cast(pa.int32()), difference)


def _plain(kernel: Callable[..., pa.Array], **options: Any) -> Kernel:
    return lambda given, _, __: Result(kernel(*given, **options))


KERNELS: dict[str, Kernel] = {
    "+": _arithmetic(pc.add_checked),
    "-": _minus,
    "*": _arithmetic(pc.multiply_checked),
    "/": _divide,
    "div": _divide,
    "%": _remainder,
    "abs": _arithmetic(pc.abs_checked),
    "greatest": _extreme(">"),
    "least": _extreme("<"),
    "nullif": _nullif,
    "isnan": _plain(lambda numbers: pc.coalesce(pc.is_nan(numbers), FALSE)),
    "rlike": _rlike,
    "endswith": _pattern(pc.ends_with),
    "contains": _pattern(pc.match_substring),
    "upper": _cased(pc.utf8_upper, "upper"),
    "lower": _cased(pc.utf8_lower, "lower"),
    "trim": _plain(pc.utf8_trim, characters=" "),
    "ltrim": _plain(pc.utf8_ltrim, characters=" "),
    "rtrim": _plain(pc.utf8_rtrim, characters=" "),
    "concat": _concat,
    "substring": _substring,
    "length": _plain(pc.utf8_length),
    "year": _field(pc.year),
    "quarter": _field(pc.quarter),
    "month": _field(pc.month),
    "day": _field(pc.day),
    "dayofweek": _field(pc.day_of_week, count_from_zero=False, week_start=7),
    "weekday": _field(pc.day_of_week, count_from_zero=True, week_start=1),
    "dayofyear": _field(pc.day_of_year),
    "weekofyear": _field(pc.iso_week),
    "hour": _field(pc.hour),
    "minute": _field(pc.minute),
    "second": _field(pc.second),
    "trunc": _trunc,
    "date_trunc": _trunc,
    "date_format": _date_format,
    "last_day": lambda given, _, __: attempt(last_day, given[0]),
    "date_add": _shifted(pc.add_checked),
    "date_sub": _shifted(pc.subtract_checked),
    "datediff": _datediff,
}
