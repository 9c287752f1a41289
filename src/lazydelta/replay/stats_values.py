"""What a batch of add actions says about its files: the values behind each `Stat`.

Typed columns are used where there are any, the map and the text else. Facts that cannot be true
(negative counts, a least value above the greatest) are taken as unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import integers, text
from lazydelta.expressions.nodes import Stat
from lazydelta.formats import parse_stats
from lazydelta.schema import (
    DecimalType,
    PrimitiveType,
    build_scalar,
    parse_partition_values,
    physical_path,
    to_arrow_type,
    unreadable_partition_values,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lazydelta.schema import DataType, StructType

__all__ = [
    "ANY_CHARACTER",
    "CUT_MICROS",
    "FileFacts",
    "is_rounded",
    "is_string_only",
    "json_path",
    "leaf_name",
    "map_values",
    "physical_paths",
    "trusted",
]

CUT_MICROS = 999
"""Statistics hold timestamps cut to milliseconds: a file's latest may be this much later."""

ANY_CHARACTER = "\ufffd"
"""Old writers put it where they cut a greatest text off; there are greater characters."""

_GROUPS = {"min": "minValues", "max": "maxValues", "null_count": "nullCount"}
_LONG, _BOOLEAN = PrimitiveType("long"), PrimitiveType("boolean")
_TIMES = ("timestamp", "timestamp_ntz")
_DOUBTFUL_WHEN_TYPED = ("timestamp", "timestamp_nanos", "float", "double")
_COUNTS = ("null_count", "num_records")
_EXACT_DIGITS = 15
_ROUNDING = 2.0**-51
_WIDE_DIGITS = 60


def physical_paths(
    stats: Iterable[Stat], schema: StructType, mode: str
) -> dict[Stat, tuple[str, ...]]:
    """Return the names that the log uses for the columns of some statistics."""
    return {stat: physical_path(schema, stat.path, mode) for stat in stats}


def json_path(stat: Stat, path: tuple[str, ...]) -> tuple[str, ...]:
    """Return where a statistic stands in the JSON of `stats`, and in `stats_parsed`."""
    return (_GROUPS[stat.kind], *path) if stat.kind in _GROUPS else ("numRecords",)


def leaf_name(stat: Stat, path: tuple[str, ...]) -> str:
    """Return the leaf column of a checkpoint that holds a statistic, typed."""
    if stat.kind == "partition":
        return ".".join(("add", "partitionValues_parsed", *path))
    return ".".join(("add", "stats_parsed", *json_path(stat, path)))


def is_rounded(kind: DataType) -> bool:
    """Whether statistics of the type may be rounded: some writers keep decimals as doubles."""
    return isinstance(kind, DecimalType) and kind.precision > _EXACT_DIGITS


def is_string_only(stat: Stat) -> bool:
    """Whether only the text of a partition value counts, whatever a typed column says.

    A time without a zone was local to its writer, who knew the instant when he typed it; rows are
    shown by the text. A double that was a float is another number than its text.
    """
    return stat.kind == "partition" and str(stat.type) in _DOUBTFUL_WHEN_TYPED


