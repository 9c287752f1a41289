"""Partition values and statistics of a batch of add actions: the values of each `Stat`.

Typed columns are used if present, otherwise the map and the JSON statistics. Null means unknown.
Impossible statistics (negative counts, a minimum above the maximum) are treated as unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta import formats
from lazydelta._arrow import string_scalar, to_numpy
from lazydelta.expressions import nodes
from lazydelta.schema import DecimalType, PrimitiveType, to_arrow_type
from lazydelta.schema.mapping import physical_path
from lazydelta.schema.values import (
    build_scalar,
    parse_partition_values,
    unreadable_partition_values,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lazydelta.expressions.nodes import Stat
    from lazydelta.schema import DataType, StructType

__all__ = [
    "TRUNCATED_MICROS",
    "TRUNCATION_MARKER",
    "FileStats",
    "is_rounded",
    "is_string_only",
    "json_path",
    "leaf_name",
    "map_values",
    "physical_paths",
    "sanitize_stats",
]

TRUNCATED_MICROS = 999
"""Statistics truncate timestamps to milliseconds: the real maximum may be this much later."""

TRUNCATION_MARKER = "\ufffd"
"""Old writers append it to a truncated string maximum, although greater characters exist."""

_GROUPS = {"min": "minValues", "max": "maxValues", "null_count": "nullCount"}
_LONG, _BOOLEAN = PrimitiveType("long"), PrimitiveType("boolean")
_TIMESTAMPS = ("timestamp", "timestamp_ntz")
_AMBIGUOUS_WHEN_TYPED = ("timestamp", "timestamp_nanos", "float", "double")
_COUNTS = ("null_count", "num_records")
_EXACT_DIGITS = 15
_ROUNDING = 2.0**-51
_WIDE_PRECISION = 60


def physical_paths(
    stats: Iterable[Stat], schema: StructType, mode: str
) -> dict[Stat, tuple[str, ...]]:
    """Return the physical path of each statistic's column."""
    return {stat: physical_path(schema, stat.path, mode) for stat in stats}


def json_path(stat: Stat, path: tuple[str, ...]) -> tuple[str, ...]:
    """Return the path of a statistic in the JSON of `stats`, and in `stats_parsed`."""
    return (_GROUPS[stat.kind], *path) if stat.kind in _GROUPS else ("numRecords",)


def leaf_name(stat: Stat, path: tuple[str, ...]) -> str:
    """Return the leaf column of a checkpoint with the typed statistic."""
    if stat.kind == "partition":
        return ".".join(("add", "partitionValues_parsed", *path))
    return ".".join(("add", "stats_parsed", *json_path(stat, path)))


def is_rounded(kind: DataType) -> bool:
    """Whether statistics of the type may be rounded: some writers convert decimals to doubles."""
    return isinstance(kind, DecimalType) and kind.precision > _EXACT_DIGITS


def is_string_only(stat: Stat) -> bool:
    """Whether the string of a partition value is used even if a typed column exists.

    A timestamp without a zone is local to its writer, whose typed column has the instant in that
    zone; rows are read by the string. A double that was a float differs from its string.
    """
    return stat.kind == "partition" and str(stat.type) in _AMBIGUOUS_WHEN_TYPED


