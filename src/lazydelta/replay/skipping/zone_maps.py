"""Prune sidecars of a checkpoint by the zone maps in their tags.

A zone map has the value ranges of a sidecar's adds, as a footer has those of a row group; the rule
over footers is evaluated on both. The format is in docs/adr/0026-checkpoints.md. Tags are
untrusted: one that is missing or invalid, or of another type than the table's column, is unknown,
and an unknown zone map keeps its sidecar.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta import expressions
from lazydelta.replay.skipping.file_stats import sanitize_stats
from lazydelta.schema import PrimitiveType, to_arrow_type
from lazydelta.schema.values import build_array

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lazydelta.expressions import Predicate
    from lazydelta.expressions.nodes import Stat

__all__ = ["ZoneMap", "keep_zone_maps", "read_zone_maps"]

Column = tuple[str, str]
"""One of the groups below, and the physical name of a column in it."""

_GROUPS = {"partition": "partitionValues", "min": "columns", "max": "columns"}
# Types with one string per value. Not floats (NaN), and not decimals, which some writers round.
_SUPPORTED_TYPES = frozenset(
    ("byte", "short", "integer", "long", "date", "timestamp", "timestamp_ntz", "string")
)
_STRING = PrimitiveType("string")
_COUNTS = range(2**63)
_NO_RANGE: tuple[str | None, str | None, str | None] = (None, None, None)


class ZoneMap(NamedTuple):
    """The zone map of one sidecar."""

    adds: int
    """Number of adds in the sidecar."""
    ranges: Mapping[Column, tuple[str, str, str]]
    """Arrow type, minimum and maximum of the columns that have a value in every add."""


def read_zone_maps(tag: str | None) -> ZoneMap | None:
    """Parse the tag of a sidecar; None if it is missing or invalid.

    >>> read_zone_maps('{"adds": 3, "columns": {"id": ["1", "9"]}}')
    ZoneMap(adds=3, ranges={})
    >>> read_zone_maps('{"columns": {"id": ["1", "9"]}}') is None
    True
    """
    try:
        zones = None if tag is None else orjson.loads(tag)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(zones, dict):
        return None
    adds = zones.get("adds")
    if type(adds) is not int or adds not in _COUNTS:
        return None
    ranges = dict(_ranges(zones))
    return None if ranges and not adds else ZoneMap(adds=adds, ranges=ranges)


def _ranges(zones: Mapping[str, Any]) -> Iterator[tuple[Column, tuple[str, str, str]]]:
    types = _object(zones, "types")
    for group in dict.fromkeys(_GROUPS.values()):
        named = _object(types, group)
        for name, bounds in _object(zones, group).items():
            match named.get(name), bounds:
                case str(kind), [str(minimum), str(maximum)]:
                    yield (group, name), (kind, minimum, maximum)


def _object(parent: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    child = parent.get(name)
    return child if isinstance(child, dict) else {}


def keep_zone_maps(
    rule: Predicate | None,
    zones: Sequence[ZoneMap | None],
    physical: Mapping[Stat, tuple[str, ...]],
) -> list[bool]:
    """Return which sidecars the rule over footers keeps: not FALSE, or no zone map."""
    present = [zone for zone in zones if zone is not None]
    if rule is None or not present:
        return [True] * len(zones)
    matches = expressions.evaluate(rule, _ZoneStats(present, physical).stat, len(present))
    may_match = iter(pc.or_kleene(matches, pc.is_null(matches)).to_pylist())
    return [zone is None or (next(may_match) and zone.adds > 0) for zone in zones]


class _ZoneStats:
    """Zone maps as statistics about the statistics of adds, one value per sidecar."""

    def __init__(self, zones: Sequence[ZoneMap], physical: Mapping[Stat, tuple[str, ...]]) -> None:
        self.zones = zones
        self.stats = {(stat.kind, *stat.path): (stat, physical[stat]) for stat in physical}

    def stat(self, stat: Any) -> pa.Array:
        """Return a statistic of every sidecar; null is unknown."""
        if stat.kind == "num_records":
            return build_array([zone.adds for zone in self.zones], stat.type)
        inner, path = self.stats[stat.path]
        minimum, maximum = self._bounds(inner, path)
        if stat.kind == "null_count":  # a column with a range has a value in every add
            counts = [0 if is_valid else None for is_valid in minimum.is_valid().to_pylist()]
            return build_array(counts, stat.type)
        if inner.kind not in ("partition", stat.kind):
            # A zone map has the minimum of `min` and the maximum of `max`, not the other two.
            return pa.nulls(len(self.zones), minimum.type)
        return minimum if stat.kind == "min" else maximum

    def _bounds(self, stat: Stat, path: tuple[str, ...]) -> tuple[pa.Array, pa.Array]:
        """Return the minimum and maximum of a statistic; both null if either is invalid."""
        target = to_arrow_type(stat.type)
        column = _zone_column(stat, path)
        if column is None:
            nulls = pa.nulls(len(self.zones), target)
            return nulls, nulls
        ranges = [zone.ranges.get(column, _NO_RANGE) for zone in self.zones]
        typed = [bounds if bounds[0] == str(target) else _NO_RANGE for bounds in ranges]
        minimum, maximum = (_parse([bounds[side] for bounds in typed], target) for side in (1, 2))
        is_valid = pc.less_equal(minimum, maximum)
        unknown = pa.nulls(1, target)[0]
        minimum, maximum = (pc.if_else(is_valid, side, unknown) for side in (minimum, maximum))
        if stat.kind == "partition":
            return minimum, maximum
        return sanitize_stats(stat, minimum), sanitize_stats(stat, maximum)


def _zone_column(stat: Stat, path: tuple[str, ...]) -> Column | None:
    """Return the key of a statistic in zone maps; None if it cannot have one."""
    if str(stat.type) not in _SUPPORTED_TYPES or stat.kind not in _GROUPS:
        return None
    if stat.kind == "partition":
        return _GROUPS[stat.kind], path[0]
    # `a.b` is ambiguous if names may contain dots: such columns have no zone map.
    return None if "." in "".join(path) else (_GROUPS[stat.kind], ".".join(path))


def _parse(strings: Sequence[str | None], target: pa.DataType) -> pa.Array:
    """Parse values; null for a string that is not Arrow's own form of a value."""
    array = build_array(strings, _STRING)
    try:
        values = array.cast(target)
        is_canonical = pc.equal(values.cast(pa.string()), array)
    except pa.ArrowInvalid:
        if len(strings) == 1:
            return pa.nulls(1, target)
        return pa.concat_arrays([_parse([string], target) for string in strings])
    return pc.if_else(is_canonical, values, pa.nulls(1, target)[0])
