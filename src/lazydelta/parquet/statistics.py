"""Statistics of a new data file: the `stats` text of its add action.

Bounds come from the Parquet footer, where the writer has them from the very values it encoded;
what a footer does not tell (nulls of lists; floats, see `parquet.file_writer`) is found on the rows as
they pass. A bound that is not certain to hold for every reader is left out: a missing bound costs
a read, a wrong one rows.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta.errors import SchemaError
from lazydelta.parquet.row_group_filter import leaf_columns
from lazydelta.schema import DecimalType, PrimitiveType, StructType
from lazydelta.schema.values import format_date, format_timestamp

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow.parquet as pq

    from lazydelta.schema import DataType

__all__ = ["Statistics", "StatisticsPlan"]

_CUT = 32
"""Texts are cut to this many characters."""
_FOOTER_TEXT = 1000
"""Texts of so many bytes are certain to be in a footer; those above 4096 are not."""
_LEAST_DAY, _GREATEST_DAY = -719_162, 2_932_896
"""0001-01-01 and 9999-12-31: what all engines can read back."""
_DAY_MICROS = 86_400_000_000
_LAST_CODE_POINT = "\U0010ffff"
_FLOATS = ("float", "double")


@dataclass(frozen=True, slots=True)
class StatisticsPlan:
    """Which columns of a file have statistics; made once for all files of a write."""

    leaves: tuple[tuple[tuple[str, ...], DataType], ...]

    @classmethod
    def of(cls, physical: StructType, indexed: Sequence[tuple[str, ...]]) -> StatisticsPlan:
        """Plan for the columns of a file, of which some (their paths) are indexed."""
        known = dict(physical.leaves())
        return cls(tuple((path, known[path]) for path in indexed if path in known))


@dataclass(slots=True)
class Statistics:
    """What is known of one file while it is written."""

    plan: StatisticsPlan
    nulls: dict[tuple[str, ...], int] = field(default_factory=dict)
    """Of columns whose nulls a footer does not count: lists, maps, variants."""
    floats: dict[tuple[str, ...], _Floats] = field(default_factory=dict)
    """Of columns of floats, all there is to know."""
    long_texts: dict[tuple[str, ...], list[bytes]] = field(default_factory=dict)
    """Bounds of rows with texts so long that a footer leaves its bounds out."""

    def observe(self, rows: pa.Table) -> None:
        """Take note of what a footer will not tell about these rows."""
        for path, kind in self.plan.leaves:
            if _is_counted(kind):
                self.nulls[path] = self.nulls.get(path, 0) + _column(rows, path).null_count
            elif _family(kind) in _FLOATS:
                self.floats.setdefault(path, _Floats()).take(_column(rows, path))
            elif _RENDER.get(_family(kind)) is _texts:
                self.long_texts.setdefault(path, []).extend(_long_bounds(_column(rows, path)))

    def to_json(self, footer: pq.FileMetaData) -> str:
        """Return the statistics of the file with this footer."""
        least: dict[str, Any] = {}
        greatest: dict[str, Any] = {}
        nulls: dict[str, Any] = {}
        places = _places(footer)
        for path, kind in self.plan.leaves:
            if path in self.nulls:
                _put(nulls, path, self.nulls[path])
                continue
            known = self.long_texts.get(path, ())
            chunk = self.floats.get(path) or _chunks(footer, places.get(".".join(path)), known)
            if chunk is None:
                continue
            _put(nulls, path, chunk.nulls)
            try:
                low, high = chunk.bounds() if isinstance(chunk, _Floats) else _bounds(chunk, kind)
            except UnicodeDecodeError:
                name = ".".join(path)
                raise SchemaError(f"column {name!r} has text that is not UTF-8") from None
            _put(least, path, low)
            _put(greatest, path, high)
        found = {"numRecords": footer.num_rows}
        named = {"minValues": least, "maxValues": greatest, "nullCount": nulls}
        return orjson.dumps(found | {k: v for k, v in named.items() if v}).decode()


@dataclass(slots=True)
class _Floats:
    """A column of floats, as far as its rows have passed."""

    nulls: int = 0
    low: float = math.inf
    high: float = -math.inf
    has_nan: bool = False

    def take(self, values: pa.ChunkedArray) -> None:
        """Look at more rows."""
        self.nulls += values.null_count
        self.has_nan = self.has_nan or bool(pc.any(pc.is_nan(values)).as_py())
        low, high = (bound.as_py() for bound in pc.min_max(values).values())
        if low is not None and not math.isnan(low):  # else there is no number among them
            self.low, self.high = min(self.low, low), max(self.high, high)

    def bounds(self) -> tuple[Any, Any]:
        """Return the least and greatest value as JSON holds them; None is unknown.

        NaN is above every number, and no JSON number: what is unknown then is how far up it goes.
        Of the two zeros, which some engines tell apart, the bounds have the outer one.
        """
        if self.low > self.high:
            return None, None
        low, high = self.low or -0.0, self.high or 0.0
        return _float(low), None if self.has_nan else _float(high)


def _places(footer: pq.FileMetaData) -> dict[str, int]:
    """Return where each leaf is; of leaves that look alike, for the dots in a name, none."""
    columns = leaf_columns(footer)
    paths = [columns.column(at).path for at in range(len(columns))]
    counts = Counter(paths)
    return {path: at for at, path in enumerate(paths) if counts[path] == 1}


@dataclass(frozen=True, slots=True)
class _Chunks:
    """A column over all row groups: nulls, and the raw bounds where each of them has some."""

    nulls: int
    low: Any
    high: Any


def _chunks(footer: pq.FileMetaData, at: int | None, known: Sequence[bytes]) -> _Chunks | None:
    """Put the row groups of a column together; `known` are bounds of those that have none."""
    if at is None:
        return None
    nulls, lows, highs, is_bound = 0, [*known], [*known], True
    for group in range(footer.num_row_groups):
        column = footer.row_group(group).column(at)
        found = column.statistics
        if found is None or not found.has_null_count:
            return None
        nulls += found.null_count
        if found.has_min_max:
            lows.append(found.min_raw)
            highs.append(found.max_raw)
        elif found.null_count != column.num_values:
            is_bound &= bool(known)  # only NaN, or texts that are too long
    if not is_bound or not lows:
        return _Chunks(nulls, None, None)
    if isinstance(lows[0], bytes):
        return _Chunks(nulls, lows, highs)
    return _Chunks(nulls, min(lows), max(highs))


def _bounds(chunk: _Chunks, kind: DataType) -> tuple[Any, Any]:
    """Return the least and greatest value as JSON holds them; None is unknown."""
    render = _RENDER.get("decimal" if isinstance(kind, DecimalType) else _family(kind))
    if chunk.low is None or render is None:
        return None, None
    return render(chunk.low, chunk.high, kind)


def _integers(low: int, high: int, kind: DataType) -> tuple[Any, Any]:
    del kind
    return low, high


def _float(value: float) -> float | str:
    """Return what JSON has no number for as the text that Spark writes, and all engines read."""
    return value if math.isfinite(value) else "Infinity" if value > 0 else "-Infinity"


def _dates(low: int, high: int, kind: DataType) -> tuple[Any, Any]:
    del kind
    return _day(low), _day(high)


def _day(days: int) -> str | None:
    return format_date(days) if _LEAST_DAY <= days <= _GREATEST_DAY else None


def _times(low: int, high: int, kind: DataType) -> tuple[Any, Any]:
    """Cut to milliseconds, outwards: engines differ in whether they allow for a cut maximum."""
    zone = "Z" if str(kind) == "timestamp" else ""
    return _time(low // 1000, zone), _time(-(-high // 1000), zone)


def _time(millis: int, zone: str) -> str | None:
    days = millis * 1000 // _DAY_MICROS
    if not _LEAST_DAY <= days <= _GREATEST_DAY:
        return None
    return format_timestamp(millis * 1000)[:-3] + zone


def _decimals(low: Any, high: Any, kind: DataType) -> tuple[Any, Any]:
    scale = kind.scale if isinstance(kind, DecimalType) else 0
    if isinstance(low, list):
        low = min(int.from_bytes(value, "big", signed=True) for value in low)
        high = max(int.from_bytes(value, "big", signed=True) for value in high)
    return _decimal(low, scale), _decimal(high, scale)


def _decimal(unscaled: int, scale: int) -> orjson.Fragment:
    """Return a JSON number with every digit: no float comes between."""
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    whole, part = (digits[:-scale], digits[-scale:]) if scale else (digits, "")
    return orjson.Fragment(f"{'-' if unscaled < 0 else ''}{whole}{'.' if part else ''}{part}")


def _texts(low: list[bytes], high: list[bytes], kind: DataType) -> tuple[Any, Any]:
    del kind
    return min(low).decode()[:_CUT], _cut_above(max(high).decode())


def _cut_above(text: str) -> str:
    """Return a short text that no text up to this one is above, by bytes or by code points.

    The tie-breaker must be greater than the character it stands for, so the cut is behind those
    that none is greater than.
    """
    at = _CUT
    while at < len(text) and text[at] == _LAST_CODE_POINT:
        at += 1
    if at >= len(text):
        return text
    return text[:at] + ("\x7f" if text[at] < "\x7f" else _LAST_CODE_POINT)


_RENDER: dict[str, Callable[[Any, Any, DataType], tuple[Any, Any]]] = {
    **dict.fromkeys(("byte", "short", "integer", "long"), _integers),
    **dict.fromkeys(("timestamp", "timestamp_ntz"), _times),
    **dict.fromkeys(("string", "char", "varchar"), _texts),
    "boolean": _integers,
    "date": _dates,
    "decimal": _decimals,
}


def _family(kind: DataType) -> str:
    return kind.name.partition("(")[0] if isinstance(kind, PrimitiveType) else ""


def _is_counted(kind: DataType) -> bool:
    """Whether a footer has no null count of the values themselves, only of what is inside them."""
    return not isinstance(kind, (PrimitiveType, DecimalType)) or _family(kind) == "variant"


def _long_bounds(texts: pa.ChunkedArray) -> list[bytes]:
    """Return the least and greatest text if one of them may be too long for a footer."""
    longest = pc.max(pc.binary_length(texts)).as_py()
    if longest is None or longest <= _FOOTER_TEXT:
        return []
    return [bound.as_py() for bound in pc.min_max(texts.cast(pa.binary())).values()]


def _column(rows: pa.Table, path: tuple[str, ...]) -> pa.ChunkedArray:
    column = rows.column(path[0])
    return pc.struct_field(column, list(path[1:])) if len(path) > 1 else column


def _put(tree: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    if value is None:
        return
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = value