class FileFacts:
    """The facts of one batch; each is fetched once.

    Args:
        adds: The batch, with columns named as the fields of an add action.
        physical: The statistics that may be asked for, with the log's names of their columns.
    """

    def __init__(self, adds: pa.RecordBatch, physical: Mapping[Stat, tuple[str, ...]]) -> None:
        self.length = adds.num_rows
        self.physical = physical
        self.columns = {name: adds.column(name) for name in adds.schema.names}
        self.texts: dict[tuple[str, ...], pa.Array] | None = None
        self.fetched: dict[Stat, pa.Array] = {}
        self.unreadable: pa.BooleanArray | None = None
        """Files of which a partition value is there but cannot be read; None if there are none."""

    def stat(self, stat: Any) -> pa.Array:
        """Return a fact for every file; null is unknown."""
        other = {"min": "max", "max": "min"}.get(stat.kind)
        opposite = Stat(other, stat.path, stat.type) if other else None
        found = self._fetch(stat)
        if opposite not in self.physical or opposite is None:
            return found
        low, high = (found, self._fetch(opposite))[:: 1 if stat.kind == "min" else -1]
        if pa.types.is_boolean(low.type):
            low, high = low.cast(pa.int8()), high.cast(pa.int8())
        senseless = pc.greater(low, high)
        if not senseless.true_count:
            return found
        return pc.if_else(pc.and_kleene(senseless, senseless.is_valid()), _null(found.type), found)

    def _fetch(self, stat: Stat) -> pa.Array:
        if stat not in self.fetched:
            if stat.kind == "partition":
                self.fetched[stat] = self._partition(stat)
            else:
                self.fetched[stat] = trusted(stat, self._statistic(stat))
        return self.fetched[stat]

    # --- partition values

    def _partition(self, stat: Stat) -> pa.Array:
        (name,) = self.physical[stat]
        parsed = self.columns.get("partitionValues_parsed")
        typed = _child(parsed, (name,), to_arrow_type(stat.type))
        if typed is not None and pa.types.is_string(typed.type):
            typed = _without_empty(typed)
        raw = self.columns.get("partitionValues")
        if raw is not None:
            texts = map_values(raw, name)
            read = parse_partition_values(texts, stat.type, on_error="null")
            if typed is not None and not is_string_only(stat):
                read = pc.coalesce(typed, read)
            unreadable = unreadable_partition_values(texts, read)
            return self._note(read, pc.or_(unreadable, raw.is_null()))
        if typed is not None:
            return self._note(typed, self.columns["partitionValues_parsed"].is_null())
        nothing = pa.nulls(self.length, to_arrow_type(stat.type))
        return self._note(nothing, nothing.is_null())

    def _note(self, values: pa.Array, unreadable: pa.BooleanArray) -> pa.Array:
        """Remember of which files nothing is known: their null does not mean NULL."""
        if unreadable.true_count:
            known = self.unreadable
            self.unreadable = unreadable if known is None else pc.or_(known, unreadable)
        return values

    # --- statistics

    def _statistic(self, stat: Stat) -> pa.Array:
        path = json_path(stat, self.physical[stat])
        target = to_arrow_type(stat.type)
        typed = _child(self.columns.get("stats_parsed"), path, target)
        if "stats" not in self.columns:
            return pa.nulls(self.length, target) if typed is None else typed
        if typed is None:
            return self._from_text(path)
        missing = pc.and_(self.columns["stats_parsed"].is_null(), self.columns["stats"].is_valid())
        return pc.coalesce(typed, self._from_text(path)) if missing.true_count else typed

    def _from_text(self, path: tuple[str, ...]) -> pa.Array:
        if self.texts is None:
            wanted = {
                json_path(stat, physical): stat.type
                for stat, physical in self.physical.items()
                if stat.kind != "partition"
            }
            self.texts = parse_stats(self.columns["stats"], wanted)
        return self.texts[path]


def trusted(stat: Stat, values: pa.Array) -> pa.Array:
    """Make bounds of statistics; what cannot be true becomes unknown."""
    name = str(stat.type)
    if stat.kind in _COUNTS:
        negative = pc.less(values, build_scalar(0, _LONG))
        return pc.if_else(negative, _null(values.type), values) if negative.true_count else values
    if name in ("float", "double"):
        nan = pc.is_nan(values)
        known = pc.if_else(nan, _null(values.type), values) if nan.true_count else values
        return known if name == "float" else _outer_of_floats(known, down=stat.kind == "min")
    if stat.kind == "max" and pa.types.is_string(values.type):
        cut = pc.ends_with(values, ANY_CHARACTER)
        return pc.if_else(cut, _null(values.type), values) if cut.true_count else values
    if name in _TIMES and stat.kind == "max":
        latest = build_scalar(2**63 - 1 - CUT_MICROS, _LONG)
        micros = pc.min_element_wise(values.view(pa.int64()), latest, skip_nulls=False)
        return pc.add(micros, build_scalar(CUT_MICROS, _LONG)).view(values.type)
    if isinstance(stat.type, DecimalType) and is_rounded(stat.type):
        return _widened(values, stat.type, down=stat.kind == "min")
    return values