class FileStats:
    """Statistics of one batch of adds; each is decoded once.

    Args:
        adds: The batch, with a column per field of the add action.
        physical: The statistics that may be requested, with their physical paths.
    """

    def __init__(self, adds: pa.RecordBatch, physical: Mapping[Stat, tuple[str, ...]]) -> None:
        self.length = adds.num_rows
        self.physical = physical
        self.columns = {name: adds.column(name) for name in adds.schema.names}
        self.json_stats: dict[tuple[str, ...], pa.Array] | None = None
        self.decoded: dict[Stat, pa.Array] = {}
        self.unreadable: pa.BooleanArray | None = None
        """Files with a partition value that cannot be parsed; None if there are none."""

    def stat(self, stat: Any) -> pa.Array:
        """Return a statistic of every file; null is unknown."""
        other = {"min": "max", "max": "min"}.get(stat.kind)
        opposite = nodes.Stat(other, stat.path, stat.type) if other else None
        values = self._decode(stat)
        if opposite not in self.physical or opposite is None:
            return values
        low, high = (values, self._decode(opposite))[:: 1 if stat.kind == "min" else -1]
        if pa.types.is_boolean(low.type):
            low, high = low.cast(pa.int8()), high.cast(pa.int8())
        invalid = pc.greater(low, high)
        if not invalid.true_count:
            return values
        return pc.if_else(pc.and_kleene(invalid, invalid.is_valid()), _null(values.type), values)

    def _decode(self, stat: Stat) -> pa.Array:
        if stat not in self.decoded:
            if stat.kind == "partition":
                self.decoded[stat] = self._partition(stat)
            else:
                self.decoded[stat] = sanitize_stats(stat, self._statistic(stat))
        return self.decoded[stat]

    # --- partition values

    def _partition(self, stat: Stat) -> pa.Array:
        (name,) = self.physical[stat]
        parsed = self.columns.get("partitionValues_parsed")
        typed = _child(parsed, (name,), to_arrow_type(stat.type))
        if typed is not None and pa.types.is_string(typed.type):
            typed = _without_empty(typed)
        raw = self.columns.get("partitionValues")
        if raw is not None:
            strings = map_values(raw, name)
            values = parse_partition_values(strings, stat.type, on_error="null")
            if typed is not None and not is_string_only(stat):
                values = pc.coalesce(typed, values)
            unreadable = unreadable_partition_values(strings, values)
            return self._record(values, pc.or_(unreadable, raw.is_null()))
        if typed is not None:
            return self._record(typed, self.columns["partitionValues_parsed"].is_null())
        nulls = pa.nulls(self.length, to_arrow_type(stat.type))
        return self._record(nulls, nulls.is_null())

    def _record(self, values: pa.Array, unreadable: pa.BooleanArray) -> pa.Array:
        """Record the files whose partition value is unknown: their null does not mean NULL."""
        if unreadable.true_count:
            recorded = self.unreadable
            self.unreadable = unreadable if recorded is None else pc.or_(recorded, unreadable)
        return values

    # --- statistics

    def _statistic(self, stat: Stat) -> pa.Array:
        path = json_path(stat, self.physical[stat])
        target = to_arrow_type(stat.type)
        typed = _child(self.columns.get("stats_parsed"), path, target)
        if "stats" not in self.columns:
            return pa.nulls(self.length, target) if typed is None else typed
        if typed is None:
            return self._from_json(path)
        missing = pc.and_(self.columns["stats_parsed"].is_null(), self.columns["stats"].is_valid())
        return pc.coalesce(typed, self._from_json(path)) if missing.true_count else typed

    def _from_json(self, path: tuple[str, ...]) -> pa.Array:
        if self.json_stats is None:
            types = {
                json_path(stat, physical): stat.type
                for stat, physical in self.physical.items()
                if stat.kind != "partition"
            }
            self.json_stats = formats.parse_stats(self.columns["stats"], types)
        return self.json_stats[path]


def sanitize_stats(stat: Stat, values: pa.Array) -> pa.Array:
    """Return statistics that are true bounds: widened for lossy writers, impossible ones null."""
    name = str(stat.type)
    if stat.kind in _COUNTS:
        negative = pc.less(values, build_scalar(0, _LONG))
        return pc.if_else(negative, _null(values.type), values) if negative.true_count else values
    if name in ("float", "double"):
        nan = pc.is_nan(values)
        numbers = pc.if_else(nan, _null(values.type), values) if nan.true_count else values
        is_min = stat.kind == "min"
        return numbers if name == "float" else _widened_to_float(numbers, down=is_min)
    if stat.kind == "max" and pa.types.is_string(values.type):
        truncated = pc.ends_with(values, TRUNCATION_MARKER)
        return pc.if_else(truncated, _null(values.type), values) if truncated.true_count else values
    if name in _TIMESTAMPS and stat.kind == "max":
        latest = build_scalar(2**63 - 1 - TRUNCATED_MICROS, _LONG)
        micros = pc.min_element_wise(values.view(pa.int64()), latest, skip_nulls=False)
        return pc.add(micros, build_scalar(TRUNCATED_MICROS, _LONG)).view(values.type)
    if isinstance(stat.type, DecimalType) and is_rounded(stat.type):
        return _widened_decimal(values, stat.type, down=stat.kind == "min")
    return values


