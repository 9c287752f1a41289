"""Statistics of a new data file: the `stats` JSON of its add action.

Bounds come from the Parquet footer, which has them from the encoded values. What a footer does not
have (null counts of lists; floats, see `parquet.write.file_writer`) is collected from the rows. A
bound that may be wrong for some reader is omitted: a missing bound costs a read, a wrong one rows.
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
from lazydelta.parquet import tuning
from lazydelta.parquet.footer.leaf_index import leaf_columns
from lazydelta.schema import DecimalType, PrimitiveType, StructType
from lazydelta.schema.values import format_date, format_timestamp

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow.parquet as pq

    from lazydelta.schema import DataType

__all__ = ["Statistics", "StatisticsPlan"]

_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""0001-01-01 and 9999-12-31: the dates that all engines can parse."""
_DAY_MICROS = 86_400_000_000
_LAST_CODE_POINT = "\U0010ffff"
_FLOATS = ("float", "double")


@dataclass(frozen=True, slots=True)
class StatisticsPlan:
    """The columns that have statistics; computed once for all files of a write."""

    leaves: tuple[tuple[tuple[str, ...], DataType], ...]

    @classmethod
    def of(cls, physical: StructType, indexed: Sequence[tuple[str, ...]]) -> StatisticsPlan:
        """Plan statistics for the indexed columns of a file (their paths)."""
        leaves = dict(physical.leaves())
        return cls(tuple((path, leaves[path]) for path in indexed if path in leaves))


@dataclass(slots=True)
class Statistics:
    """Statistics of one file while it is written."""

    plan: StatisticsPlan
    nulls: dict[tuple[str, ...], int] = field(default_factory=dict)
    """Null counts that a footer does not have: of lists, maps and variants."""
    floats: dict[tuple[str, ...], _Floats] = field(default_factory=dict)
    """Statistics of float columns."""
    long_strings: dict[tuple[str, ...], list[bytes]] = field(default_factory=dict)
    """Bounds of batches with strings too long for a footer to have bounds."""

    def observe(self, rows: pa.Table) -> None:
        """Collect the statistics of rows that the footer will not have."""
        for path, kind in self.plan.leaves:
            if _is_counted(kind):
                self.nulls[path] = self.nulls.get(path, 0) + _column(rows, path).null_count
            elif _family(kind) in _FLOATS:
                self.floats.setdefault(path, _Floats()).observe(_column(rows, path))
            elif _RENDER.get(_family(kind)) is _strings:
                self.long_strings.setdefault(path, []).extend(_long_bounds(_column(rows, path)))

    def to_json(self, footer: pq.FileMetaData) -> str:
        """Return the statistics of the file with this footer."""
        lower: dict[str, Any] = {}
        upper: dict[str, Any] = {}
        nulls: dict[str, Any] = {}
        leaves = _leaf_indices(footer)
        for path, kind in self.plan.leaves:
            if path in self.nulls:
                _put(nulls, path, self.nulls[path])
                continue
            extra = self.long_strings.get(path, ())
            chunk = self.floats.get(path) or _chunks(footer, leaves.get(".".join(path)), extra)
            if chunk is None:
                continue
            _put(nulls, path, chunk.nulls)
            try:
                low, high = chunk.bounds() if isinstance(chunk, _Floats) else _bounds(chunk, kind)
            except UnicodeDecodeError:
                name = ".".join(path)
                raise SchemaError(f"column {name!r} has a string that is not UTF-8") from None
            _put(lower, path, low)
            _put(upper, path, high)
        stats = {"numRecords": footer.num_rows}
        by_column = {"minValues": lower, "maxValues": upper, "nullCount": nulls}
        return orjson.dumps(stats | {k: v for k, v in by_column.items() if v}).decode()


@dataclass(slots=True)
class _Floats:
    """Statistics of a float column."""

    nulls: int = 0
    low: float = math.inf
    high: float = -math.inf
    has_nan: bool = False

    def observe(self, values: pa.ChunkedArray) -> None:
        self.nulls += values.null_count
        self.has_nan = self.has_nan or bool(pc.any(pc.is_nan(values)).as_py())
        low, high = (bound.as_py() for bound in pc.min_max(values).values())
        if low is not None and not math.isnan(low):  # else all values are null or NaN
            self.low, self.high = min(self.low, low), max(self.high, high)

    def bounds(self) -> tuple[Any, Any]:
        """Return the bounds as JSON values; None is unknown.

        With a NaN, which is above every number and not a JSON number, there is no upper bound. Some
        engines distinguish the two zeros: the lower bound is the negative one.
        """
        if self.low > self.high:
            return None, None
        low, high = self.low or -0.0, self.high or 0.0
        return _float(low), None if self.has_nan else _float(high)


def _leaf_indices(footer: pq.FileMetaData) -> dict[str, int]:
    """Return the index of each leaf by path, without paths that dots in names make ambiguous."""
    columns = leaf_columns(footer)
    paths = [columns.column(at).path for at in range(len(columns))]
    counts = Counter(paths)
    return {path: at for at, path in enumerate(paths) if counts[path] == 1}


@dataclass(frozen=True, slots=True)
class _Chunks:
    """A column over all row groups: null count, and the raw bounds if every row group has some."""

    nulls: int
    low: Any
    high: Any


