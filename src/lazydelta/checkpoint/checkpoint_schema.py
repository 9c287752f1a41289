"""What a checkpoint of a table looks like: its columns, from the table's schema and properties.

Adds come as commits or another writer's checkpoint have them and leave in this shape: statistics
as text, typed, or both (`delta.checkpoint.writeStatsAsJson`, `writeStatsAsStruct`); partition
values typed beside their texts. Pure: batches in, batches out; which order they are in, and where
they go, others decide.
"""

from __future__ import annotations

import io
import re
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import from_mask, true_mask
from lazydelta.checkpoint.full_replay import STATS_PARSED
from lazydelta.errors import SchemaError
from lazydelta.formats import parse_stats, split_lines
from lazydelta.protocol.features import supported_by_table
from lazydelta.protocol.schemas import ADD, REMOVE_ACTION
from lazydelta.replay.skipping import map_values
from lazydelta.scan.plan import conformed, nulls
from lazydelta.schema import DataType, DecimalType, PrimitiveType, to_arrow_type
from lazydelta.schema.mapping import to_physical
from lazydelta.schema.values import parse_partition_values
from lazydelta.writer import DataLayout

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lazydelta.snapshot import SnapshotState

__all__ = ["CheckpointSettings", "CheckpointShape", "checkpoint_interval"]

Path = tuple[str, ...]

PARTITION_VALUES_PARSED = "partitionValues_parsed"
_MOST_CLUSTERING, _MOST_INDEXED = 4, 2
"""Columns that count in the order: as many as a table can usefully be clustered by, or the first
with statistics, of which the second seldom has to decide anything."""
_WITHOUT_BOUNDS = ("boolean", "binary", "void", "null", "variant")
_LONG, _BOOLEAN = PrimitiveType("long"), PrimitiveType("boolean")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSettings:
    """The table's properties about checkpoints; parsed when one is due, never by readers."""

    interval: int = 10
    is_v2: bool = False
    stats_as_json: bool = True
    stats_as_struct: bool = True

    @classmethod
    def of(cls, snapshot: SnapshotState) -> CheckpointSettings:
        """Read the properties of a table; V2 counts only where the protocol allows it."""
        configuration = snapshot.metadata.configuration
        allowed = "v2Checkpoint" in supported_by_table(snapshot.protocol)
        return cls(
            interval=checkpoint_interval(configuration),
            is_v2=allowed and configuration.get("delta.checkpointPolicy", "classic") == "v2",
            stats_as_json=_flag(configuration, "delta.checkpoint.writeStatsAsJson"),
            stats_as_struct=_flag(configuration, "delta.checkpoint.writeStatsAsStruct"),
        )


def checkpoint_interval(configuration: Mapping[str, str]) -> int:
    """Return after how many commits a checkpoint is due."""
    text = configuration.get("delta.checkpointInterval", "10")
    if not re.fullmatch(r"[1-9]\d{0,17}", text):
        raise SchemaError(f"delta.checkpointInterval cannot be {text!r}; give a number from 1 on")
    return int(text)


def _flag(configuration: Mapping[str, str], key: str) -> bool:
    return configuration.get(key, "true").lower() == "true"