def _outer_of_floats(values: pa.Array, *, down: bool) -> pa.Array:
    """Move doubles out to the nearest float, where that is farther out.

    A column may have been one of floats when its statistics were written: as 0.7, say, for what
    is 0.69999998 as a double.
    """
    floats = values.cast(pa.float32(), safe=False).cast(pa.float64())
    outer = pc.min_element_wise if down else pc.max_element_wise
    return outer(values, floats, skip_nulls=False)


def _widened(values: pa.Array, kind: DecimalType, *, down: bool) -> pa.Array:
    """Move decimals out by what a writer loses that keeps them as doubles, and one step more."""
    wide = pa.decimal256(_WIDE_DIGITS, kind.scale)
    size = pc.abs(values.cast(pa.float64()))
    error = pc.multiply(size, build_scalar(_ROUNDING, PrimitiveType("double")))
    apart = pc.add(error.cast(wide, safe=False), _wide(1, wide))
    moved = (pc.subtract if down else pc.add)(values.cast(wide), apart)
    end = _wide(10**kind.precision - 1, moved.type)  # no value lies beyond what the type can hold
    if down:
        return pc.max_element_wise(moved, pc.negate(end), skip_nulls=False)
    return pc.min_element_wise(moved, end, skip_nulls=False)


def _wide(unscaled: int, kind: pa.Decimal256Type) -> pa.Scalar:
    raw = unscaled.to_bytes(32, "little")
    return pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(raw)])[0]


def _child(parent: Any, path: tuple[str, ...], target: pa.DataType) -> pa.Array | None:
    """Return a nested column; None if it is not there or not of a type we can use."""
    if parent is None:
        return None
    kind = parent.type
    for name in path:
        if not pa.types.is_struct(kind) or kind.get_field_index(name) < 0:
            return None
        kind = kind.field(name).type
    found = pc.struct_field(parent, list(path))
    if found.type == target:
        return found
    try:
        return found.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def map_values(maps: pa.MapArray, name: str) -> pa.StringArray:
    """Return the values of one key, as texts.

    Writers put the same keys in the same order, so the values of one key stand at even distances;
    where that holds (it is checked), it is many times faster than looking each one up.
    """
    key = _key(name, maps.type.key_type)
    offsets = integers(maps.offsets)
    each = int(offsets[1] - offsets[0]) if len(maps) else 0
    even = each > 0 and not maps.null_count and bool((np.diff(offsets) == each).all())
    found = _at_even_distance(maps, key, int(offsets[0]), each) if even else None
    if found is None:
        found = pc.map_lookup(maps, query_key=key, occurrence="first")
    return found if found.type == pa.string() else found.cast(pa.string())


def _at_even_distance(maps: pa.MapArray, key: pa.Scalar, start: int, each: int) -> pa.Array | None:
    count = len(maps) * each
    keys, values = (part.slice(start, count) for part in (maps.keys, maps.items))
    at = pc.index(keys.slice(0, each), key).as_py()
    if at < 0:
        return None
    if each > 1:
        places = np.arange(at, count, each)
        rows = pa.Array.from_buffers(pa.int64(), len(places), [None, pa.py_buffer(places)])
        keys, values = keys.take(rows), values.take(rows)
    return values if pc.equal(keys, key).true_count == len(maps) else None


def _key(name: str, kind: pa.DataType) -> pa.Scalar:
    key = build_scalar(name, PrimitiveType("string"))
    return key if kind == pa.string() else key.cast(kind)


def _without_empty(texts: pa.Array) -> pa.Array:
    """Return texts, null where they are empty: that is how the log writes NULL."""
    empty = pc.equal(texts, text(""))
    return pc.if_else(empty, _null(texts.type), texts) if empty.true_count else texts


def _null(kind: pa.DataType) -> pa.Scalar:
    return pa.nulls(1, kind)[0]