def _widened_to_float(values: pa.Array, *, down: bool) -> pa.Array:
    """Widen doubles to the nearest float, if that is a wider bound.

    The column may have been a float when its statistics were written: 0.7, for example, for a value
    that is 0.69999998 as a double.
    """
    floats = values.cast(pa.float32(), safe=False).cast(pa.float64())
    wider = pc.min_element_wise if down else pc.max_element_wise
    return wider(values, floats, skip_nulls=False)


def _widened_decimal(values: pa.Array, kind: DecimalType, *, down: bool) -> pa.Array:
    """Widen decimals by the rounding error of doubles, plus one unit of the last digit."""
    wide = pa.decimal256(_WIDE_PRECISION, kind.scale)
    size = pc.abs(values.cast(pa.float64()))
    error = pc.multiply(size, build_scalar(_ROUNDING, PrimitiveType("double")))
    margin = pc.add(error.cast(wide, safe=False), _decimal256(1, wide))
    bounds = (pc.subtract if down else pc.add)(values.cast(wide), margin)
    limit = _decimal256(10**kind.precision - 1, bounds.type)  # the largest value of the type
    if down:
        return pc.max_element_wise(bounds, pc.negate(limit), skip_nulls=False)
    return pc.min_element_wise(bounds, limit, skip_nulls=False)


def _decimal256(unscaled: int, kind: pa.Decimal256Type) -> pa.Scalar:
    raw = unscaled.to_bytes(32, "little")
    return pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(raw)])[0]


def _child(parent: Any, path: tuple[str, ...], target: pa.DataType) -> pa.Array | None:
    """Return a nested column; None if it is missing or cannot be cast to `target`."""
    if parent is None:
        return None
    kind = parent.type
    for name in path:
        if not pa.types.is_struct(kind) or kind.get_field_index(name) < 0:
            return None
        kind = kind.field(name).type
    values = pc.struct_field(parent, list(path))
    if values.type == target:
        return values
    try:
        return values.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def map_values(maps: pa.MapArray, name: str) -> pa.StringArray:
    """Return the values of one key, as strings.

    Most writers use the same keys in the same order, so the values of one key have a constant
    stride. If so (this is verified), a strided read is many times faster than a lookup per map.
    """
    key = _key(name, maps.type.key_type)
    offsets = to_numpy(maps.offsets)
    stride = int(offsets[1] - offsets[0]) if len(maps) else 0
    is_regular = stride > 0 and not maps.null_count and bool((np.diff(offsets) == stride).all())
    values = _strided_values(maps, key, int(offsets[0]), stride) if is_regular else None
    if values is None:
        values = pc.map_lookup(maps, query_key=key, occurrence="first")
    return values if values.type == pa.string() else values.cast(pa.string())


def _strided_values(maps: pa.MapArray, key: pa.Scalar, start: int, stride: int) -> pa.Array | None:
    count = len(maps) * stride
    keys, values = (part.slice(start, count) for part in (maps.keys, maps.items))
    first = pc.index(keys.slice(0, stride), key).as_py()
    if first < 0:
        return None
    if stride > 1:
        indices = np.arange(first, count, stride)
        rows = pa.Array.from_buffers(pa.int64(), len(indices), [None, pa.py_buffer(indices)])
        keys, values = keys.take(rows), values.take(rows)
    return values if pc.equal(keys, key).true_count == len(maps) else None


def _key(name: str, kind: pa.DataType) -> pa.Scalar:
    key = build_scalar(name, PrimitiveType("string"))
    return key if kind == pa.string() else key.cast(kind)


def _without_empty(strings: pa.Array) -> pa.Array:
    """Return the strings with empty ones as null: the log writes NULL this way."""
    empty = pc.equal(strings, string_scalar(""))
    return pc.if_else(empty, _null(strings.type), strings) if empty.true_count else strings


def _null(kind: pa.DataType) -> pa.Scalar:
    return pa.nulls(1, kind)[0]