class CheckpointShape:
    """The columns of `add` and `remove` in checkpoints of one version."""

    def __init__(
        self,
        snapshot: SnapshotState,
        settings: CheckpointSettings,
        *,
        clustered_by: Sequence[Path] = (),
    ) -> None:
        self.settings = settings
        layout = DataLayout.of(
            snapshot.schema,
            snapshot.protocol,
            snapshot.metadata,
            snapshot.config.write,
            clustered_by=clustered_by,
        )
        physical = to_physical(snapshot.schema, layout.mapping_mode)
        mapped = dict(zip(snapshot.schema.names, physical, strict=True))
        columns = [mapped[name] for name in snapshot.partition_columns]
        self.partitions: dict[str, DataType] = {item.name: item.type for item in columns}
        self._known = {name: _KnownTexts(kind) for name, kind in self.partitions.items()}
        self._has_vectors = "deletionVectors" in supported_by_table(snapshot.protocol)
        indexed = set(layout.indexed)
        self._leaves = {path: kind for path, kind in physical.leaves() if path in indexed}
        leading = [path for path in clustered_by if path in self._bounded]
        self.leading = leading[:_MOST_CLUSTERING] or list(self._bounded)[:_MOST_INDEXED]
        """The columns that files of one partition are sorted by."""

    # --- types

    def kind_of(self, path: Path) -> DataType:
        """Return the type of a column that has statistics."""
        return self._leaves[path]

    @cached_property
    def stats(self) -> pa.StructType:
        """The type of `stats_parsed`."""
        counts = {path: pa.int64() for path in self._leaves}
        groups = [
            ("minValues", _tree(self._bounded)),
            ("maxValues", _tree(self._bounded)),
            ("nullCount", _tree(counts)),
        ]
        tight = [("tightBounds", pa.bool_())] if self._has_vectors else []
        filled = [(name, kind) for name, kind in groups if kind.num_fields]
        return pa.struct([("numRecords", pa.int64()), *tight, *filled])

    @cached_property
    def add(self) -> pa.StructType:
        """The type of `add`."""
        fields = [item for item in ADD if item.name != "stats"]
        if self.partitions and self.settings.stats_as_struct:
            typed = [(name, to_arrow_type(kind)) for name, kind in self.partitions.items()]
            fields.append(pa.field(PARTITION_VALUES_PARSED, pa.struct(typed)))
        if self.settings.stats_as_json:
            fields.append(ADD.field("stats"))
        if self.settings.stats_as_struct:
            fields.append(pa.field(STATS_PARSED, self.stats))
        return pa.struct(fields)

    @cached_property
    def remove(self) -> pa.StructType:
        """The type of `remove`: the protocol leaves statistics and tags to the commits."""
        return pa.struct([item for item in REMOVE_ACTION if item.name not in ("stats", "tags")])

    @cached_property
    def _bounded(self) -> dict[Path, pa.DataType]:
        return {
            path: to_arrow_type(kind) for path, kind in self._leaves.items() if _has_order(kind)
        }

    # --- batches

    def shaped(self, adds: pa.RecordBatch) -> dict[str, pa.Array]:
        """Return the fields of adds in this shape, by name; those that are null throughout lack.

        Args:
            adds: As `FullReplay.adds` yields them.
        """
        columns = {name: adds.column(name) for name in adds.schema.names}
        texts, typed = columns.pop("stats", None), columns.pop(STATS_PARSED, None)
        if self.settings.stats_as_json:
            if typed is not None and (texts is None or texts.null_count):
                texts = _stats_as_text(texts, typed)
            if texts is not None:
                columns["stats"] = texts
        if self.settings.stats_as_struct:
            columns[STATS_PARSED] = self._typed_stats(texts, typed, adds.num_rows)
            if self.partitions:
                columns[PARTITION_VALUES_PARSED] = self.partition_values(
                    adds.column("partitionValues")
                )
        columns["dataChange"] = from_mask(np.zeros(adds.num_rows, np.bool_))
        return {name: column for name, column in columns.items() if column.null_count < len(column)}

    def partition_values(self, texts: pa.MapArray) -> pa.StructArray:
        """Return typed partition values; a text that is no value becomes null."""
        parsed = [self._known[name].typed(map_values(texts, name)) for name in self.partitions]
        return pa.StructArray.from_arrays(parsed, list(self.partitions))

    def partitions_of(self, adds: Mapping[str, pa.Array]) -> list[pa.Array]:
        """Return the typed partition values of adds in this shape, one array for each column."""
        if not self.partitions:
            return []
        known = adds.get(PARTITION_VALUES_PARSED)
        if known is not None:
            return list(known.flatten())
        return list(self.partition_values(adds["partitionValues"]).flatten())

    def least_values(self, adds: Mapping[str, pa.Array], path: Path) -> pa.Array | None:
        """Return the least value of a column in each file, of adds in this shape."""
        at = ["minValues", *path]
        if STATS_PARSED in adds:
            return pc.struct_field(adds[STATS_PARSED], at)
        if "stats" in adds:
            return parse_stats(adds["stats"], {tuple(at): self._leaves[path]})[tuple(at)]
        return None

    def sort_values(self, adds: Mapping[str, pa.Array]) -> list[pa.Array]:
        """Return what adds of one partition are sorted by, of adds in this shape."""
        paths = adds["path"]
        found = [self.least_values(adds, path) for path in self.leading]
        pairs = zip(self.leading, found, strict=True)
        return [
            *(nulls(len(paths), self._bounded[at]) if v is None else v for at, v in pairs),
            paths,
        ]

    def _typed_stats(
        self, texts: pa.Array | None, typed: pa.Array | None, rows: int
    ) -> pa.StructArray:
        """Return `stats_parsed`: as it was where that has every leaf, else from the text."""
        found = None
        if typed is not None and (texts is None or _has_all(typed.type, self.stats)):
            with suppress(pa.ArrowInvalid):  # moments finer than any column of a table has
                found = self._sane(conformed(typed, self.stats))
        if found is not None:
            if texts is None or not found.null_count:
                return found
            missing = pc.and_(found.is_null(), texts.is_valid())
            return pc.if_else(missing, self._parsed(texts), found) if missing.true_count else found
        return nulls(rows, self.stats) if texts is None else self._parsed(texts)

    def _sane(self, typed: pa.StructArray) -> pa.StructArray:
        """Return typed statistics without bounds that contradict each other.

        Only texts are looked at, which writers put in two orders; it takes a hundredth of the time.
        """
        for path in (path for path, kind in self._bounded.items() if pa.types.is_string(kind)):
            low, high = (pc.struct_field(typed, [g, *path]) for g in ("minValues", "maxValues"))
            if pc.greater(low, high).true_count:
                leaves = dict(_leaves_of(typed, ()))
                return self._assembled_in_order(leaves, typed.is_null())
        return typed

    def _assembled_in_order(
        self, found: dict[Path, pa.Array], is_null: pa.BooleanArray
    ) -> pa.StructArray:
        for path in self._bounded:
            low, high = ("minValues", *path), ("maxValues", *path)
            found[low], found[high] = _in_order(found[low], found[high])
        return _assembled((), self.stats, found, is_null)

    def _parsed(self, texts: pa.Array) -> pa.StructArray:
        wanted: dict[Path, DataType] = {("numRecords",): _LONG}
        if self._has_vectors:
            wanted[("tightBounds",)] = _BOOLEAN
        for group in ("minValues", "maxValues"):
            wanted |= {(group, *path): self._leaves[path] for path in self._bounded}
        wanted |= {("nullCount", *path): _LONG for path in self._leaves}
        return self._assembled_in_order(parse_stats(texts, wanted), texts.is_null())


