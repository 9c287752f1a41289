"""The schema of a table's checkpoints, and the conversion of adds to it.

It follows from the table's schema and properties: statistics as JSON, as structs, or both
(`delta.checkpoint.writeStatsAsJson`, `writeStatsAsStruct`), and typed partition values beside the
serialized ones. Adds come from commits or from another writer's checkpoint. Pure: batches in,
batches out.
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
from lazydelta.checkpoint import tuning
from lazydelta.checkpoint.full_replay import STATS_PARSED
from lazydelta.errors import SchemaError
from lazydelta.formats import parse_stats, split_lines
from lazydelta.protocol.features import supported_features
from lazydelta.protocol.schemas import ADD, REMOVE_ACTION
from lazydelta.replay.skipping import map_values
from lazydelta.scan.plan import conformed, nulls
from lazydelta.schema import DataType, DecimalType, PrimitiveType, to_arrow_type
from lazydelta.schema.mapping import to_physical
from lazydelta.schema.values import parse_partition_values
from lazydelta.writer.files import DataLayout

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lazydelta.snapshot import SnapshotState

__all__ = ["CheckpointSchema", "CheckpointSettings", "checkpoint_interval"]

Path = tuple[str, ...]

PARTITION_VALUES_PARSED = "partitionValues_parsed"
_TYPES_WITHOUT_BOUNDS = ("boolean", "binary", "void", "null", "variant")
_LONG, _BOOLEAN = PrimitiveType("long"), PrimitiveType("boolean")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSettings:
    """The table properties of checkpoints; parsed when one is due, never by readers."""

    interval: int = 10
    is_v2: bool = False
    stats_as_json: bool = True
    stats_as_struct: bool = True

    @classmethod
    def of(cls, snapshot: SnapshotState) -> CheckpointSettings:
        """Parse the properties of a table; V2 applies only where the protocol allows it."""
        configuration = snapshot.metadata.configuration
        allows_v2 = "v2Checkpoint" in supported_features(snapshot.protocol)
        return cls(
            interval=checkpoint_interval(configuration),
            is_v2=allows_v2 and configuration.get("delta.checkpointPolicy", "classic") == "v2",
            stats_as_json=_flag(configuration, "delta.checkpoint.writeStatsAsJson"),
            stats_as_struct=_flag(configuration, "delta.checkpoint.writeStatsAsStruct"),
        )


def checkpoint_interval(configuration: Mapping[str, str]) -> int:
    """Return the number of commits between checkpoints."""
    value = configuration.get("delta.checkpointInterval", "10")
    if not re.fullmatch(r"[1-9]\d{0,17}", value):
        raise SchemaError(
            f"delta.checkpointInterval cannot be {value!r}; set it to an integer of at least 1"
        )
    return int(value)


def _flag(configuration: Mapping[str, str], key: str) -> bool:
    return configuration.get(key, "true").lower() == "true"


class CheckpointSchema:
    """The types of `add` and `remove` in the checkpoint of one version."""

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
        by_logical_name = dict(zip(snapshot.schema.names, physical, strict=True))
        columns = [by_logical_name[name] for name in snapshot.partition_columns]
        self.partitions: dict[str, DataType] = {item.name: item.type for item in columns}
        self._parsers = {name: _PartitionParser(kind) for name, kind in self.partitions.items()}
        self._has_deletion_vectors = "deletionVectors" in supported_features(snapshot.protocol)
        indexed = set(layout.indexed)
        self._leaves = {path: kind for path, kind in physical.leaves() if path in indexed}
        clustering = [path for path in clustered_by if path in self._bounded]
        self.sort_columns = (
            clustering[: tuning.CLUSTERING_COLUMNS] or list(self._bounded)[: tuning.SORT_COLUMNS]
        )
        """The columns that adds of one partition are sorted by."""

    # --- types

    def type_of(self, path: Path) -> DataType:
        """Return the type of a column that has statistics."""
        return self._leaves[path]

    @cached_property
    def stats(self) -> pa.StructType:
        """The type of `stats_parsed`."""
        null_counts = {path: pa.int64() for path in self._leaves}
        groups = [
            ("minValues", _struct_of(self._bounded)),
            ("maxValues", _struct_of(self._bounded)),
            ("nullCount", _struct_of(null_counts)),
        ]
        tight_bounds = [("tightBounds", pa.bool_())] if self._has_deletion_vectors else []
        nonempty = [(name, struct) for name, struct in groups if struct.num_fields]
        return pa.struct([("numRecords", pa.int64()), *tight_bounds, *nonempty])

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
        """The type of `remove`; in checkpoints it has neither statistics nor tags."""
        return pa.struct([item for item in REMOVE_ACTION if item.name not in ("stats", "tags")])

    @cached_property
    def _bounded(self) -> dict[Path, pa.DataType]:
        """The columns with minimum and maximum values."""
        return {
            path: to_arrow_type(kind) for path, kind in self._leaves.items() if _has_bounds(kind)
        }

    # --- batches

    def convert_adds(self, adds: pa.RecordBatch) -> dict[str, pa.Array]:
        """Return the columns of adds in this schema; those that are null in every row are omitted.

        Args:
            adds: A batch of `FullReplay.adds`.
        """
        columns = {name: adds.column(name) for name in adds.schema.names}
        stats_json, stats_parsed = columns.pop("stats", None), columns.pop(STATS_PARSED, None)
        if self.settings.stats_as_json:
            if stats_parsed is not None and (stats_json is None or stats_json.null_count):
                stats_json = _serialize_missing_stats(stats_json, stats_parsed)
            if stats_json is not None:
                columns["stats"] = stats_json
        if self.settings.stats_as_struct:
            columns[STATS_PARSED] = self._typed_stats(stats_json, stats_parsed, adds.num_rows)
            if self.partitions:
                columns[PARTITION_VALUES_PARSED] = self._parse_partition_values(
                    adds.column("partitionValues")
                )
        columns["dataChange"] = from_mask(np.zeros(adds.num_rows, np.bool_))
        return {name: column for name, column in columns.items() if column.null_count < len(column)}

    def _parse_partition_values(self, serialized: pa.MapArray) -> pa.StructArray:
        """Return typed partition values; null where a string cannot be parsed."""
        arrays = [
            self._parsers[name].parse(map_values(serialized, name)) for name in self.partitions
        ]
        return pa.StructArray.from_arrays(arrays, list(self.partitions))

    def partition_arrays(self, adds: Mapping[str, pa.Array]) -> list[pa.Array]:
        """Return the typed partition values of converted adds, one array for each column."""
        if not self.partitions:
            return []
        parsed = adds.get(PARTITION_VALUES_PARSED)
        if parsed is None:
            parsed = self._parse_partition_values(adds["partitionValues"])
        return list(parsed.flatten())

    def _min_values(self, adds: Mapping[str, pa.Array], path: Path) -> pa.Array | None:
        """Return the minimum value of a column in each file of converted adds."""
        stats_path = ("minValues", *path)
        if STATS_PARSED in adds:
            return pc.struct_field(adds[STATS_PARSED], list(stats_path))
        if "stats" in adds:
            return parse_stats(adds["stats"], {stats_path: self._leaves[path]})[stats_path]
        return None

    def sort_values(self, adds: Mapping[str, pa.Array]) -> list[pa.Array]:
        """Return the columns that converted adds of one partition are sorted by."""
        paths = adds["path"]
        columns = []
        for path in self.sort_columns:
            values = self._min_values(adds, path)
            columns.append(nulls(len(paths), self._bounded[path]) if values is None else values)
        return [*columns, paths]

    def _typed_stats(
        self, stats_json: pa.Array | None, stats_parsed: pa.Array | None, rows: int
    ) -> pa.StructArray:
        """Return `stats_parsed`: the source's if it has every leaf, else parsed from JSON."""
        typed = None
        if stats_parsed is not None and (
            stats_json is None or _has_all_leaves(stats_parsed.type, self.stats)
        ):
            with suppress(pa.ArrowInvalid):  # timestamps finer than microseconds
                typed = self._without_bad_bounds(conformed(stats_parsed, self.stats))
        if typed is None:
            return nulls(rows, self.stats) if stats_json is None else self._parse(stats_json)
        if stats_json is None or not typed.null_count:
            return typed
        missing = pc.and_(typed.is_null(), stats_json.is_valid())
        return pc.if_else(missing, self._parse(stats_json), typed) if missing.true_count else typed

    def _without_bad_bounds(self, stats: pa.StructArray) -> pa.StructArray:
        """Return typed statistics without bounds whose minimum exceeds the maximum.

        Only strings are validated, which writers sort in two ways; it takes 1 % of the time.
        """
        for path in (path for path, kind in self._bounded.items() if pa.types.is_string(kind)):
            low, high = (pc.struct_field(stats, [g, *path]) for g in ("minValues", "maxValues"))
            if pc.greater(low, high).true_count:
                return self._assemble_stats(dict(_struct_leaves(stats, ())), stats.is_null())
        return stats

    def _assemble_stats(
        self, leaves: dict[Path, pa.Array], is_null: pa.BooleanArray
    ) -> pa.StructArray:
        """Return statistics of leaves, without bounds whose minimum exceeds the maximum."""
        for path in self._bounded:
            low, high = ("minValues", *path), ("maxValues", *path)
            leaves[low], leaves[high] = _null_bad_bounds(leaves[low], leaves[high])
        return _assemble((), self.stats, leaves, is_null)

    def _parse(self, stats_json: pa.Array) -> pa.StructArray:
        types: dict[Path, DataType] = {("numRecords",): _LONG}
        if self._has_deletion_vectors:
            types[("tightBounds",)] = _BOOLEAN
        for group in ("minValues", "maxValues"):
            types |= {(group, *path): self._leaves[path] for path in self._bounded}
        types |= {("nullCount", *path): _LONG for path in self._leaves}
        return self._assemble_stats(parse_stats(stats_json, types), stats_json.is_null())