def _chunks(footer: pq.FileMetaData, leaf: int | None, extra: Sequence[bytes]) -> _Chunks | None:
    """Merge the row groups of a column; `extra` are bounds of row groups without any."""
    if leaf is None:
        return None
    nulls, lows, highs, is_bound = 0, [*extra], [*extra], True
    for group in range(footer.num_row_groups):
        column = footer.row_group(group).column(leaf)
        statistics = column.statistics
        if statistics is None or not statistics.has_null_count:
            return None
        nulls += statistics.null_count
        if statistics.has_min_max:
            lows.append(statistics.min_raw)
            highs.append(statistics.max_raw)
        elif statistics.null_count != column.num_values:
            is_bound &= bool(extra)  # only NaN, or strings that are too long
    if not is_bound or not lows:
        return _Chunks(nulls, None, None)
    if isinstance(lows[0], bytes):
        return _Chunks(nulls, lows, highs)
    return _Chunks(nulls, min(lows), max(highs))


def _bounds(chunk: _Chunks, kind: DataType) -> tuple[Any, Any]:
    """Return the bounds as JSON values; None is unknown."""
    render = _RENDER.get("decimal" if isinstance(kind, DecimalType) else _family(kind))
    if chunk.low is None or render is None:
        return None, None
    return render(chunk.low, chunk.high, kind)


def _integers(low: int, high: int, kind: DataType) -> tuple[Any, Any]:
    del kind
    return low, high


def _float(value: float) -> float | str:
    """Return infinities as the strings that Spark writes and all engines read."""
    return value if math.isfinite(value) else "Infinity" if value > 0 else "-Infinity"


def _dates(low: int, high: int, kind: DataType) -> tuple[Any, Any]:
    del kind
    return _day(low), _day(high)


def _day(days: int) -> str | None:
    return format_date(days) if _FIRST_DAY <= days <= _LAST_DAY else None


def _times(low: int, high: int, kind: DataType) -> tuple[Any, Any]:
    """Round outwards to milliseconds: not all engines allow for a truncated maximum."""
    zone = "Z" if str(kind) == "timestamp" else ""
    return _time(low // 1000, zone), _time(-(-high // 1000), zone)


def _time(millis: int, zone: str) -> str | None:
    days = millis * 1000 // _DAY_MICROS
    if not _FIRST_DAY <= days <= _LAST_DAY:
        return None
    return format_timestamp(millis * 1000)[:-3] + zone


def _decimals(low: Any, high: Any, kind: DataType) -> tuple[Any, Any]:
    scale = kind.scale if isinstance(kind, DecimalType) else 0
    if isinstance(low, list):
        low = min(int.from_bytes(value, "big", signed=True) for value in low)
        high = max(int.from_bytes(value, "big", signed=True) for value in high)
    return _decimal(low, scale), _decimal(high, scale)


def _decimal(unscaled: int, scale: int) -> orjson.Fragment:
    """Return a JSON number with every digit, without conversion to a float."""
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    whole, part = (digits[:-scale], digits[-scale:]) if scale else (digits, "")
    return orjson.Fragment(f"{'-' if unscaled < 0 else ''}{whole}{'.' if part else ''}{part}")


def _strings(low: list[bytes], high: list[bytes], kind: DataType) -> tuple[Any, Any]:
    del kind
    return min(low).decode()[: tuning.STATS_STRING_CHARACTERS], _truncated_up(max(high).decode())


def _truncated_up(value: str) -> str:
    """Return a short string that is at least `value`, in the order of bytes and of code points.

    The tie-breaker must be greater than the character it replaces, so the last code point is never
    replaced.
    """
    at = tuning.STATS_STRING_CHARACTERS
    while at < len(value) and value[at] == _LAST_CODE_POINT:
        at += 1
    if at >= len(value):
        return value
    return value[:at] + ("\x7f" if value[at] < "\x7f" else _LAST_CODE_POINT)


_RENDER: dict[str, Callable[[Any, Any, DataType], tuple[Any, Any]]] = {
    **dict.fromkeys(("byte", "short", "integer", "long"), _integers),
    **dict.fromkeys(("timestamp", "timestamp_ntz"), _times),
    **dict.fromkeys(("string", "char", "varchar"), _strings),
    "boolean": _integers,
    "date": _dates,
    "decimal": _decimals,
}


def _family(kind: DataType) -> str:
    return kind.name.partition("(")[0] if isinstance(kind, PrimitiveType) else ""


def _is_counted(kind: DataType) -> bool:
    """Whether nulls are counted on the rows: a footer only counts those of leaves."""
    return not isinstance(kind, (PrimitiveType, DecimalType)) or _family(kind) == "variant"


def _long_bounds(strings: pa.ChunkedArray) -> list[bytes]:
    """Return the bounds of strings if one of them may be too long for a footer."""
    longest = pc.max(pc.binary_length(strings)).as_py()
    if longest is None or longest <= tuning.FOOTER_STRING_BYTES:
        return []
    return [bound.as_py() for bound in pc.min_max(strings.cast(pa.binary())).values()]


def _column(rows: pa.Table, path: tuple[str, ...]) -> pa.ChunkedArray:
    column = rows.column(path[0])
    return pc.struct_field(column, list(path[1:])) if len(path) > 1 else column


def _put(tree: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    if value is None:
        return
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = value
