"""Reference checkpoint writer for every kind of checkpoint in the protocol.

It shares no code with the engine's writer and works row by row, for small tables.
"""

from __future__ import annotations

import io
import json
import uuid
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from lazydelta.schema import DataType, PrimitiveType, StructType, parse_schema, to_arrow_type
from lazydelta.testing.log_actions import serialize_actions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lazydelta.testing.log_actions import Action
    from tests.builders.log_state import LogState

__all__ = ["CheckpointKind", "CheckpointOptions", "checkpoint_files"]

CheckpointKind = Literal["classic", "multipart", "v2-json", "v2-parquet", "v2-classic"]

_STRINGS = pa.map_(pa.string(), pa.string())
_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
_ADD = [
    ("path", pa.string()),
    ("partitionValues", _STRINGS),
    ("size", pa.int64()),
    ("modificationTime", pa.int64()),
    ("dataChange", pa.bool_()),
    ("tags", _STRINGS),
    ("deletionVector", _VECTOR),
    ("baseRowId", pa.int64()),
    ("defaultRowCommitVersion", pa.int64()),
    ("clusteringProvider", pa.string()),
]
_REMOVE = [
    ("path", pa.string()),
    ("deletionTimestamp", pa.int64()),
    ("dataChange", pa.bool_()),
    ("partitionValues", _STRINGS),
    ("size", pa.int64()),
    ("deletionVector", _VECTOR),
]
_OTHERS = [
    (
        "txn",
        pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())]),
    ),
    (
        "metaData",
        pa.struct(
            [
                ("id", pa.string()),
                ("name", pa.string()),
                ("description", pa.string()),
                ("format", pa.struct([("provider", pa.string()), ("options", _STRINGS)])),
                ("schemaString", pa.string()),
                ("partitionColumns", pa.list_(pa.string())),
                ("createdTime", pa.int64()),
                ("configuration", _STRINGS),
            ]
        ),
    ),
    (
        "protocol",
        pa.struct(
            [
                ("minReaderVersion", pa.int32()),
                ("minWriterVersion", pa.int32()),
                ("readerFeatures", pa.list_(pa.string())),
                ("writerFeatures", pa.list_(pa.string())),
            ]
        ),
    ),
    (
        "domainMetadata",
        pa.struct(
            [("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())]
        ),
    ),
]
_V2 = [
    ("checkpointMetadata", pa.struct([("version", pa.int64()), ("tags", _STRINGS)])),
    (
        "sidecar",
        pa.struct(
            [
                ("path", pa.string()),
                ("sizeInBytes", pa.int64()),
                ("modificationTime", pa.int64()),
                ("tags", _STRINGS),
            ]
        ),
    ),
]
_MAPS = ("partitionValues", "tags", "configuration", "options")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointOptions:
    """Layout of a checkpoint."""

    kind: CheckpointKind = "classic"
    parts: int = 2
    """Parts of a multi-part checkpoint, or sidecars of a V2 one (0: inline actions)."""
    row_group_rows: int = 100_000
    stats_json: bool = True
    stats_parsed: bool = False
    """Write `stats_parsed`, as with `delta.checkpoint.writeStatsAsStruct`."""
    partition_values_parsed: bool = False
    removes: bool = True
    """Write tombstones."""
    compression: str = "zstd"
    page_checksums: bool = True


def checkpoint_files(version: int, state: LogState, options: CheckpointOptions) -> dict[str, bytes]:
    """Return the files of a checkpoint by name below `_delta_log`, the top-level file last."""
    stem = f"{version:020d}.checkpoint"
    write = _Writer(state, options)
    if options.kind == "classic":
        actions = [*state.other_actions(), *write.file_actions()]
        return {f"{stem}.parquet": write.parquet(actions, [*_OTHERS, *write.files])}
    if options.kind == "multipart":
        actions = [*state.other_actions(), *write.file_actions()]
        return {
            f"{stem}.{number:010d}.{options.parts:010d}.parquet": write.parquet(
                part, [*_OTHERS, *write.files]
            )
            for number, part in enumerate(_split(actions, options.parts), 1)
        }
    return _v2_files(version, stem, write, options)


def _v2_files(
    version: int, stem: str, write: _Writer, options: CheckpointOptions
) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    actions: list[Action] = [{"checkpointMetadata": {"version": version}}]
    actions += write.state.other_actions()
    if options.parts == 0:
        actions += write.file_actions()
    for number, part in enumerate(_split(write.file_actions(), options.parts)):
        name = f"{_uuid(version, number)}.parquet"
        data = write.parquet(part, write.files)
        files[f"_sidecars/{name}"] = data
        body = {"path": name, "sizeInBytes": len(data), "modificationTime": 1_700_000_000_000}
        actions.append({"sidecar": body})
    if options.kind == "v2-json":
        files[f"{stem}.{_uuid(version, -1)}.json"] = serialize_actions(actions)
        return files
    name = f"{stem}.{_uuid(version, -1)}.parquet"
    if options.kind == "v2-classic":
        name = f"{stem}.parquet"
    inline = write.files if options.parts == 0 else []
    files[name] = write.parquet(actions, [*_OTHERS, *_V2, *inline])
    return files


class _Writer:
    """Serializes actions to Parquet, with columns typed by the table schema."""

    def __init__(self, state: LogState, options: CheckpointOptions) -> None:
        self.state = state
        self._options = options
        metadata = state.metadata or {}
        schema_json = metadata.get("schemaString", '{"type":"struct","fields":[]}')
        self._schema = parse_schema(schema_json, where="the table being built")
        self._partitions = tuple(metadata.get("partitionColumns", ()))
        extra: list[tuple[str, pa.DataType]] = []
        if options.stats_json:
            extra.append(("stats", pa.string()))
        if options.stats_parsed:
            extra.append(("stats_parsed", _stats_type(self._schema, self._partitions)))
        if options.partition_values_parsed and self._partitions:
            extra.append(("partitionValues_parsed", self._partition_type()))
        self.files = [("add", pa.struct([*_ADD, *extra])), ("remove", pa.struct(_REMOVE))]

    def file_actions(self) -> list[Action]:
        """Return the file actions, with parsed fields where the options enable them."""
        actions = []
        for action in self.state.file_actions():
            if "add" in action:
                actions.append({"add": self._with_parsed(action["add"])})
            elif self._options.removes:
                actions.append(action)
        return actions

    def parquet(self, actions: Sequence[Action], columns: Sequence[tuple[str, Any]]) -> bytes:
        """Return the actions as a Parquet file."""
        rows = [{kind: _paired(body) for kind, body in action.items()} for action in actions]
        table = pa.Table.from_pylist(rows, pa.schema(list(columns)))
        sink = io.BytesIO()
        pq.write_table(
            table,
            sink,
            row_group_size=self._options.row_group_rows,
            compression=self._options.compression,
            write_page_checksum=self._options.page_checksums,
        )
        return sink.getvalue()

    def _with_parsed(self, body: Action) -> Action:
        options, parsed = self._options, dict(body)
        if options.stats_parsed and body.get("stats"):
            parsed["stats_parsed"] = _typed_stats(json.loads(body["stats"]), self._schema)
        if options.partition_values_parsed:
            values = body["partitionValues"]
            parsed["partitionValues_parsed"] = {
                name: _parse_value(values.get(name), kind)
                for name, kind in self._partition_kinds().items()
            }
        return parsed

    def _partition_kinds(self) -> dict[str, DataType]:
        kinds = {item.name: (_physical(item), item.type) for item in self._schema}
        return dict(kinds[name] for name in self._partitions)

    def _partition_type(self) -> pa.DataType:
        return pa.struct([(n, to_arrow_type(k)) for n, k in self._partition_kinds().items()])


def _split(actions: Sequence[Action], count: int) -> list[Sequence[Action]]:
    """Split the actions into contiguous parts."""
    size = -(-len(actions) // count) if count else 0
    return [actions[at * size : (at + 1) * size] for at in range(count)]


def _uuid(version: int, number: int) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{version}/{number}"))


def _paired(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the action with its maps as lists of pairs, as pyarrow expects them."""
    paired = dict(body)
    for name, value in body.items():
        if name == "format":
            paired[name] = _paired(value)
        elif name in _MAPS and isinstance(value, dict):
            paired[name] = list(value.items())
    return paired


def _physical(item: Any) -> str:
    return str(item.metadata.get("delta.columnMapping.physicalName", item.name))


def _stats_type(schema: StructType, partitions: Sequence[str]) -> pa.DataType:
    columns = [item for item in schema if item.name not in partitions]
    bounds = [
        (_physical(item), to_arrow_type(item.type))
        for item in columns
        if isinstance(item.type, PrimitiveType) and item.type.name not in ("boolean", "binary")
    ]
    nulls = [(_physical(item), pa.int64()) for item in columns]
    sides = [("minValues", bounds), ("maxValues", bounds), ("nullCount", nulls)]
    return pa.struct(
        [
            ("numRecords", pa.int64()),
            *((side, pa.struct(fields)) for side, fields in sides if fields),
            ("tightBounds", pa.bool_()),
        ]
    )


def _typed_stats(stats: Mapping[str, Any], schema: StructType) -> dict[str, Any]:
    kinds = {_physical(item): item.type for item in schema}
    typed = dict(stats)
    for side in ("minValues", "maxValues"):
        values = stats.get(side, {})
        typed[side] = {n: _from_json(v, kinds[n]) for n, v in values.items() if n in kinds}
    return typed


def _from_json(value: Any, kind: DataType) -> Any:
    return _parse_value(value, kind) if isinstance(value, str) else value


def _parse_value(string: str | None, kind: DataType) -> Any:
    """Parse a serialized value to what `pa.array` takes."""
    if not string:
        return None
    name = kind.name if isinstance(kind, PrimitiveType) else "decimal"
    return _PARSERS.get(name, str)(string)


_PARSERS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("byte", "short", "integer", "long"), int),
    **dict.fromkeys(("float", "double"), float),
    "boolean": "true".__eq__,
    "date": date.fromisoformat,
    "timestamp": lambda string: _in_utc(datetime.fromisoformat(string)),
    "timestamp_ntz": datetime.fromisoformat,
    "decimal": Decimal,
}


def _in_utc(time: datetime) -> datetime:
    return time if time.tzinfo else time.replace(tzinfo=UTC)
