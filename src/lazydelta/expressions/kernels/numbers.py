"""Kernels of numbers: operators, rounding, roots, powers and logarithms."""

from __future__ import annotations

import math
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal, localcontext
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import from_numpy, to_numpy
from lazydelta.expressions.evaluation_result import FALSE, Result, attempt, nulls_failed
from lazydelta.expressions.kernels.distinct import per_distinct
from lazydelta.schema import DecimalType, PrimitiveType, to_arrow_type
from lazydelta.schema.values import INTEGER_RANGES, build_scalar

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazydelta.expressions.kernels.comparisons import Kernel
    from lazydelta.schema import DataType

__all__ = ["NUMBER_KERNELS", "doubles", "nearest_float", "to_decimal", "with_nulls"]

_LONG = PrimitiveType("long")
_WIDE = Context(prec=800)
_QUOTIENT_DIGITS = Context(prec=38)
"""A remainder fails if the whole quotient has more digits: Java calls the division impossible."""
_FULL_PRECISION = 38


# --- operators ------------------------------------------------------------------------------------


def _arithmetic(kernel: Callable[..., pa.Array], name: str = "") -> Kernel:
    """Compute so that overflow fails."""

    def run(given: list[pa.Array], _: list[Any], kind: DataType) -> Result:
        if not isinstance(kind, DecimalType):
            return attempt(kernel, *given)
        if len(given) == 2 and kind.precision == _FULL_PRECISION:
            return per_distinct(_DECIMAL[name], given, kind, kind)
        # The type of the result holds every result; Arrow's own is a digit wider.
        sizes = ((values.type.precision, values.type.scale) for values in given)
        wide = [v.cast(pa.decimal256(*size)) for v, size in zip(given, sizes, strict=True)]
        return Result(kernel(*wide).cast(to_arrow_type(kind)))

    return run


def _minus(given: list[pa.Array], constants: list[Any], kind: DataType) -> Result:
    kernel = pc.negate_checked if len(given) == 1 else pc.subtract_checked
    return _arithmetic(kernel, "-")(given, constants, kind)


def _divide(given: list[pa.Array], _: list[Any], kind: DataType) -> Result:
    """Divide; a zero divisor fails, for floats too. Integers are truncated towards zero."""
    left, right = given
    if pa.types.is_decimal(left.type):
        name = "/" if isinstance(kind, DecimalType) else "div"
        return per_distinct(_DECIMAL[name], given, kind, kind)
    zero = pc.equal(right, _number(0, right.type))
    if not zero.true_count:
        return attempt(pc.divide_checked, left, right)
    # Zeros are masked first: there may be many of them, in rows that CASE does not use.
    usable = pc.if_else(zero, pa.nulls(1, right.type)[0], right)
    return attempt(pc.divide_checked, left, usable).failing(pc.and_(zero, left.is_valid()))


def _remainder(given: list[pa.Array], _: list[Any], kind: DataType) -> Result:
    """Return the remainder of a division, with the sign of the dividend."""
    return _modulo(given, kind, "%", np.fmod)


def _positive_remainder(given: list[pa.Array], _: list[Any], kind: DataType) -> Result:
    return _modulo(given, kind, "pmod", _pmod)


