"""Floats as strings, as Java writes them.

Java 19 and newer write the shortest decimal, of at least two digits, that identifies a float. Java
17 and 18, on which Spark 4 runs too, write other digits for some floats, most of them beyond 2^53;
`_older_digits` repeats their algorithm. Where the two differ, the row fails.
"""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from fractions import Fraction

import numpy as np

__all__ = ["java_double", "java_float"]

_SMALL_EXPONENTS = range(-21, 63)


def java_double(number: float) -> str:
    """Return a double as Java's `Double.toString`.

    Raises:
        ValueError: Versions of Java write it differently.
    """
    bits = struct.unpack("<q", struct.pack("<d", number))[0]
    mantissa, exponent = bits & ((1 << 52) - 1), (bits >> 52) & 0x7FF
    shortest = repr(number)
    longer = f"{Decimal(number):.1e}" if math.isfinite(number) else shortest
    shortest = longer if float(longer) == number else shortest
    return _java(number, shortest, mantissa, exponent - 1023, 53)


def java_float(number: float) -> str:
    """Return a float as Java's `Float.toString`.

    Raises:
        ValueError: Versions of Java write it differently.
    """
    single = np.float32(number)
    bits = int(single.view(np.int32))
    mantissa, exponent = (bits & ((1 << 23) - 1)) << 29, (bits >> 23) & 0xFF
    shortest = str(single)
    longer = f"{Decimal(number):.1e}" if math.isfinite(number) else shortest
    shortest = longer if np.float32(longer) == single else shortest
    return _java(number, shortest, mantissa, exponent - 127, 24)


def _java(number: float, shortest: str, mantissa: int, exponent: int, width: int) -> str:
    if not math.isfinite(number):
        return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
    minus = "-" if math.copysign(1, number) < 0 else ""
    if number == 0:
        return f"{minus}0.0"
    figures, point = _digits(Decimal(shortest))
    if (figures, point) != _older_digits(mantissa, exponent, width):
        raise ValueError(f"versions of Java write {shortest} differently")
    if -3 < point <= 7:
        if point <= 0:
            return f"{minus}0.{'0' * -point}{figures}"
        whole = figures[:point].ljust(point, "0")
        return f"{minus}{whole}.{figures[point:] or '0'}"
    return f"{minus}{figures[0]}.{figures[1:] or '0'}E{point - 1}"


def _digits(number: Decimal) -> tuple[str, int]:
    """Return the digits without zeros at the end, and how many are before the point."""
    _, digits, exponent = number.as_tuple()
    return "".join(map(str, digits)).rstrip("0"), len(digits) + int(exponent)


def _older_digits(mantissa: int, exponent: int, width: int) -> tuple[str, int]:
    """Return the digits that Java 17 writes; `exponent` is that of the first bit."""
    least = -1023 if width == 53 else -127
    if exponent == least:  # subnormal: shift up to the hidden bit
        shift = 53 - mantissa.bit_length()
        mantissa, exponent, width = mantissa << shift, least + 1 - shift, width - shift
    else:
        mantissa |= 1 << 52
    zeros = (mantissa & -mantissa).bit_length() - 1
    count = 53 - zeros  # significant bits
    tiny = max(0, count - exponent - 1)  # bits behind the point
    if tiny == 0 and exponent in _SMALL_EXPONENTS:
        whole = mantissa << (exponent - 52) if exponent >= 52 else mantissa >> (52 - exponent)
        return _long_digits(whole, exponent - width - 1 if exponent > width else 0)
    estimate = (mantissa / 2**52 - 1.5) * 0.289529654 + 0.176091259 + exponent * 0.301029995663981
    return _developed(Fraction(mantissa, 2**52) * Fraction(2) ** exponent, estimate,
                      (exponent, count, width))  # fmt: skip


def _long_digits(whole: int, power: int) -> tuple[str, int]:
    """Round an integer to its significant digits."""
    dropped = int(power * math.log10(2)) if power > 1 else 0
    step = 10**dropped
    kept = whole // step + (whole % step >= step >> 1 if dropped else 0)
    figures = str(kept)
    return figures.rstrip("0"), len(figures) + dropped


def _developed(value: Fraction, estimate: float, shape: tuple[int, int, int]) -> tuple[str, int]:
    """Develop digits until the rest is below half of the distance to the next float."""
    exponent, count, width = shape
    decimal = math.floor(estimate)
    margin = Fraction(2) ** (exponent - width)  # half of the distance
    if count == 1:
        margin /= 2  # below a power of two the next float is nearer
    scale = Fraction(10) ** decimal
    rest, margin = value / scale, margin / scale
    digit, rest, margin = int(rest), (rest - int(rest)) * 10, margin * 10
    digits: list[int] = []
    low, high = rest < margin, rest + margin > 10
    if digit == 0 and not high:
        decimal -= 1
    else:
        digits.append(digit)
    if not -3 <= decimal < 8:
        low = high = False  # at least two digits
    while not (low or high):
        digit, rest, margin = int(rest), (rest - int(rest)) * 10, margin * 10
        low, high = rest < margin, rest + margin > 10
        digits.append(digit)
    if high and (not low or rest > 5 or (rest == 5 and digits[-1] % 2)):
        figures = str(int("".join(map(str, digits))) + 1)
        if len(figures) > len(digits):
            decimal += 1
        digits = [int(figure) for figure in figures]
    return "".join(map(str, digits)).rstrip("0"), decimal + 1
