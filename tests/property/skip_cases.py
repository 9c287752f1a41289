"""Random files with honest but awkward statistics, and random predicates to ask of them."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from lazydelta.expr import as_predicate, bind, col, evaluate, lit
from lazydelta.schema import parse_schema, to_arrow_schema

_EPOCH = datetime(2026, 3, 1, tzinfo=UTC)
_LONG_TEXT = "abcdefghijklmnopqrstuvwxyz012345"  # exactly as long as statistics keep

_FIELDS = {
    "b": "byte", "i": "integer", "l": "long", "d": "date", "t": "timestamp", "n": "timestamp_ntz",
    "s": "string", "x": "double", "f": "float", "m": "decimal(10,2)", "w": "decimal(25,4)",
    "o": "boolean",
}
_PARTITIONS = {"p": "integer", "q": "string", "u": "timestamp"}


def _field(name: str, kind: Any, metadata: dict[str, str] | None = None) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": metadata or {}}


SCHEMA = parse_schema(
    json.dumps(
        {
            "type": "struct",
            "fields": [
                *(_field(name, kind) for name, kind in _FIELDS.items()),
                _field("st", {"type": "struct", "fields": [_field("k", "long")]}),
                *(_field(name, kind) for name, kind in _PARTITIONS.items()),
                _field("g", "date", {"delta.generationExpression": "CAST(n AS DATE)"}),
                _field("gy", "integer", {"delta.generationExpression": "YEAR(t)"}),
                _field("gm", "integer", {"delta.generationExpression": "MONTH(t)"}),
            ],
        }
    ),
    where="test",
)
PARTITION_COLUMNS = ("p", "q", "u", "g", "gy", "gm")
_ARROW = to_arrow_schema(SCHEMA)

_INTS = st.one_of(st.integers(-3, 3), st.sampled_from([-128, 127]))
_LONGS = st.one_of(_INTS, st.sampled_from([2**53 + 1, 2**63 - 1, -(2**63)]))
_DOUBLES = st.sampled_from(
    [0.0, -0.0, 0.1, 1.0, -1.5, 2.5, 1e300, math.inf, -math.inf, math.nan]
)
_FLOATS = _DOUBLES.map(lambda v: float(np.float32(v)) if abs(v) < 1e38 or not math.isfinite(v) else 3.0)
_TEXTS = st.one_of(
    st.sampled_from(["", "a", "ab", "abc", "b", "\x7f", "é", "\U0010ffff", "a%", "a_b", "\U0001f600"]),
    st.sampled_from(["", "x", "y", "\x7f", "\U0010ffff"]).map(lambda end: _LONG_TEXT + end),
)
_DATES = st.sampled_from([date(2025, 12, 31), date(2026, 1, 1), date(2026, 2, 28), date(2026, 3, 1)])
_MICROS = st.sampled_from([0, 1, 999, 1000, 1001, 500_000, 86_399_999_999, 86_400_000_000, -1])
_TIMES = _MICROS.map(lambda micros: _EPOCH + timedelta(microseconds=micros))
_WALLS = _TIMES.map(lambda time: time.replace(tzinfo=None))
_MONEY = st.sampled_from([Decimal(v) for v in ("0.00", "0.01", "-1.50", "99999999.99", "2.00")])
_WIDE = st.sampled_from(
    [Decimal(v) for v in ("0.0000", "123456789012345678.1234", "123456789012345678.1235",
                          "-999999999999999999999.9999", "1.5000")]
)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "b": _INTS, "i": _INTS, "l": _LONGS, "d": _DATES, "t": _TIMES, "n": _WALLS, "s": _TEXTS,
    "x": _DOUBLES, "f": _FLOATS, "m": _MONEY, "w": _WIDE, "o": st.booleans(), "st.k": _LONGS,
    "p": _INTS, "q": _TEXTS.filter(bool), "u": _TIMES, "g": _DATES, "gy": st.integers(2025, 2027),
    "gm": st.integers(1, 12),
}


@dataclass
class File:
    """The rows of a file, which of them are deleted, and what its log entry says."""

    rows: list[dict[str, Any]]
    deleted: list[bool]
    partition: dict[str, Any]
    stats: dict[str, Any] | None = None
    typed: dict[str, Any] = field(default_factory=dict)


def _wall_day(rows: list[dict[str, Any]]) -> None:
    """Make all rows of a file fall on the day of the first, for the generated column."""
    first = rows[0]["n"]
    for row in rows:
        row["n"] = None if first is None else row["n"] or first
        if first is not None:
            row["n"] = datetime.combine(first.date(), row["n"].time())


@st.composite
def files(draw: st.DrawFn) -> File:
    """Draw a file: a few rows, some deleted, with statistics over all of them."""
    count = draw(st.integers(1, 5))
    columns = list(_FIELDS)
    same = draw(st.sets(st.sampled_from(columns)))
    rows: list[dict[str, Any]] = [{} for _ in range(count)]
    for name in [*columns, "st.k"]:
        value = st.none() | VALUES[name] if draw(st.booleans()) else VALUES[name]
        if draw(st.integers(0, 9)) == 0:
            value = st.none()
        drawn = [draw(value)] * count if name in same else [draw(value) for _ in range(count)]
        for row, item in zip(rows, drawn, strict=True):
            row[name] = item
    _wall_day(rows)
    zone = timedelta(hours=draw(st.sampled_from([0, -11, 14])))
    partition = {name: draw(st.none() | VALUES[name]) for name in _PARTITIONS}
    partition |= _generated(rows, zone)
    deleted = [draw(st.booleans()) if count > 1 else False for _ in range(count)]
    found = File(rows, deleted, partition)
    if draw(st.integers(0, 9)):
        _add_stats(found, draw)
    return found


def _generated(rows: list[dict[str, Any]], zone: timedelta) -> dict[str, Any]:
    """Compute the generated partition columns, the zoned ones in the writer's own zone."""
    wall = rows[0]["n"]
    local = [row["t"] + zone for row in rows if row["t"] is not None]
    months = {(time.year, time.month) for time in local}
    if len(months) != 1 or len(local) != len(rows):
        for row in rows:
            row["t"] = None  # a file lies in one partition
        return {"g": wall and wall.date(), "gy": None, "gm": None}
    ((year, month),) = months
    return {"g": wall and wall.date(), "gy": year, "gm": month}


