"""`exp`, `log`, `log10` and `pow` as Java's StrictMath, which Spark calls, computes them.

StrictMath is defined as the results of fdlibm 5.3, bit for bit. The C library and numpy round a
few results per cent differently, so the algorithms are repeated here, over numpy arrays. Names
follow the published algorithms: `hx` is the high word of x, `k` its binary exponent.
"""

from __future__ import annotations

import numpy as np

__all__ = ["exp", "log", "log10", "power"]

_LN2_HI, _LN2_LO = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_INV_LN2 = 1.44269504088896338700e00
_TWO54 = 1.80143985094819840000e16
_P = (
    1.66666666666666019037e-01,
    -2.77777777770155933842e-03,
    6.61375632143793436117e-05,
    -1.65339022054652515390e-06,
    4.13813679705723846039e-08,
)
_LG = (
    6.666666666666735130e-01,
    3.999999999940941908e-01,
    2.857142874366239149e-01,
    2.222219843214978396e-01,
    1.818357216161805012e-01,
    1.531383769920937332e-01,
    1.479819860511658591e-01,
)
_L = (
    5.99999999999994648725e-01,
    4.28571428578550184252e-01,
    3.33333329818377432918e-01,
    2.72728123808534006489e-01,
    2.30660745775561754067e-01,
    2.06975017800338417784e-01,
)
_CP, _CP_H, _CP_L = (
    9.61796693925975554329e-01,
    9.61796700954437255859e-01,
    -7.02846165095275826516e-09,
)
_IVLN2_H, _IVLN2_L = 1.44269502162933349609e00, 1.92596299112661746887e-08
_LG2, _LG2_H, _LG2_L = (
    6.93147180559945286227e-01,
    6.93147182464599609375e-01,
    -1.90465429995776804525e-09,
)
_DP_H, _DP_L = 5.84962487220764160156e-01, 1.35003920212974897128e-08
_OVT = 8.0085662595372944372e-0017


def exp(x: np.ndarray) -> np.ndarray:
    """Return e to the power of each number."""
    with np.errstate(all="ignore"):
        hx = _high(np.abs(x))
        sign = np.where(x < 0, -1.0, 1.0)
        far = hx >= 0x3FF0A2B2
        near = (hx > 0x3FD62E42) & ~far
        usable = np.where((hx > 0x3FD62E42) & (hx < 0x40874911), x, 0.0)
        k = np.where(
            far, np.trunc(_INV_LN2 * usable + np.copysign(0.5, x)), np.where(near, sign, 0.0)
        )
        hi = np.where(k == 0, x, x - k * _LN2_HI)
        lo = k * _LN2_LO
        r = np.where(k == 0, x, hi - lo)
        t = r * r
        c = r - t * _horner(_P, t)
        small = 1.0 - ((r * c) / (c - 2.0) - r)
        y = 1.0 - ((lo - (r * c) / (2.0 - c)) - hi)
        found = np.where(k == 0, np.where(hx < 0x3E300000, 1.0 + x, small), _scaled(y, k))
        found = np.where(x > 7.09782712893383973096e02, np.inf, found)
        found = np.where(x < -7.45133219101941108420e02, 0.0, found)
        return np.where(np.isnan(x), np.nan, found)


def log(x: np.ndarray) -> np.ndarray:
    """Return the natural logarithm of each number."""
    with np.errstate(all="ignore"):
        k, m, hx = _split(x)
        f = m - 1.0
        s = f / (2.0 + f)
        z = s * s
        w = z * z
        t1 = w * (_LG[1] + w * (_LG[3] + w * _LG[5]))
        t2 = z * (_LG[0] + w * (_LG[2] + w * (_LG[4] + w * _LG[6])))
        rest = t2 + t1
        half = 0.5 * f * f
        middle = ((hx - 0x6147A) | (0x6B851 - hx)) > 0
        plain = np.where(
            middle,
            k * _LN2_HI - ((half - (s * (half + rest) + k * _LN2_LO)) - f),
            k * _LN2_HI - ((s * (f - rest) - k * _LN2_LO) - f),
        )
        at_zero = np.where(middle, f - (half - s * (half + rest)), f - s * (f - rest))
        found = np.where(k == 0, at_zero, plain)
        tiny = (0xFFFFF & (2 + hx)) < 3
        r = f * f * (0.5 - 0.33333333333333333 * f)
        close = np.where(k == 0, f - r, k * _LN2_HI - ((r - k * _LN2_LO) - f))
        close = np.where(f == 0, k * _LN2_HI + k * _LN2_LO, close)
        return _log_special(x, np.where(tiny, close, found))


