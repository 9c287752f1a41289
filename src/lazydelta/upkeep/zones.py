"""What a sidecar's adds range over, in its tags: a reader may leave out the whole file by them.

The format is in docs/adr/0026-checkpoints.md. Every other reader passes them over, as the protocol
asks of tags that it does not know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Zones"]

TAG = "lazydelta.zones"


class Zones:
    """The least and greatest values of some columns, over the adds of one file.

    Args:
        leading: Paths of the data columns that files are sorted by.
    """

    def __init__(self, leading: Sequence[tuple[str, ...]]) -> None:
        self._leading = leading
        self._bounds: dict[tuple[str, ...], list[pa.Scalar]] = {}
        self._unknown: set[tuple[str, ...]] = set()

    def add(self, adds: Mapping[str, pa.Array]) -> None:
        """Widen the zones by some adds, in the shape of a checkpoint."""
        values = adds.get("partitionValues_parsed")
        if values is not None:
            for item, column in zip(values.type, values.flatten(), strict=True):
                self._widen(("partitionValues", item.name), column, column)
        stats = adds.get("stats_parsed")
        for path in self._leading:
            at = ("columns", *path)
            if stats is None:
                self._unknown.add(at)
            else:
                least = pc.struct_field(stats, ["minValues", *path])
                self._widen(at, least, pc.struct_field(stats, ["maxValues", *path]))

    def tags(self) -> dict[str, str]:
        """Return the zones as a tag; a column of which one file tells nothing is left out."""
        zones: dict[str, Any] = {}
        for path, bounds in self._bounds.items():
            if path not in self._unknown:
                texts = [bound.cast(pa.string()).as_py() for bound in bounds]
                zones.setdefault(path[0], {})[".".join(path[1:])] = texts
        return {TAG: orjson.dumps(zones).decode()} if zones else {}

    def _widen(self, at: tuple[str, ...], low: pa.Array, high: pa.Array) -> None:
        if low.null_count or high.null_count or at in self._unknown or not _is_texted(low.type):
            self._unknown.add(at)
            return
        known = self._bounds.get(at)
        least, greatest = pc.min(low), pc.max(high)
        if known is not None:
            least = pc.min_element_wise(least, known[0])
            greatest = pc.max_element_wise(greatest, known[1])
        self._bounds[at] = [least, greatest]


def _is_texted(kind: pa.DataType) -> bool:
    """Whether the text of a value is the one that everybody would write."""
    return (
        pa.types.is_integer(kind)
        or pa.types.is_string(kind)
        or pa.types.is_date(kind)
        or pa.types.is_timestamp(kind)
    )
