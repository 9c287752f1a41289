"""Which row groups of a checkpoint may hold the add of a matching file, from its footer alone.

A checkpoint's typed statistics are ordinary columns, so the footer has the least and greatest of
each `min` and each `max` per row group. The rule over statistics is itself a predicate on rows,
the rows of the checkpoint; rewriting it once more gives a rule over the footer. For that, "a
missing statistic keeps the file" has to be part of the rule (`expr.guarded`).
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta.expr import Column, Stat, evaluate, guarded, to_skipping
from lazydelta.replay.facts import CUT_MICROS, is_rounded, leaf_name
from lazydelta.schema import DecimalType, build_array

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow.parquet as pq

    from lazydelta.expr import Predicate
    from lazydelta.schema import DataType

__all__ = ["keep_row_groups", "row_group_rule"]

_TIMES = ("timestamp", "timestamp_ntz")
_INTEGERS = ("byte", "short", "integer", "long", "date")
_TO_MICROS = {"milliseconds": (1000, 1), "microseconds": (1, 1), "nanoseconds": (1, 1000)}
_LAST_MICROS = 2**63 - 1


def row_group_rule(rule: Predicate) -> Predicate | None:
    """Return the rule over footers: FALSE only if `rule` is FALSE for every add of a row group.

    In it, the path of a `Stat` is that of the statistic in the given rule, its kind first.
    """
    return to_skipping(_on_columns(guarded(rule)))


def keep_row_groups(
    rule: Predicate | None, metadata: pq.FileMetaData, physical: Mapping[Stat, tuple[str, ...]]
) -> list[int]:
    """Return the row groups that hold adds, and for which the rule is not FALSE."""
    footer = _Footer(metadata, physical)
    count = metadata.num_row_groups
    groups = [at for at in range(count) if footer.adds[at] != 0]
    if rule is None or not groups:
        return groups
    found = evaluate(rule, footer.stat, count)
    kept = pc.or_kleene(found, pc.is_null(found)).to_pylist()
    return [at for at in groups if kept[at]]


def _on_columns(node: Any) -> Any:
    if isinstance(node, Stat):
        return Column((node.kind, *node.path), node.type)
    return node.rebuild(tuple(map(_on_columns, node.parts())))


class _Footer:
    """The footer as statistics of statistics, one value for each row group."""

    def __init__(self, metadata: pq.FileMetaData, physical: Mapping[Stat, tuple[str, ...]]) -> None:
        self.metadata = metadata
        schema = metadata.schema
        self.places = {schema.column(at).path: at for at in range(metadata.num_columns)}
        self.leaves = {
            (stat.kind, *stat.path): leaf_name(stat, physical[stat]) for stat in physical
        }
        rows = [metadata.row_group(at).num_rows for at in range(metadata.num_row_groups)]
        others = self._null_counts("add.path")
        pairs = list(zip(rows, others, strict=True))
        self.others = others
        self.adds = [None if nulls is None else count - nulls for count, nulls in pairs]

    def stat(self, stat: Any) -> pa.Array:
        """Return a fact for every row group; null is unknown."""
        if stat.kind == "num_records":
            return build_array(self.adds, stat.type)
        name = self.leaves[stat.path]
        if stat.kind == "null_count":
            pairs = zip(self._null_counts(name), self.others, strict=True)
            known = [None if None in pair else pair[0] - pair[1] for pair in pairs]
            return build_array(known, stat.type)
        return build_array(self._bounds(name, stat), stat.type)

    def _null_counts(self, name: str) -> list[Any]:
        """Return how many rows are null; those of other actions are among them."""
        return [s.null_count if s and s.has_null_count else None for s in self._chunks(name)]

    def _bounds(self, name: str, stat: Stat) -> list[Any]:
        if str(stat.type) in ("float", "double"):
            return [None] * self.metadata.num_row_groups  # NaN is not in them
        upper = stat.kind == "max"
        if name not in self.places:
            return [None] * self.metadata.num_row_groups
        reader = _Reader(self.metadata.schema.column(self.places[name]), stat.type, upper)
        return [
            _moved(reader.bound(chunk), stat.path[0], stat.type) for chunk in self._chunks(name)
        ]

    def _chunks(self, name: str) -> list[Any]:
        place = self.places.get(name)
        groups = range(self.metadata.num_row_groups)
        if place is None:
            return [None for _ in groups]
        return [self.metadata.row_group(at).column(place).statistics for at in groups]


class _Reader:
    """Turns the raw bounds of one Parquet column into values of a Delta type, or None."""

    def __init__(self, column: Any, kind: DataType, upper: bool) -> None:
        self.kind = kind
        self.upper = upper
        self.physical = column.physical_type
        logical = column.logical_type
        self.logical = logical.type
        self.details = orjson.loads(logical.to_json())

    def bound(self, chunk: Any) -> Any:
        """Return the bound of a column chunk; None if it has none that we can use."""
        if chunk is None or not chunk.has_min_max:
            return None
        return self._value(chunk.max_raw if self.upper else chunk.min_raw)

    def _value(self, raw: Any) -> Any:
        name = str(self.kind)
        if isinstance(self.kind, DecimalType):
            return self._decimal(raw, self.kind)
        if name == "boolean":
            return raw if isinstance(raw, bool) else None
        if name in _INTEGERS:
            return raw if self.physical in ("INT32", "INT64") else None
        if name in _TIMES:
            return self._micros(raw)
        return self._text(raw)

    def _micros(self, raw: Any) -> int | None:
        times, parts = _TO_MICROS.get(self.details.get("timeUnit", ""), (0, 1))
        if self.physical != "INT64" or not times:
            return None
        return -(-raw * times // parts) if self.upper else raw * times // parts

    def _decimal(self, raw: Any, kind: DecimalType) -> Decimal | None:
        if self.logical != "DECIMAL" or self.details.get("scale") != kind.scale:
            return None
        whole = int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else raw
        return Decimal((int(whole < 0), tuple(map(int, str(abs(whole)))), -kind.scale))

    def _text(self, raw: Any) -> str | None:
        if self.physical != "BYTE_ARRAY":
            return None
        if isinstance(raw, str):
            return raw
        try:  # writers may cut in the middle of a character
            return bytes(raw).decode(errors="strict" if self.upper else "ignore")
        except UnicodeDecodeError:
            return None


def _moved(value: Any, kind: str, data_type: DataType) -> Any:
    """Move a value as the statistic it is a bound of is moved (see `replay.facts`)."""
    if value is None or kind not in ("min", "max"):
        return value
    if str(data_type) in _TIMES and kind == "max":
        return min(value + CUT_MICROS, _LAST_MICROS)
    return None if is_rounded(data_type) else value