def _struct_leaves(parent: pa.StructArray, path: Path) -> Iterator[tuple[Path, pa.Array]]:
    """Yield every leaf of a struct with its path."""
    for field, child in zip(parent.type, parent.flatten(), strict=True):
        if pa.types.is_struct(field.type):
            yield from _struct_leaves(child, (*path, field.name))
        else:
            yield (*path, field.name), child


def _null_bad_bounds(low: pa.Array, high: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return bounds, null where the minimum exceeds the maximum."""
    is_bad = pc.greater(low, high)
    if not is_bad.true_count:
        return low, high
    keep = from_mask(~true_mask(is_bad))
    return (
        pc.if_else(keep, low, nulls(1, low.type)[0]),
        pc.if_else(keep, high, nulls(1, high.type)[0]),
    )


class _PartitionParser:
    """Parses the values of one partition column, each distinct string once."""

    def __init__(self, kind: DataType) -> None:
        self._kind = kind
        self._strings = pa.nulls(1, pa.string())
        self._values = pa.nulls(1, to_arrow_type(kind))

    def parse(self, strings: pa.Array) -> pa.Array:
        """Return typed values; null where a string cannot be parsed."""
        indices = pc.index_in(strings, value_set=self._strings)
        if indices.null_count:
            new = strings.filter(indices.is_null()).unique()
            values = parse_partition_values(new, self._kind, on_error="null")
            self._strings = pa.concat_arrays([self._strings, new])
            self._values = pa.concat_arrays([self._values, values])
            indices = pc.index_in(strings, value_set=self._strings)
        return self._values.take(indices)


def _has_bounds(kind: DataType) -> bool:
    if isinstance(kind, DecimalType):
        return True
    return isinstance(kind, PrimitiveType) and kind.name not in _TYPES_WITHOUT_BOUNDS


def _struct_of(leaves: Mapping[Path, pa.DataType]) -> pa.StructType:
    """Return the struct that has these leaves, nested like the table's columns."""
    children: dict[str, dict[Path, pa.DataType]] = {}
    for path, kind in leaves.items():
        children.setdefault(path[0], {})[path[1:]] = kind
    return pa.struct(
        [(name, rest.get((), None) or _struct_of(rest)) for name, rest in children.items()]
    )


def _assemble(
    path: Path, kind: pa.StructType, leaves: Mapping[Path, pa.Array], mask: pa.Array | None = None
) -> pa.StructArray:
    children = [
        _assemble((*path, item.name), item.type, leaves)
        if pa.types.is_struct(item.type)
        else leaves[(*path, item.name)]
        for item in kind
    ]
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)


def _has_all_leaves(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether a struct has every leaf of another one, of the same or a castable type."""
    if pa.types.is_struct(target):
        return pa.types.is_struct(source) and all(
            (index := source.get_field_index(item.name)) >= 0
            and _has_all_leaves(source.field(index).type, item.type)
            for item in target
        )
    return source == target or (pa.types.is_timestamp(source) and pa.types.is_timestamp(target))


def _serialize_missing_stats(stats_json: pa.Array | None, stats: pa.StructArray) -> pa.Array:
    """Return the statistics as JSON, serialized from the typed ones where JSON is missing."""
    import arro3.io

    sink = io.BytesIO()
    arro3.io.write_ndjson(pa.table({"row": stats}), sink)
    lines = split_lines(sink.getvalue()).cast(pa.large_string()).cast(pa.string())
    objects = pc.utf8_slice_codeunits(lines, len('{"row":'), -len("}\n"))
    serialized = pc.if_else(stats.is_valid(), objects, None)
    return serialized if stats_json is None else pc.coalesce(stats_json, serialized)