def log10(x: np.ndarray) -> np.ndarray:
    """Return the logarithm to base 10 of each number."""
    with np.errstate(all="ignore"):
        subnormal = (x > 0) & (x < 2.0**-1022)
        scaled = np.where(subnormal, x * _TWO54, x)
        high = _high(scaled)
        k = (high >> 20) - 1023 - np.where(subnormal, 54, 0)
        negative = (k < 0).astype(np.int64)
        m = _with_high(scaled, (high & 0xFFFFF) | ((0x3FF - negative) << 20))
        y = (k + negative).astype(np.float64)
        z = y * 3.69423907715893078616e-13 + 4.34294481903251816668e-01 * log(np.abs(m))
        return _log_special(x, z + y * 3.01029995663611771306e-01)


def power(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return each number to the power of another; 1 to the power of NaN or infinity is NaN."""
    with np.errstate(all="ignore"):
        ax = np.abs(x)
        whole = np.trunc(y) == y
        odd = whole & (np.abs(y) < 2.0**53) & (np.fmod(y, 2.0) != 0)
        s = np.where((x < 0) & odd, -1.0, 1.0)
        special = ~np.isfinite(x) | ~np.isfinite(y) | (ax == 0) | (ax == 1)
        usual = np.where(special, 1.5, ax)
        t1, t2 = _log2_of(usual, np.where(special, 1.0, y))
        found = s * _exp2_of(t1, t2, np.where(special, 1.0, y))
        found = _far_powers(found, usual, y, s)
        found = np.where((x < 0) & ~whole, np.nan, found)
        found = np.where(special, np.power(x, y), found)
        found = np.where((ax == 1) & np.isinf(y), np.nan, found)
        found = np.where(y == 1, x, np.where(y == -1, 1.0 / x, found))
        found = np.where(y == 2, x * x, np.where((y == 0.5) & (x >= 0), np.sqrt(x + 0.0), found))
        found = np.where(np.isnan(x) | np.isnan(y), np.nan, found)
        return np.where(y == 0, 1.0, found)


def _far_powers(found: np.ndarray, ax: np.ndarray, y: np.ndarray, s: np.ndarray) -> np.ndarray:
    """Overflow or underflow of huge exponents, unless the base is close to 1."""
    iy, ix = _high(np.abs(y)), _high(ax)
    up = np.where(y < 0, np.inf, 0.0)
    huge = iy > 0x41E00000
    far = iy > 0x43F00000
    found = np.where(huge & (ix < 0x3FEFFFFF), s * up, found)
    found = np.where(huge & (ix > 0x3FF00000), s * np.where(y > 0, np.inf, 0.0), found)
    found = np.where(far & (ix <= 0x3FEFFFFF), up, found)
    return np.where(far & (ix >= 0x3FF00000), np.where(y > 0, np.inf, 0.0), found)


def _log2_of(ax: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return log2 of positive numbers as the sum of two doubles, for `power`."""
    subnormal = ax < 2.0**-1022
    scaled = np.where(subnormal, ax * 9007199254740992.0, ax)
    ix = _high(scaled)
    n = (ix >> 20) - 0x3FF - np.where(subnormal, 53, 0)
    j = ix & 0xFFFFF
    above = j >= 0xBB67A
    k = ((j > 0x3988E) & ~above).astype(np.int64)
    n = n + above
    ix = (j | 0x3FF00000) - np.where(above, 0x100000, 0)
    m = _with_high(scaled, ix)
    bp = np.where(k == 1, 1.5, 1.0)
    u, v = m - bp, 1.0 / (m + bp)
    ss = u * v
    s_h = _cut(ss)
    t_h = _from_high(((ix >> 1) | 0x20000000) + 0x00080000 + (k << 18))
    t_l = m - (t_h - bp)
    s_l = v * ((u - s_h * t_h) - s_h * t_l)
    s2 = ss * ss
    r = s2 * s2 * _horner(_L, s2)
    r = r + s_l * (s_h + ss)
    s2 = s_h * s_h
    t_h = _cut(3.0 + s2 + r)
    t_l = r - ((t_h - 3.0) - s2)
    u = s_h * t_h
    v = s_l * t_h + t_l * ss
    p_h = _cut(u + v)
    p_l = v - (p_h - u)
    z_h = _CP_H * p_h
    z_l = _CP_L * p_h + p_l * _CP + np.where(k == 1, _DP_L, 0.0)
    dp_h = np.where(k == 1, _DP_H, 0.0)
    t = n.astype(np.float64)
    t1 = _cut(((z_h + z_l) + dp_h) + t)
    t2 = z_l - (((t1 - t) - dp_h) - z_h)
    near_1, near_2 = _log2_near_one(ax)
    huge = _high(np.abs(y)) > 0x41E00000
    return np.where(huge, near_1, t1), np.where(huge, near_2, t2)


def _log2_near_one(ax: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    t = ax - 1.0
    w = (t * t) * (0.5 - t * (0.3333333333333333333333 - t * 0.25))
    u = _IVLN2_H * t
    v = t * _IVLN2_L - w * _INV_LN2
    t1 = _cut(u + v)
    return t1, v - (t1 - u)


def _exp2_of(t1: np.ndarray, t2: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return 2 to the power of y * (t1 + t2), for `power`."""
    y1 = _cut(y)
    p_l = (y - y1) * t1 + y * t2
    p_h = y1 * t1
    z = p_l + p_h
    over = (z > 1024) | ((z == 1024) & (p_l + _OVT > z - p_h))
    under = (z < -1075) | ((z == -1075) & (p_l <= z - p_h))
    p_h = np.where(over | under, 0.0, p_h)
    p_l = np.where(over | under, 0.0, p_l)
    z = p_l + p_h
    j = _high(z)
    i = j & 0x7FFFFFFF
    k = np.clip((i >> 20) - 0x3FF, -1, 20)
    rounded = i > 0x3FE00000
    n = np.where(rounded, j + (0x00100000 >> (k + 1)), 0)
    k = np.clip(((n & 0x7FFFFFFF) >> 20) - 0x3FF, 0, 20)
    t = np.where(rounded, _from_high(n & ~(0x000FFFFF >> k)), 0.0)
    n = np.where(rounded, ((n & 0x000FFFFF) | 0x00100000) >> (20 - k), 0)
    n = np.where(z < 0, -n, n)
    p_h = p_h - t
    t = _cut(p_l + p_h)
    u = t * _LG2_H
    v = (p_l - (t - p_h)) * _LG2 + t * _LG2_L
    z = u + v
    w = v - (z - u)
    t = z * z
    c = z - t * _horner(_P, t)
    r = (z * c) / (c - 2.0) - (w + z * w)
    z = np.ldexp(1.0 - (r - z), n)
    return np.where(over, np.inf, np.where(under, 0.0, z))


def _split(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return x as 2**k * m with m near 1, and the low part of the high word of x."""
    subnormal = (x > 0) & (x < 2.0**-1022)
    scaled = np.where(subnormal, x * _TWO54, x)
    high = _high(scaled)
    k = (high >> 20) - 1023 - np.where(subnormal, 54, 0)
    hx = high & 0xFFFFF
    i = (hx + 0x95F64) & 0x100000
    m = _with_high(scaled, hx | (i ^ 0x3FF00000))
    return (k + (i >> 20)).astype(np.float64), m, hx


def _log_special(x: np.ndarray, found: np.ndarray) -> np.ndarray:
    found = np.where(np.isposinf(x), np.inf, found)
    found = np.where(x == 0, -np.inf, found)
    return np.where(np.isnan(x) | (x < 0), np.nan, found)


def _horner(factors: tuple[float, ...], t: np.ndarray) -> np.ndarray:
    total = np.full_like(t, factors[-1])
    for factor in factors[-2::-1]:
        total = factor + t * total
    return total


def _scaled(y: np.ndarray, k: np.ndarray) -> np.ndarray:
    """Return y * 2**k; a subnormal result is rounded once, at the end."""
    steps = k.astype(np.int64)
    low = steps < -1021
    bits = y.view(np.int64) + (np.where(low, steps + 1000, steps) << 52)
    found = bits.view(np.float64)
    return np.where(low, found * 2.0**-1000, found)


def _high(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x).view(np.int64) >> 32


def _from_high(high: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(high.astype(np.int64) << 32).view(np.float64)


def _with_high(x: np.ndarray, high: np.ndarray) -> np.ndarray:
    low = np.ascontiguousarray(x).view(np.int64) & 0xFFFFFFFF
    return ((high.astype(np.int64) << 32) | low).view(np.float64)


def _cut(x: np.ndarray) -> np.ndarray:
    """Return x with the low word of its bits zero."""
    return (np.ascontiguousarray(x).view(np.int64) & ~0xFFFFFFFF).view(np.float64)