def _leaves_of(parent: pa.StructArray, path: Path) -> Iterator[tuple[Path, pa.Array]]:
    """Yield every leaf of a struct by its path."""
    for field, child in zip(parent.type, parent.flatten(), strict=True):
        if pa.types.is_struct(field.type):
            yield from _leaves_of(child, (*path, field.name))
        else:
            yield (*path, field.name), child


def _in_order(low: pa.Array, high: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return bounds, null where the least is above the greatest, which no footer would show."""
    senseless = pc.greater(low, high)
    if not senseless.true_count:
        return low, high
    keep = from_mask(~true_mask(senseless))
    return (
        pc.if_else(keep, low, nulls(1, low.type)[0]),
        pc.if_else(keep, high, nulls(1, high.type)[0]),
    )


class _KnownTexts:
    """The texts of one partition column met so far, each parsed once: few in many files."""

    def __init__(self, kind: DataType) -> None:
        self._kind = kind
        self._texts = pa.nulls(1, pa.string())
        self._values = pa.nulls(1, to_arrow_type(kind))

    def typed(self, texts: pa.Array) -> pa.Array:
        """Return the values of texts; one that is no value becomes null."""
        places = pc.index_in(texts, value_set=self._texts)
        if places.null_count:
            new = texts.filter(places.is_null()).unique()
            values = parse_partition_values(new, self._kind, on_error="null")
            self._texts = pa.concat_arrays([self._texts, new])
            self._values = pa.concat_arrays([self._values, values])
            places = pc.index_in(texts, value_set=self._texts)
        return self._values.take(places)


def _has_order(kind: DataType) -> bool:
    if isinstance(kind, DecimalType):
        return True
    return isinstance(kind, PrimitiveType) and kind.name not in _WITHOUT_BOUNDS


def _tree(leaves: Mapping[Path, pa.DataType]) -> pa.StructType:
    """Return the struct, nested as the table's columns are, that has these leaves."""
    below: dict[str, dict[Path, pa.DataType]] = {}
    for path, kind in leaves.items():
        below.setdefault(path[0], {})[path[1:]] = kind
    return pa.struct([(name, rest.get((), None) or _tree(rest)) for name, rest in below.items()])


def _assembled(
    at: Path, kind: pa.StructType, leaves: Mapping[Path, pa.Array], mask: pa.Array | None = None
) -> pa.StructArray:
    parts = [
        _assembled((*at, item.name), item.type, leaves)
        if pa.types.is_struct(item.type)
        else leaves[(*at, item.name)]
        for item in kind
    ]
    return pa.StructArray.from_arrays(parts, fields=list(kind), mask=mask)


def _has_all(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a struct has every leaf of another one, in types that can be had from it."""
    if pa.types.is_struct(wanted):
        return pa.types.is_struct(found) and all(
            (at := found.get_field_index(item.name)) >= 0
            and _has_all(found.field(at).type, item.type)
            for item in wanted
        )
    return found == wanted or (pa.types.is_timestamp(found) and pa.types.is_timestamp(wanted))


def _stats_as_text(texts: pa.Array | None, typed: pa.StructArray) -> pa.Array:
    """Return the statistics as JSON where only the typed ones are there."""
    import arro3.io

    sink = io.BytesIO()
    arro3.io.write_ndjson(pa.table({"row": typed}), sink)
    lines = split_lines(sink.getvalue()).cast(pa.large_string()).cast(pa.string())
    objects = pc.utf8_slice_codeunits(lines, len('{"row":'), -len("}\n"))
    written = pc.if_else(typed.is_valid(), objects, None)
    return written if texts is None else pc.coalesce(texts, written)
