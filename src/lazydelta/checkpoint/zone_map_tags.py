"""What a sidecar's adds range over, in its tags: a reader may leave out the whole file by them.

Writes what `replay.skipping` reads; the format is in docs/adr/0026-checkpoints.md. Every other reader
passes it over, as the protocol asks of tags that it does not know.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta.protocol import ZONE_MAP_TAG

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Zones"]

_LONGEST_TEXT = 256
"""Characters. A longer bound is left out: tags stand in the manifest and in `_last_checkpoint`."""


@dataclass(slots=True)
class _Range:
    """The least and greatest value of a column, over so many adds."""

    least: pa.Scalar
    greatest: pa.Scalar
    adds: int = 0


class Zones:
    """The number of adds in one file, and the least and greatest values of some columns.

    Args:
        leading: Paths of the data columns that files are sorted by.
    """

    def __init__(self, leading: Sequence[tuple[str, ...]]) -> None:
        # `a.b` would be the name of two columns where names have dots.
        self._leading = {".".join(path): path for path in leading if "." not in "".join(path)}
        self._adds = 0
        self._ranges: dict[tuple[str, str], _Range] = {}

    def add(self, adds: Mapping[str, pa.Array]) -> None:
        """Widen the zones by some adds, in the shape of a checkpoint."""
        self._adds += len(adds["path"])
        values = adds.get("partitionValues_parsed")
        if values is not None:
            for item, column in zip(values.type, values.flatten(), strict=True):
                self._widen(("partitionValues", item.name), column, column)
        stats = adds.get("stats_parsed")
        if stats is not None:
            for name, path in self._leading.items():
                least = pc.struct_field(stats, ["minValues", *path])
                greatest = pc.struct_field(stats, ["maxValues", *path])
                self._widen(("columns", name), least, greatest)

    def tags(self) -> dict[str, str]:
        """Return the zones as a tag; a column that not every add tells of is left out."""
        zones: dict[str, Any] = {"adds": self._adds}
        types: dict[str, Any] = {}
        for (group, name), found in self._ranges.items():
            texts = [bound.cast(pa.string()).as_py() for bound in (found.least, found.greatest)]
            if found.adds == self._adds and max(map(len, texts)) <= _LONGEST_TEXT:
                zones.setdefault(group, {})[name] = texts
                types.setdefault(group, {})[name] = str(found.least.type)
        zones |= {"types": types} if types else {}
        return {ZONE_MAP_TAG: orjson.dumps(zones).decode()}

    def _widen(self, at: tuple[str, str], low: pa.Array, high: pa.Array) -> None:
        """Count adds in; those of which one tells nothing, or what cannot be, are not counted."""
        if not len(low) or low.null_count or high.null_count or not _is_texted(low.type):
            return
        if pc.greater(low, high).true_count:
            return
        known = self._ranges.setdefault(at, _Range(low[0], high[0]))
        known.least = pc.min(_one_more(low, known.least))
        known.greatest = pc.max(_one_more(high, known.greatest))
        known.adds += len(low)


def _one_more(values: pa.Array, value: pa.Scalar) -> pa.ChunkedArray:
    # `min_element_wise` does not know timestamps with a zone.
    return pa.chunked_array([values, pa.repeat(value, 1)])


def _is_texted(kind: pa.DataType) -> bool:
    """Whether the text of a value is the one that everybody would write."""
    return (
        pa.types.is_integer(kind)
        or pa.types.is_string(kind)
        or pa.types.is_date(kind)
        or pa.types.is_timestamp(kind)
    )