def _pmod(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the remainder made positive; as in Java, sums of short integers do not overflow."""
    rest = np.fmod(left, right)
    wide = np.int64 if rest.dtype.itemsize < 4 else rest.dtype
    moved = np.fmod(rest.astype(wide) + right.astype(wide), right.astype(wide))
    return np.where(rest < 0, moved.astype(rest.dtype), rest)


def _modulo(
    given: list[pa.Array],
    kind: DataType,
    name: str,
    kernel: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> Result:
    left, right = given
    if isinstance(kind, DecimalType):
        return per_distinct(_DECIMAL[name], given, kind, kind)
    zero, one = _number(0, right.type), _number(1, right.type)
    usable = pc.coalesce(pc.if_else(pc.equal(right, zero), one, right), one)
    with np.errstate(invalid="ignore"):  # the remainder of an infinity is NaN
        rest = kernel(to_numpy(pc.coalesce(left, zero)), to_numpy(usable))
    found = pa.Array.from_buffers(left.type, len(rest), [None, pa.py_buffer(rest)])
    there = pc.and_(left.is_valid(), right.is_valid())
    defined = pc.and_kleene(there, pc.not_equal(right, zero))
    null = pa.nulls(1, left.type)[0]
    return nulls_failed(pc.if_else(pc.coalesce(defined, FALSE), found, null), *given)


def _number(value: int, kind: pa.DataType) -> pa.Scalar:
    return build_scalar(value, _LONG).cast(kind)


# --- decimals ---------------------------------------------------------------------------------


def to_decimal(value: Decimal, kind: DecimalType, rounding: str = ROUND_HALF_UP) -> Decimal:
    """Round a number to a decimal type; one that does not fit is a ValueError."""
    with localcontext(_WIDE):
        rounded = value.quantize(Decimal(1).scaleb(-kind.scale), rounding=rounding)
    if rounded and rounded.adjusted() >= kind.precision - kind.scale:
        raise ValueError(f"{value} does not fit in {kind}")
    return rounded


def _decimal_sum(a: Decimal, b: Decimal, kind: DecimalType) -> Decimal:
    return to_decimal(_WIDE.add(a, b), kind)


def _decimal_difference(a: Decimal, b: Decimal, kind: DecimalType) -> Decimal:
    return to_decimal(_WIDE.subtract(a, b), kind)


def _decimal_product(a: Decimal, b: Decimal, kind: DecimalType) -> Decimal:
    return to_decimal(_WIDE.multiply(a, b), kind)


def _decimal_quotient(a: Decimal, b: Decimal, kind: DecimalType) -> Decimal:
    exact = Fraction(a) / Fraction(b)
    whole, rest = divmod(abs(exact.numerator) * 10**kind.scale, exact.denominator)
    whole += 2 * rest >= exact.denominator
    with localcontext(_WIDE):
        quotient = Decimal(-whole if exact < 0 else whole).scaleb(-kind.scale)
    return to_decimal(quotient, kind)


def _decimal_whole_quotient(a: Decimal, b: Decimal, _: DataType) -> int:
    whole = int(Fraction(a) / Fraction(b))
    low, high = INTEGER_RANGES["long"]
    if not low <= whole <= high:
        raise ValueError("the quotient does not fit in a long")
    return whole


def _decimal_rest(a: Decimal, b: Decimal, kind: DecimalType) -> Decimal:
    return to_decimal(_QUOTIENT_DIGITS.remainder(a, b), kind)


def _decimal_positive_rest(a: Decimal, b: Decimal, kind: DecimalType) -> Decimal:
    rest = _QUOTIENT_DIGITS.remainder(a, b)
    return to_decimal(_QUOTIENT_DIGITS.remainder(_WIDE.add(rest, b), b) if rest < 0 else rest, kind)


_DECIMAL: dict[str, Callable[..., Any]] = {
    "+": _decimal_sum,
    "-": _decimal_difference,
    "*": _decimal_product,
    "/": _decimal_quotient,
    "div": _decimal_whole_quotient,
    "%": _decimal_rest,
    "pmod": _decimal_positive_rest,
}


# --- rounding -------------------------------------------------------------------------------------


def _rounding(mode: str) -> Kernel:
    """Round to a number of digits; a negative number rounds before the point."""

    def run(given: list[pa.Array], constants: list[Any], kind: DataType) -> Result:
        scale = int(constants[0]) if constants else 0
        values = given[0]
        if isinstance(kind, DecimalType):
            return per_distinct(_round_decimal, given, kind, scale, mode, kind)
        if pa.types.is_floating(values.type):
            return _round_floats(values, scale, mode, kind)
        if scale >= 0:
            return Result(values)
        return per_distinct(_round_integer, given, kind, scale, mode, INTEGER_RANGES[str(kind)])

    return run


def _round_decimal(value: Decimal, scale: int, mode: str, kind: DecimalType) -> Decimal:
    with localcontext(_WIDE):
        rounded = value.quantize(Decimal(1).scaleb(-scale), rounding=mode)
        return to_decimal(rounded if scale < kind.scale or scale < 0 else value, kind, mode)


def _round_integer(value: int, scale: int, mode: str, limits: tuple[int, int]) -> int:
    with localcontext(_WIDE):
        rounded = int(Decimal(value).quantize(Decimal(1).scaleb(-scale), rounding=mode))
    if not limits[0] <= rounded <= limits[1]:
        raise ValueError("the rounded number does not fit in its type")
    return rounded


def _round_floats(values: pa.Array, scale: int, mode: str, kind: DataType) -> Result:
    """Round the shortest decimals of floats, as Java does.

    Most values are rounded in binary: if they are small, and not close to half of a step, the
    result is the same. The others go through decimals.
    """
    numbers = doubles(values)
    with np.errstate(all="ignore"):
        steps = np.abs(numbers) * 10.0**scale
        whole = np.floor(steps)
        easy = (steps < 2.0**40) & (np.abs(steps - whole - 0.5) > 1e-3) & (0 <= scale <= 15)
        rounded = np.copysign((whole + (steps - whole > 0.5)) / 10.0**scale, numbers) + 0.0
    same = ~np.isfinite(numbers) | (np.trunc(numbers) == numbers) & (scale >= 0)
    rounded = np.where(same, numbers + 0.0, rounded)
    hard = ~(easy | same)
    if str(kind) == "float":
        hard |= rounded.view(np.int64) & 0x1FFFFFFF == 0x10000000  # half of a step of floats
    if hard.any():
        unique, places = np.unique(numbers[hard], return_inverse=True)
        exact = [_round_double(number, scale, mode, kind) for number in unique.tolist()]
        rounded[hard] = np.array(exact)[places.reshape(-1)]
    return Result(
        with_nulls(rounded.astype(np.float32 if str(kind) == "float" else np.float64), values)
    )


def _round_double(number: float, scale: int, mode: str, kind: DataType) -> float:
    with localcontext(_WIDE):
        exact = Decimal(repr(number)).quantize(Decimal(1).scaleb(-scale), rounding=mode)
    found = float(exact)
    return (nearest_float(exact, found) if str(kind) == "float" else found) + 0.0


def nearest_float(exact: Decimal, double: float) -> float:
    """Return the double of a decimal, moved so that rounding it to a float rounds only once."""
    if math.isinf(double) or Fraction(exact) == Fraction(double):
        return double
    return math.nextafter(double, math.inf if Fraction(exact) > Fraction(double) else -math.inf)


def _whole(name: str) -> Kernel:
    kernel, arrow = {"floor": (np.floor, pc.floor), "ceil": (np.ceil, pc.ceil)}[name]

    def run(given: list[pa.Array], _: list[Any], kind: DataType) -> Result:
        values = given[0]
        if isinstance(kind, DecimalType):
            wide = values.cast(pa.decimal256(76, values.type.scale))
            return Result(arrow(wide).cast(to_arrow_type(kind)))
        if not pa.types.is_floating(values.type):
            return Result(values.cast(pa.int64()))
        with np.errstate(invalid="ignore"):  # as in Java, out of range is the nearest long
            whole = kernel(doubles(values))
            low, high = INTEGER_RANGES["long"]
            safe = np.where(np.isfinite(whole) & (np.abs(whole) < 2.0**63), whole, 0).astype(
                np.int64
            )
            safe = np.where(whole >= 2.0**63, high, np.where(whole <= -(2.0**63), low, safe))
        return Result(with_nulls(safe, values))

    return run


# --- functions of doubles -------------------------------------------------------------------------


def doubles(values: pa.Array) -> np.ndarray:
    """Return numbers as doubles; null is 0."""
    zero = _number(0, values.type)
    filled = pc.coalesce(values, zero) if values.null_count else values
    return to_numpy(
        filled if filled.type == pa.float64() else filled.cast(pa.float64(), safe=False)
    )


def with_nulls(found: np.ndarray, *given: pa.Array) -> pa.Array:
    """Return numbers as an array, null where one of the arguments is."""
    contiguous = np.ascontiguousarray(found)
    kinds = {"f8": pa.float64(), "f4": pa.float32(), "i8": pa.int64(), "i4": pa.int32()}
    kind = kinds[contiguous.dtype.str[1:]]
    values = pa.Array.from_buffers(kind, len(contiguous), [None, pa.py_buffer(contiguous)])
    for one in given:
        if one.null_count:
            values = pc.if_else(one.is_valid(), values, pa.nulls(1, kind)[0])
    return values


def _of_doubles(kernel: Callable[..., np.ndarray]) -> Kernel:
    def run(given: list[pa.Array], _: list[Any], __: DataType) -> Result:
        with np.errstate(all="ignore"):
            return Result(with_nulls(kernel(*map(doubles, given)), *given))

    return run


def _sign(numbers: np.ndarray) -> np.ndarray:
    return np.where(numbers == 0, numbers, np.sign(numbers))


def _logarithm(kernel: Callable[..., np.ndarray]) -> Kernel:
    """Return a logarithm; it is null where an argument is not positive."""

    def run(given: list[pa.Array], _: list[Any], __: DataType) -> Result:
        numbers = [doubles(values) for values in given]
        with np.errstate(all="ignore"):
            found = with_nulls(kernel(*numbers), *given)
        positive = np.logical_and.reduce([~(one <= 0) for one in numbers])
        null = pa.nulls(1, pa.float64())[0]
        mask = from_numpy(positive.astype(np.int64)).cast(pa.bool_())
        return Result(pc.if_else(mask, found, null))

    return run


def _log_of_base(base: np.ndarray, number: np.ndarray) -> np.ndarray:
    return np.log(number) / np.log(base)


def _power(base: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    """Return powers; unlike C, Java gives NaN for 1 to the power of NaN and +-1 to that of inf."""
    unknown = np.isnan(exponent) | ((np.abs(base) == 1) & np.isinf(exponent))
    return np.where(unknown, np.nan, np.power(base, exponent))


_PLUS, _TIMES = _arithmetic(pc.add_checked, "+"), _arithmetic(pc.multiply_checked, "*")

NUMBER_KERNELS: dict[str, Kernel] = {
    "+": _PLUS,
    "-": _minus,
    "*": _TIMES,
    "/": _divide,
    "div": _divide,
    "%": _remainder,
    "pmod": _positive_remainder,
    "try_add": lambda *args: Result(_PLUS(*args).values),
    "try_subtract": lambda *args: Result(_minus(*args).values),
    "try_multiply": lambda *args: Result(_TIMES(*args).values),
    "try_divide": lambda *args: Result(_divide(*args).values),
    "try_mod": lambda *args: Result(_remainder(*args).values),
    "abs": _arithmetic(pc.abs_checked),
    "round": _rounding(ROUND_HALF_UP),
    "bround": _rounding(ROUND_HALF_EVEN),
    "floor": _whole("floor"),
    "ceil": _whole("ceil"),
    "sign": _of_doubles(_sign),
    "sqrt": _of_doubles(np.sqrt),
    "exp": _of_doubles(np.exp),
    "power": _of_doubles(_power),
    "ln": _logarithm(np.log),
    "log": lambda given, constants, kind: _logarithm(np.log if len(given) == 1 else _log_of_base)(
        given, constants, kind
    ),
    "log10": _logarithm(np.log10),
    "log2": _logarithm(np.log2),
}
