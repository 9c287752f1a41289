"""How the operations of a formula are computed on Arrow arrays.

Each takes the values of its arguments and gives `Cells`: values, and the rows that fail. The
functions that filters know too are computed by the same code (`expressions.compute`). Operations that
do not look at all of their arguments in every row are in `expressions.formula`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta.expressions.arrow import compare_values, like_values
from lazydelta.expressions.cells import Cells, attempted, with_nulls_failed
from lazydelta.expressions.compute import call_function
from lazydelta.expressions.formula_casts import cast_cells
from lazydelta.expressions.nodes import Call, Column, Literal
from lazydelta.schema import DecimalType, PrimitiveType, build_array, build_scalar, to_arrow_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazydelta.expressions.formula_types import Step

    Operation = Callable[[Step, list[pa.Array]], Cells]

__all__ = ["compute"]

_BOOLEAN, _INT, _LONG, _STRING = (
    PrimitiveType(name) for name in ("boolean", "integer", "long", "string")
)
_TRUE, _FALSE = build_scalar(True, _BOOLEAN), build_scalar(False, _BOOLEAN)
_LINE_ENDS = "[\n\r\x0b\x85\u2028\u2029]"
"""Ends of lines or white space to Java, not all of them to RE2."""


def compute(step: Step, given: list[pa.Array]) -> Cells:
    """Compute one operation from the values of its arguments."""
    return _OPERATIONS[step.op](step, given)


# --- numbers -------------------------------------------------------------------------------------


def _arithmetic(kernel: Callable[..., pa.Array]) -> Operation:
    """Compute so that a result beyond a type of whole numbers fails."""

    def run(step: Step, given: list[pa.Array]) -> Cells:
        if not isinstance(step.type, DecimalType):
            return attempted(kernel, *given)
        # The type of the result holds every result; Arrow's own would be a digit wider yet.
        kinds = (values.type for values in given)
        wide = [pa.decimal256(kind.precision, kind.scale) for kind in kinds]
        given = [values.cast(kind) for values, kind in zip(given, wide, strict=True)]
        return Cells(kernel(*given).cast(to_arrow_type(step.type)))

    return run


def _divide(_: Step, given: list[pa.Array]) -> Cells:
    """Divide; a zero below fails, of floats too. Whole numbers are cut towards zero."""
    left, right = given
    zero = pc.equal(right, _number(0, right.type))
    if not zero.true_count:
        return attempted(pc.divide_checked, left, right)
    # Zeros are taken out first: there may be many of them, in rows that are not asked for.
    usable = pc.if_else(zero, pa.nulls(1, right.type)[0], right)
    return attempted(pc.divide_checked, left, usable).failing(pc.and_(zero, left.is_valid()))


def _remainder(_: Step, given: list[pa.Array]) -> Cells:
    """Return what a division leaves, with the sign of the dividend."""
    left, right = given
    zero, one = _number(0, right.type), _number(1, right.type)
    usable = pc.coalesce(pc.if_else(pc.equal(right, zero), one, right), one)
    with np.errstate(invalid="ignore"):  # of an infinity, NaN is left
        rest = np.fmod(_numbers(pc.coalesce(left, zero)), _numbers(usable))
    found = pa.Array.from_buffers(left.type, len(rest), [None, pa.py_buffer(rest)])
    there = pc.and_(left.is_valid(), right.is_valid())
    defined = pc.and_kleene(there, pc.not_equal(right, zero))
    nothing = pa.nulls(1, left.type)[0]
    return with_nulls_failed(pc.if_else(pc.coalesce(defined, _FALSE), found, nothing), *given)


def _number(value: int, kind: pa.DataType) -> pa.Scalar:
    return build_scalar(value, _LONG).cast(kind)


def _numbers(values: pa.Array) -> np.ndarray:
    return np.frombuffer(values.buffers()[1] or b"", values.type.to_pandas_dtype())[
        values.offset : values.offset + len(values)
    ]


def _extreme(op: str) -> Operation:
    """Return the greatest or least value that is there."""

    def run(step: Step, given: list[pa.Array]) -> Cells:
        best = given[0]
        for values in given[1:]:
            better = compare_values(op, values, best, step.type)
            taken = pc.or_kleene(better, best.is_null())
            best = pc.coalesce(pc.if_else(taken, values, best), best)
        return Cells(best)

    return run


# --- comparisons ---------------------------------------------------------------------------------


def _compare(step: Step, given: list[pa.Array]) -> Cells:
    kind = step.args[0].type
    a, b = (values.cast(pa.int8()) if kind == _BOOLEAN else values for values in given)
    if pa.types.is_null(a.type):
        found: pa.Array = pa.nulls(len(a), pa.bool_())
    else:
        found = compare_values("=" if step.op == "<=>" else step.op, a, b, kind)
    if step.op == "<=>":
        nulls = pc.and_(a.is_null(), b.is_null())
        found = pc.or_(nulls, pc.coalesce(found, _FALSE))
    return Cells(found)


def _in(step: Step, given: list[pa.Array]) -> Cells:
    """Look values up; one that is not found is unknown if a NULL is among the options."""
    known = [option for option in step.setting if option is not None]
    options = build_array(known, step.args[0].type)
    found = pc.is_in(given[0], value_set=options)
    if len(known) == len(step.setting) and given[0].null_count == 0:
        return Cells(found)
    unknown = given[0].is_null()
    if len(known) < len(step.setting):
        unknown = pc.or_(unknown, pc.invert(found))
    return Cells(pc.if_else(unknown, build_scalar(None, _BOOLEAN), found))


def _nullif(step: Step, given: list[pa.Array]) -> Cells:
    same = pc.coalesce(compare_values("=", given[0], given[1], step.type), _FALSE)
    return Cells(pc.if_else(same, pa.nulls(1, given[0].type)[0], given[0]))


# --- texts ---------------------------------------------------------------------------------------


def _cased(kernel: Callable[..., pa.Array], method: str) -> Operation:
    """Change case; beyond ASCII one letter may become two, which Arrow's kernel does not know."""

    def run(_: Step, given: list[pa.Array]) -> Cells:
        texts = given[0]
        plain = pc.coalesce(pc.string_is_ascii(texts), _TRUE)
        if plain.true_count == len(plain):
            return Cells(kernel(texts))
        coded = texts.dictionary_encode()
        changed = [getattr(text, method)() for text in coded.dictionary.to_pylist()]
        return Cells(_texts(changed).take(coded.indices))

    return run


