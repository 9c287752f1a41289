"""`lazydelta info`: version, protocol, schema and properties of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import orjson

from lazydelta.cli.common_options import State, common_options, pass_state
from lazydelta.cli.output import Output, human_bytes, human_time
from lazydelta.cli.versions import pick_snapshot, version_options
from lazydelta.protocol.features import compatibility
from lazydelta.schema import schema_to_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from lazydelta.table import Snapshot

__all__ = ["info"]


@click.command()
@click.argument("url")
@version_options
@common_options
@pass_state
def info(state: State, /, url: str, *, version: int | None, timestamp: datetime | None) -> None:
    """Show version, protocol, schema and properties of the table at URL.

    Only the listing of the log, a few commits and the metadata of the checkpoint are read, so
    file counts are shown only if a checksum or the checkpoint hint has them.
    """
    snapshot = pick_snapshot(state, url, version, timestamp)
    output, document = Output(json=state.json), _to_dict(snapshot)
    if output.json:
        output.document(document)
    elif output.is_terminal:
        _print(output, snapshot, document)
    else:
        output.flat(document)


def _print(output: Output, snapshot: Snapshot, document: Mapping[str, Any]) -> None:
    output.facts(_summary(document))
    output.title("columns")
    rows = [
        (f.name, str(f.type), f.nullable, f.name in snapshot.partition_columns)
        for f in snapshot.schema
    ]
    output.table(("name", "type", "nullable", "partition"), rows)
    if document["properties"]:
        output.title("properties")
        output.facts(document["properties"])


def _to_dict(snapshot: Snapshot) -> dict[str, Any]:
    segment, metadata = snapshot.segment, snapshot.metadata
    verdict = compatibility(
        snapshot.store.root, snapshot.version, snapshot.protocol, metadata
    ).to_dict()
    return {
        "table": snapshot.store.root,
        "id": metadata.id,
        "name": metadata.name,
        "description": metadata.description,
        "version": snapshot.version,
        "created_time": metadata.created_time,
        "protocol": {
            name: verdict[name]
            for name in (
                "min_reader_version",
                "min_writer_version",
                "reader_features",
                "writer_features",
                "active_features",
            )
        },
        "partition_columns": list(snapshot.partition_columns),
        "column_mapping_mode": snapshot.column_mapping_mode,
        "files": _recorded_files(snapshot),
        "checkpoint": None
        if segment.checkpoint is None
        else {
            "version": segment.base_version,
            "files": [file.name for file in segment.checkpoint.files],
            "bytes": sum(file.size for file in segment.checkpoint.files),
        },
        "tail": {
            "commits": len(segment.commits),
            "files": len(segment.tail),
            "bytes": sum(file.size for file in segment.tail),
        },
        "schema": orjson.loads(schema_to_json(snapshot.schema)),
        "properties": dict(sorted(metadata.configuration.items())),
    }


def _recorded_files(snapshot: Snapshot) -> dict[str, Any] | None:
    """Return the recorded file counts with their version, or None if there are none."""
    checksum, hint = snapshot.checksum, snapshot.hint
    floor = snapshot.segment.base_version
    if checksum is not None:
        return {
            "count": checksum.num_files,
            "bytes": checksum.table_size_bytes,
            "version": checksum.version,
            "source": "checksum",
        }
    if hint is not None and hint.add_files is not None and hint.version == floor:
        return {"count": hint.add_files, "bytes": None, "version": floor, "source": "checkpoint"}
    return None


def _summary(document: Mapping[str, Any]) -> dict[str, Any]:
    protocol, checkpoint, tail, files = (
        document[name] for name in ("protocol", "checkpoint", "tail", "files")
    )
    features = sorted({*protocol["reader_features"], *protocol["writer_features"]})
    reader, writer = protocol["min_reader_version"], protocol["min_writer_version"]
    return {
        "table": document["table"],
        "name": document["name"],
        "version": document["version"],
        "created": human_time(document["created_time"]),
        "protocol": f"reader {reader}, writer {writer}",
        "features": features,
        "active": list(protocol["active_features"]),
        "partitioned by": document["partition_columns"],
        "files": _format_files(files, document["version"]),
        "checkpoint": None
        if checkpoint is None
        else f"version {checkpoint['version']}, {human_bytes(checkpoint['bytes'])}"
        f" in {_plural(len(checkpoint['files']), 'file')}",
        "tail": f"{_plural(tail['commits'], 'commit')}, {human_bytes(tail['bytes'])}",
    }


def _format_files(files: Mapping[str, Any] | None, version: int) -> str:
    if files is None:
        return "not recorded; lazydelta explain URL counts them"
    size = "" if files["bytes"] is None else f", {human_bytes(files['bytes'])}"
    at = "" if files["version"] == version else f" at version {files['version']}"
    return f"{files['count']:,}{size}{at} (from the {files['source']})"


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
