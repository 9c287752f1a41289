"""The zone map of a sidecar, in its tags: a reader can skip the whole file by it.

`replay.zone_maps` reads it; the format is in docs/adr/0026-checkpoints.md. Other readers ignore it,
as the protocol requires of unknown tags.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta.checkpoint import tuning
from lazydelta.protocol import ZONE_MAP_TAG

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["ZoneMap"]


@dataclass(slots=True)
class _Range:
    """The minimum and maximum of a column over a number of adds."""

    minimum: pa.Scalar
    maximum: pa.Scalar
    adds: int = 0


class ZoneMap:
    """The number of adds in one file, and the minimum and maximum of some columns.

    Args:
        sort_columns: Paths of the data columns that adds are sorted by.
    """

    def __init__(self, sort_columns: Sequence[tuple[str, ...]]) -> None:
        # Names may contain dots: `a.b` could mean two columns.
        self._columns = {".".join(path): path for path in sort_columns if "." not in "".join(path)}
        self._adds = 0
        self._ranges: dict[tuple[str, str], _Range] = {}

    def add(self, adds: Mapping[str, pa.Array]) -> None:
        """Extend the zone map by adds in the schema of the checkpoint."""
        self._adds += len(adds["path"])
        values = adds.get("partitionValues_parsed")
        if values is not None:
            for item, column in zip(values.type, values.flatten(), strict=True):
                self._extend(("partitionValues", item.name), column, column)
        stats = adds.get("stats_parsed")
        if stats is not None:
            for name, path in self._columns.items():
                low = pc.struct_field(stats, ["minValues", *path])
                high = pc.struct_field(stats, ["maxValues", *path])
                self._extend(("columns", name), low, high)

    def tags(self) -> dict[str, str]:
        """Return the tag; it omits columns that lack bounds in any add."""
        zone_map: dict[str, Any] = {"adds": self._adds}
        types: dict[str, Any] = {}
        for (group, name), value_range in self._ranges.items():
            bounds = [
                bound.cast(pa.string()).as_py()
                for bound in (value_range.minimum, value_range.maximum)
            ]
            if value_range.adds == self._adds and max(map(len, bounds)) <= tuning.BOUND_CHARACTERS:
                zone_map.setdefault(group, {})[name] = bounds
                types.setdefault(group, {})[name] = str(value_range.minimum.type)
        zone_map |= {"types": types} if types else {}
        return {ZONE_MAP_TAG: orjson.dumps(zone_map).decode()}

    def _extend(self, column: tuple[str, str], low: pa.Array, high: pa.Array) -> None:
        """Extend the range of a column; adds with missing or inverted bounds are not counted."""
        if not len(low) or low.null_count or high.null_count or not _has_canonical_string(low.type):
            return
        if pc.greater(low, high).true_count:
            return
        value_range = self._ranges.setdefault(column, _Range(low[0], high[0]))
        value_range.minimum = pc.min(_append(low, value_range.minimum))
        value_range.maximum = pc.max(_append(high, value_range.maximum))
        value_range.adds += len(low)


def _append(values: pa.Array, value: pa.Scalar) -> pa.ChunkedArray:
    # `min_element_wise` does not support timestamps with a time zone.
    return pa.chunked_array([values, pa.repeat(value, 1)])


def _has_canonical_string(kind: pa.DataType) -> bool:
    """Whether every engine serializes a value of the type as the same string."""
    return (
        pa.types.is_integer(kind)
        or pa.types.is_string(kind)
        or pa.types.is_date(kind)
        or pa.types.is_timestamp(kind)
    )