def _texts(values: list[str]) -> pa.Array:
    raw = [value.encode() for value in values]
    offsets = np.zeros(len(raw) + 1, np.int32)
    np.cumsum([len(part) for part in raw], out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(raw))]
    return pa.Array.from_buffers(pa.string(), len(raw), buffers)


def _concat(_: Step, given: list[pa.Array]) -> Cells:
    empty = build_scalar("", _STRING)
    return Cells(pc.binary_join_element_wise(*given, empty, null_handling="emit_null"))


def _rlike(step: Step, given: list[pa.Array]) -> Cells:
    found = Cells(pc.match_substring_regex(given[0], step.setting[0]))
    return found.failing(pc.match_substring_regex(given[0], _LINE_ENDS))


def _has(kernel: Callable[..., pa.Array]) -> Operation:
    return lambda step, given: Cells(kernel(given[0], pattern=step.setting[0]))


# --- times ---------------------------------------------------------------------------------------


def _known_function(step: Step, given: list[pa.Array]) -> Cells:
    """Compute what filters compute too."""
    places = {f"{at}": values for at, values in enumerate(given)}
    values: list[Any] = [Column((name,)) for name in places]
    settings = [Literal(setting, _STRING) for setting in step.setting]
    args = [*settings, *values] if step.op == "date_trunc" else [*values, *settings]
    call = Call(step.op, tuple(args), step.type)
    found = call_function(call, lambda node: places[node.path[0]])  # type: ignore[attr-defined]
    return with_nulls_failed(found.cast(to_arrow_type(step.type)), *given)


def _time_part(kernel: Callable[..., pa.Array], **options: Any) -> Operation:
    def run(_: Step, given: list[pa.Array]) -> Cells:
        times = given[0]
        wall = times.view(pa.int64()).view(pa.timestamp("us")) if _is_time(times) else times
        return attempted(lambda values: kernel(values, **options).cast(pa.int32()), wall)

    return run


