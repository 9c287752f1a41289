"""Which sidecars of a checkpoint may hold the add of a matching file, from their tags alone.

A sidecar's zones, which the checkpoints of this package carry in its tags, say what its adds range
over, as a footer does of a row group; so the rule over footers is asked of them too, and there is
one meaning. The format is in docs/adr/0026-checkpoints.md. A tag is somebody's text: one that is
missing or odd, or tells of another type than the table's column has, is unknown, and what is
unknown is kept. Nothing here knows where tags come from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta.expressions import evaluate
from lazydelta.replay.stats_values import trusted
from lazydelta.schema import PrimitiveType, build_array, to_arrow_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lazydelta.expressions import Predicate
    from lazydelta.expressions.nodes import Stat

__all__ = ["ZoneMap", "keep_zone_maps", "read_zone_maps"]

Column = tuple[str, str]
"""One of the groups below, and the log's name of a column in it."""

_GROUPS = {"partition": "partitionValues", "min": "columns", "max": "columns"}
# Types of which a value has one text, and two texts one order. Floats are not among them (NaN),
# nor decimals, which some writers round.
_TEXTED = frozenset(
    ("byte", "short", "integer", "long", "date", "timestamp", "timestamp_ntz", "string")
)
_STRING = PrimitiveType("string")
_COUNTS = range(2**63)
_NO_RANGE: tuple[str | None, str | None, str | None] = (None, None, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneMap:
    """What the tag of one sidecar says."""

    adds: int
    """How many adds the sidecar has."""
    ranges: Mapping[Column, tuple[str, str, str]]
    """Of columns that every add has a value of: Arrow's name of the type, least, greatest."""


def read_zone_maps(tag: str | None) -> ZoneMap | None:
    """Return what a tag says; None if that is nothing that can be relied upon.

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
                case str(kind), [str(least), str(greatest)]:
                    yield (group, name), (kind, least, greatest)


def _object(parent: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = parent.get(name)
    return found if isinstance(found, dict) else {}


def keep_zone_maps(
    rule: Predicate | None,
    zones: Sequence[ZoneMap | None],
    physical: Mapping[Stat, tuple[str, ...]],
) -> list[bool]:
    """Return of which sidecars the rule over footers is not FALSE; those without zones are kept."""
    known = [zone for zone in zones if zone is not None]
    if rule is None or not known:
        return [True] * len(zones)
    found = evaluate(rule, _Zones(known, physical).stat, len(known))
    may_match = iter(pc.or_kleene(found, pc.is_null(found)).to_pylist())
    return [zone is None or (next(may_match) and zone.adds > 0) for zone in zones]


class _Zones:
    """Zones as statistics of statistics, one value for each sidecar; null is unknown."""

    def __init__(self, zones: Sequence[ZoneMap], physical: Mapping[Stat, tuple[str, ...]]) -> None:
        self.zones = zones
        self.stats = {(stat.kind, *stat.path): (stat, physical[stat]) for stat in physical}

    def stat(self, stat: Any) -> pa.Array:
        """Return a fact for every sidecar."""
        if stat.kind == "num_records":
            return build_array([zone.adds for zone in self.zones], stat.type)
        of, path = self.stats[stat.path]
        least, greatest = self._bounds(of, path)
        if stat.kind == "null_count":  # every add has a value of a column with a range
            known = [0 if there else None for there in least.is_valid().to_pylist()]
            return build_array(known, stat.type)
        if of.kind not in ("partition", stat.kind):
            # There is the least `min` and the greatest `max`, but not the other two.
            return pa.nulls(len(self.zones), least.type)
        return least if stat.kind == "min" else greatest

    def _bounds(self, stat: Stat, path: tuple[str, ...]) -> tuple[pa.Array, pa.Array]:
        """Return the least and the greatest of a statistic; both null where either is odd."""
        target = to_arrow_type(stat.type)
        column = _column_of(stat, path)
        if column is None:
            nothing = pa.nulls(len(self.zones), target)
            return nothing, nothing
        found = [zone.ranges.get(column, _NO_RANGE) for zone in self.zones]
        told = [one if one[0] == str(target) else _NO_RANGE for one in found]
        least, greatest = (_read([one[side] for one in told], target) for side in (1, 2))
        sane = pc.less_equal(least, greatest)
        unknown = pa.nulls(1, target)[0]
        least, greatest = (pc.if_else(sane, side, unknown) for side in (least, greatest))
        is_exact = stat.kind == "partition"
        return (least, greatest) if is_exact else (trusted(stat, least), trusted(stat, greatest))


def _column_of(stat: Stat, path: tuple[str, ...]) -> Column | None:
    """Return where the zones of a statistic stand; None if there cannot be any."""
    if str(stat.type) not in _TEXTED or stat.kind not in _GROUPS:
        return None
    if stat.kind == "partition":
        return _GROUPS[stat.kind], path[0]
    # `a.b` is the name of two columns where names may have dots: such have no zones.
    return None if "." in "".join(path) else (_GROUPS[stat.kind], ".".join(path))


def _read(texts: Sequence[str | None], target: pa.DataType) -> pa.Array:
    """Return the values that texts stand for; null for any other text than Arrow's of a value."""
    given = build_array(texts, _STRING)
    try:
        values = given.cast(target)
        is_its_text = pc.equal(values.cast(pa.string()), given)
    except pa.ArrowInvalid:
        if len(texts) == 1:
            return pa.nulls(1, target)
        return pa.concat_arrays([_read([text], target) for text in texts])
    return pc.if_else(is_its_text, values, pa.nulls(1, target)[0])