# --- statistics ---------------------------------------------------------------------------------


def _add_stats(file: File, draw: st.DrawFn) -> None:
    """Write statistics as some writer would: complete or not, exact or wide."""
    spark = draw(st.booleans())
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    for name in [*_FIELDS, "st.k"]:
        if draw(st.integers(0, 4)) == 0:
            continue
        values = [row[name] for row in file.rows if row[name] is not None]
        nulls[name] = len(file.rows) - len(values)
        if name in ("x", "f") and not spark:
            values = [value for value in values if not math.isnan(value)]
        if values and draw(st.integers(0, 9)):
            order = (lambda v: (math.isnan(v), v)) if name in ("x", "f") else (lambda v: v)
            rounded = not spark and name == "w"
            low[name] = _least(min(values, key=order), rounded)
            high[name] = _greatest(max(values, key=order), rounded)
            if high[name] is None:
                del high[name]
    file.typed = {"numRecords": len(file.rows), "minValues": low, "maxValues": high, "nullCount": nulls}
    file.stats = {
        "numRecords": len(file.rows),
        **{group: _nested({n: _plain(v) for n, v in values.items()})
           for group, values in (("minValues", low), ("maxValues", high), ("nullCount", nulls))},
    }


def _least(value: Any, rounded: bool) -> Any:
    if isinstance(value, str):
        return value[:32]
    if isinstance(value, datetime):
        return value.replace(microsecond=value.microsecond // 1000 * 1000)
    return Decimal(repr(float(value))) if rounded else value


def _greatest(value: Any, rounded: bool) -> Any:
    if isinstance(value, str) and len(value) > 32:
        cut = value[:32]
        return cut + "\x7f" if value[32] < "\x7f" else cut + "\U0010ffff" * (len(value) - 32)
    return _least(value, rounded)


def _plain(value: Any) -> Any:
    """Return the value as JSON holds it; decimals are put in as numbers by `stats_text`."""
    if isinstance(value, datetime):
        text = value.replace(tzinfo=None).isoformat(timespec="milliseconds")
        return text + ("Z" if value.tzinfo else "")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _nested(values: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, value in values.items():
        head, _, rest = name.partition(".")
        if rest:
            result[head] = {rest: value}
        else:
            result[head] = value
    return result


def stats_text(stats: dict[str, Any] | None) -> str | None:
    """Return statistics as the log holds them, decimals as plain numbers."""
    if stats is None:
        return None

    def dump(value: Any) -> str:
        if isinstance(value, dict):
            return "{" + ",".join(f"{json.dumps(k)}:{dump(v)}" for k, v in value.items()) + "}"
        return str(value) if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False)

    return dump(stats)


# --- predicates ---------------------------------------------------------------------------------

_OPS = ("=", "!=", "<", "<=", ">", ">=", "<=>")
_ODD_NUMBERS = st.sampled_from(
    [0, 1, -2, 200, 0.5, -1.5, 1e20, Decimal("0.5"), Decimal("2.00"), 2**63, -(2**70), math.nan, math.inf]
)
_NUMERIC = ("b", "i", "l", "x", "f", "m", "w", "st.k", "p")
_FUNCTIONS: dict[str, tuple[str, Any]] = {
    "date(t)": ("date", _DATES), "date(n)": ("date", _DATES), "cast(d as timestamp)": ("ts", _TIMES),
    "year(d)": ("int", st.integers(2025, 2027)), "month(d)": ("int", st.integers(1, 3)),
    "day(t)": ("int", st.integers(1, 31)), "hour(n)": ("int", st.sampled_from([0, 23])),
    "trunc(d, 'MM')": ("date", _DATES), "date_trunc('hour', t)": ("ts", _TIMES),
    "date_format(d, 'yyyy-MM')": ("text", st.sampled_from(["2025-12", "2026-01", "2026-03"])),
    "substring(s, 1, 2)": ("text", _TEXTS), "substring(s, 2, 2)": ("text", _TEXTS),
    "substring(s, -2)": ("text", _TEXTS), "length(s)": ("int", st.sampled_from([0, 1, 32, 33])),
    "cast(i as double)": ("num", _ODD_NUMBERS), "cast(l as double)": ("num", _ODD_NUMBERS),
    "cast(f as double)": ("num", _DOUBLES), "cast(b as string)": ("text", st.sampled_from(["1", "-2"])),
    "cast(s as integer)": ("num", _INTS), "cast(d as string)": ("text", st.just("2026-01-01")),
    "i + 1": ("num", _ODD_NUMBERS), "l - 2": ("num", _ODD_NUMBERS), "3 - b": ("num", _INTS),
    "x + 1.5D": ("num", _DOUBLES), "- i": ("num", _INTS), "i + l": ("num", _ODD_NUMBERS),
    "m + 1": ("num", _ODD_NUMBERS), "x - 1.0D": ("num", _DOUBLES), "year(u)": ("int", st.just(2026)),
    "- x": ("num", _DOUBLES), "substring(q, 1, 1)": ("text", _TEXTS),
}
_PAIRS = [("i", "l"), ("b", "p"), ("x", "f"), ("m", "w"), ("d", "t"), ("t", "n"), ("s", "q"), ("l", "x"),
          ("i", "m"), ("l", "st.k"), ("d", "g"), ("t", "u"), ("i", "i"), ("o", "o")]
_PATTERNS = st.sampled_from(
    ["a%", "ab", "%", "a_%", "%b", "a\\%", "", "_", "\U0010ffff%", _LONG_TEXT + "%", _LONG_TEXT[:10] + "%x"]
)


def _text(value: Any) -> str:
    return str(lit(value).node)


@st.composite
def _comparison(draw: st.DrawFn) -> str:
    name, op = draw(st.sampled_from(sorted(VALUES))), draw(st.sampled_from(_OPS))
    value = VALUES[name]
    if name in _NUMERIC and draw(st.booleans()):
        value = _ODD_NUMBERS
    return f"{name} {op} {_text(draw(value))}"


@st.composite
def _function(draw: st.DrawFn) -> str:
    text = draw(st.sampled_from(sorted(_FUNCTIONS)))
    value = _text(draw(_FUNCTIONS[text][1]))
    if draw(st.integers(0, 4)) == 0:
        return f"{text} IN ({value}, {_text(draw(_FUNCTIONS[text][1]))})"
    return f"{text} {draw(st.sampled_from(_OPS))} {value}"


@st.composite
def _membership(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from(sorted(VALUES)))
    options = draw(st.lists(VALUES[name], min_size=1, max_size=4))
    texts = [_text(option) for option in options]
    if draw(st.integers(0, 5)) == 0:
        texts.append("NULL")
    return f"{name} {draw(st.sampled_from(['IN', 'NOT IN']))} ({', '.join(texts)})"


_LEAVES = st.one_of(
    _comparison(),
    _comparison(),
    _membership(),
    _function(),
    st.sampled_from(sorted(VALUES)).map(lambda name: f"{name} IS NULL"),
    st.tuples(st.sampled_from(["s", "q"]), st.sampled_from(["LIKE", "NOT LIKE"]), _PATTERNS).map(
        lambda parts: f"{parts[0]} {parts[1]} {_text(parts[2])}"
    ),
    st.tuples(st.sampled_from(_PAIRS), st.sampled_from(_OPS)).map(
        lambda parts: f"{parts[0][0]} {parts[1]} {parts[0][1]}"
    ),
)


def _grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pair = st.tuples(inner, st.sampled_from(["AND", "OR"]), inner)
    return st.one_of(
        pair.map(lambda parts: f"({parts[0]}) {parts[1]} ({parts[2]})"),
        inner.map(lambda text: f"NOT ({text})"),
        inner.map(lambda text: f"({text}) IS NULL"),
        inner.map(lambda text: f"({text}) IS NOT NULL"),
        inner.map(lambda text: f"({text}) IS TRUE"),
        inner.map(lambda text: f"({text}) IS NOT FALSE"),
    )


PREDICATES = st.recursive(_LEAVES, _grown, max_leaves=4)


# --- what a file says, and what it holds ---------------------------------------------------------


def has_match(predicate: str, file: File) -> bool:
    """Whether a row that is not deleted satisfies the predicate: the truth to hold pruning to."""
    bound = bind(as_predicate(predicate), SCHEMA, PARTITION_COLUMNS)
    live = [row for row, gone in zip(file.rows, file.deleted, strict=True) if not gone]

    def column(ref: Any) -> pa.Array:
        name = ".".join(ref.path)
        values = [file.partition[name] if name in file.partition else row[name] for row in live]
        return pa.array(values, _ARROW.field(ref.path[0]).type if name != "st.k" else pa.int64())

    return bool(live) and evaluate(bound, column, len(live)).true_count > 0


def partition_text(value: Any) -> str | None:
    """Return a partition value as the log holds it."""
    if value is None:
        return None
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S.%f")
    return str(value)


__all__ = ["PARTITION_COLUMNS", "PREDICATES", "SCHEMA", "File", "col", "files", "has_match",
           "partition_text", "stats_text"]