def _is_time(values: pa.Array) -> bool:
    return bool(pa.types.is_timestamp(values.type))


def _last_day(_: Step, given: list[pa.Array]) -> Cells:
    def run(days: pa.Array) -> pa.Array:
        first = pc.floor_temporal(days, unit="month")
        inside_next = pc.add(first.view(pa.int32()), build_scalar(31, _INT)).view(pa.date32())
        start = pc.floor_temporal(inside_next, unit="month").view(pa.int32())
        return pc.subtract(start, build_scalar(1, _INT)).view(pa.date32())

    return attempted(run, given[0])


def _moved(kernel: Callable[..., pa.Array]) -> Operation:
    def run(_: Step, given: list[pa.Array]) -> Cells:
        days, step = given[0].view(pa.int32()), given[1].cast(pa.int32())
        return attempted(lambda a, b: kernel(a, b).view(pa.date32()), days, step)

    return run


def _datediff(_: Step, given: list[pa.Array]) -> Cells:
    return attempted(pc.subtract_checked, *(values.view(pa.int32()) for values in given))


# --- all of them ---------------------------------------------------------------------------------


def _plain(kernel: Callable[..., pa.Array]) -> Operation:
    return lambda _, given: Cells(kernel(*given))


def _cast(step: Step, given: list[pa.Array]) -> Cells:
    return cast_cells(given[0], step.args[0].type, step.type)


def _trimmed(kernel: Callable[..., pa.Array]) -> Operation:
    return _plain(lambda texts: kernel(texts, characters=" "))


def _is_true(_: Step, given: list[pa.Array]) -> Cells:
    return Cells(pc.coalesce(given[0], _FALSE))


_OPERATIONS: dict[str, Operation] = {
    "+": _arithmetic(pc.add_checked),
    "-": _arithmetic(pc.subtract_checked),
    "*": _arithmetic(pc.multiply_checked),
    "negate": _arithmetic(pc.negate_checked),
    "abs": _arithmetic(pc.abs_checked),
    "/": _divide,
    "div": _divide,
    "%": _remainder,
    "greatest": _extreme(">"),
    "least": _extreme("<"),
    **dict.fromkeys(("=", "!=", "<", "<=", ">", ">=", "<=>"), _compare),
    "in": _in,
    "nullif": _nullif,
    "is_null": _plain(pc.is_null),
    "is_true": _is_true,
    "not": _plain(pc.invert),
    "isnan": _plain(lambda numbers: pc.coalesce(pc.is_nan(numbers), _FALSE)),
    "like": lambda step, given: Cells(like_values(given[0], *step.setting)),
    "rlike": _rlike,
    "startswith": _has(pc.starts_with),
    "endswith": _has(pc.ends_with),
    "contains": _has(pc.match_substring),
    "upper": _cased(pc.utf8_upper, "upper"),
    "lower": _cased(pc.utf8_lower, "lower"),
    "trim": _trimmed(pc.utf8_trim),
    "ltrim": _trimmed(pc.utf8_ltrim),
    "rtrim": _trimmed(pc.utf8_rtrim),
    "concat": _concat,
    "cast": _cast,
    "identity": _plain(lambda values: values),
    **dict.fromkeys(
        ("year", "month", "day", "hour", "trunc", "date_trunc", "date_format"), _known_function
    ),
    "substring": _known_function,
    "length": _known_function,
    "quarter": _time_part(pc.quarter),
    "dayofweek": _time_part(pc.day_of_week, count_from_zero=False, week_start=7),
    "weekday": _time_part(pc.day_of_week, count_from_zero=True, week_start=1),
    "dayofyear": _time_part(pc.day_of_year),
    "weekofyear": _time_part(pc.iso_week),
    "minute": _time_part(pc.minute),
    "second": _time_part(pc.second),
    "last_day": _last_day,
    "date_add": _moved(pc.add_checked),
    "date_sub": _moved(pc.subtract_checked),
    "datediff": _datediff,
}
