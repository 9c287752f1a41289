"""`lazydelta info` and `lazydelta history`: metadata and commits of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import orjson

from lazydelta.cli.output import Output, human_bytes, human_time
from lazydelta.cli.state import State, common_options, pass_state
from lazydelta.cli.versions import open_table, pick_snapshot, version_options
from lazydelta.protocol.features import compatibility
from lazydelta.schema import schema_to_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from lazydelta.snapshot import HistoryEntry
    from lazydelta.table import Snapshot

__all__ = ["history", "info"]


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
    output, about = Output(json=state.json), _about(snapshot)
    if output.json:
        output.document(about)
    elif output.is_terminal:
        _show(output, snapshot, about)
    else:
        output.flat(about)


def _show(output: Output, snapshot: Snapshot, about: Mapping[str, Any]) -> None:
    output.facts(_main_facts(about))
    output.title("columns")
    rows = [
        (f.name, str(f.type), f.nullable, f.name in snapshot.partition_columns)
        for f in snapshot.schema
    ]
    output.table(("name", "type", "nullable", "partition"), rows)
    if about["properties"]:
        output.title("properties")
        output.facts(about["properties"])


def _about(snapshot: Snapshot) -> dict[str, Any]:
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
        "files": _known_files(snapshot),
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


def _known_files(snapshot: Snapshot) -> dict[str, Any] | None:
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


def _main_facts(about: Mapping[str, Any]) -> dict[str, Any]:
    protocol, checkpoint, tail, known = (
        about[name] for name in ("protocol", "checkpoint", "tail", "files")
    )
    features = sorted({*protocol["reader_features"], *protocol["writer_features"]})
    reader, writer = protocol["min_reader_version"], protocol["min_writer_version"]
    return {
        "table": about["table"],
        "name": about["name"],
        "version": about["version"],
        "created": human_time(about["created_time"]),
        "protocol": f"reader {reader}, writer {writer}",
        "features": features,
        "active": list(protocol["active_features"]),
        "partitioned by": about["partition_columns"],
        "files": _files_text(known, about["version"]),
        "checkpoint": None
        if checkpoint is None
        else f"version {checkpoint['version']}, {human_bytes(checkpoint['bytes'])}"
        f" in {_counted(len(checkpoint['files']), 'file')}",
        "tail": f"{_counted(tail['commits'], 'commit')}, {human_bytes(tail['bytes'])}",
    }


def _files_text(known: Mapping[str, Any] | None, version: int) -> str:
    if known is None:
        return "not recorded; lazydelta explain URL counts them"
    size = "" if known["bytes"] is None else f", {human_bytes(known['bytes'])}"
    at = "" if known["version"] == version else f" at version {known['version']}"
    return f"{known['count']:,}{size}{at} (from the {known['source']})"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


@click.command()
@click.argument("url")
@click.option("--limit", type=click.IntRange(min=0), help="Maximum number of commits to list.")
@common_options
@pass_state
def history(state: State, /, url: str, *, limit: int | None) -> None:
    """List the retained commits of the table at URL, newest first.

    In a pipe: tab-separated version, time, operation, parameters, metrics, engine, user.
    """
    commits = open_table(state, url).history(limit)
    output = Output(json=state.json)
    if output.json:
        output.lines(_commit(info) for info in commits)
    elif output.is_terminal:
        rows = [
            (str(c.version), _iso(c.timestamp) or "-", c.operation, _outcome(c)) for c in commits
        ]
        output.table(("version", "time (UTC)", "operation", "details"), rows)
    else:
        output.table((), [tuple(_commit(info).values()) for info in commits])


def _commit(info: HistoryEntry) -> dict[str, Any]:
    raw = info.raw
    return {
        "version": info.version,
        "timestamp": _iso(info.timestamp),
        "operation": info.operation,
        "operation_parameters": raw.get("operationParameters"),
        "operation_metrics": raw.get("operationMetrics"),
        "engine_info": raw.get("engineInfo"),
        "user_name": raw.get("userName"),
    }


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(timespec="milliseconds")


def _outcome(info: HistoryEntry) -> str:
    """Return the metrics of a commit, else its parameters, else the engine, on one line."""
    for name in ("operationMetrics", "operationParameters"):
        facts = info.raw.get(name)
        if isinstance(facts, dict) and facts:
            return ", ".join(f"{key} {value}" for key, value in facts.items())
    return str(info.raw.get("engineInfo") or "")
