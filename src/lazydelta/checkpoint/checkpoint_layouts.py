"""The two layouts of a checkpoint: one classic file, or a V2 manifest with sidecars.

Both are written row group by row group and become visible atomically: with the classic file, or
with the manifest that references the sidecars.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import orjson

from lazydelta._failpoints import failpoint
from lazydelta._parallel import ordered_map
from lazydelta.checkpoint import tuning
from lazydelta.checkpoint.action_files import ActionFile, WrittenFile, validate_stored
from lazydelta.checkpoint.zone_map_tags import ZoneMap
from lazydelta.errors import InternalError
from lazydelta.log import checkpoint_path, sidecar_path
from lazydelta.store import is_local

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lazydelta.checkpoint.checkpoint_actions import CheckpointActions
    from lazydelta.checkpoint.full_replay import FullReplay
    from lazydelta.checkpoint.sort.sorted_runs import Columns
    from lazydelta.snapshot import SnapshotState

__all__ = ["WrittenCheckpoint", "existing_checkpoint", "write_classic", "write_v2"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenCheckpoint:
    """A published checkpoint."""

    path: str
    is_new: bool
    bytes: int
    adds: int
    removes: int
    actions: int
    """The number of all actions."""
    parts: int | None = None
    """The number of files of a multi-part checkpoint."""
    v2: dict[str, Any] | None = None
    """The `v2Checkpoint` field of `_last_checkpoint`."""


def existing_checkpoint(replay: FullReplay) -> WrittenCheckpoint:
    """Return the checkpoint that is the whole segment of a replay, with its counts."""
    segment = replay.snapshot.segment
    if segment.checkpoint is None or segment.commits:
        raise InternalError("the version has no checkpoint of its own")
    adds = sum(batch.num_rows for batch in replay.adds())
    removes = sum(batch.num_rows for batch in replay.removes())
    non_file_actions = 2 + len(replay.transactions) + len(replay.domains)
    files = segment.checkpoint.files
    return WrittenCheckpoint(
        path=files[0].path,
        is_new=False,
        bytes=sum(file.size for file in files),
        adds=adds,
        removes=removes,
        actions=adds + removes + non_file_actions,
        parts=len(files) if len(files) > 1 else None,
    )


def write_classic(actions: CheckpointActions) -> WrittenCheckpoint:
    """Write `n.checkpoint.parquet`.

    Raises:
        ObjectExistsError: Another writer was first.
    """
    snapshot = actions.snapshot
    store, path = snapshot.store, checkpoint_path(snapshot.version)
    file = ActionFile(store, path, actions.schema, has_non_file_actions=True)
    try:
        file.append_non_file_actions(actions.non_file_actions)
        for adds in actions.adds():
            file.append("add", adds)
        actions.validate(file.adds)
        for removes in actions.removes():
            file.append("remove", removes)
        failpoint("checkpoint-part-written")
        failpoint("checkpoint-manifest-prepared")
        written = file.publish()
    except BaseException:
        file.discard()
        raise
    failpoint("checkpoint-published")
    validate_stored(store, written, snapshot.version)
    return WrittenCheckpoint(
        path=path,
        is_new=True,
        bytes=written.bytes,
        adds=written.adds,
        removes=written.removes,
        actions=written.rows,
    )


def write_v2(actions: CheckpointActions) -> WrittenCheckpoint:
    """Write the sidecars, then the manifest `n.checkpoint.<uuid>.json` that references them."""
    width = 1 if is_local(actions.snapshot.store) else tuning.SIDECAR_UPLOADS
    sidecars = list(ordered_map(lambda publish: publish(), _write_sidecars(actions), width=width))
    actions.validate(sum(file.adds for file in sidecars))
    return _write_manifest(actions, sidecars)


def _write_manifest(
    actions: CheckpointActions, sidecars: Sequence[WrittenFile]
) -> WrittenCheckpoint:
    """Publish a checkpoint whose sidecars are all in the store and validated."""
    version = actions.snapshot.version
    path = checkpoint_path(version, str(uuid.uuid4()), "json")
    now_ms = time.time_ns() // 10**6
    sidecar_actions = [
        {
            "path": file.path.rsplit("/", 1)[-1],
            "sizeInBytes": file.bytes,
            "modificationTime": now_ms,
            "tags": dict(file.tags),
        }
        for file in sidecars
    ]
    non_file_actions = [
        {"checkpointMetadata": {"version": version}},
        *actions.non_file_actions,
    ]
    lines = [*non_file_actions, *({"sidecar": sidecar} for sidecar in sidecar_actions)]
    data = b"".join(orjson.dumps(action) + b"\n" for action in lines)
    failpoint("checkpoint-manifest-prepared")
    actions.snapshot.store.write(path, data, overwrite=False)
    failpoint("checkpoint-published")
    return WrittenCheckpoint(
        path=path,
        is_new=True,
        bytes=len(data) + sum(file.bytes for file in sidecars),
        adds=sum(file.adds for file in sidecars),
        removes=sum(file.removes for file in sidecars),
        actions=len(lines) + sum(file.rows for file in sidecars),
        v2={
            "path": path.rsplit("/", 1)[-1],
            "sizeInBytes": len(data),
            "modificationTime": now_ms,
            "nonFileActions": non_file_actions,
            "sidecarFiles": sidecar_actions,
        },
    )


def _write_sidecars(actions: CheckpointActions) -> Iterator[Callable[[], WrittenFile]]:
    """Write adds, then removes, into sidecars of their own; yield the calls that publish them."""
    yield from _sidecars_of("add", actions.adds(), actions)
    yield from _sidecars_of("remove", actions.removes(), actions)


def _sidecars_of(
    action: Literal["add", "remove"],
    row_groups: Iterator[list[Columns]],
    actions: CheckpointActions,
) -> Iterator[Callable[[], WrittenFile]]:
    file: ActionFile | None = None
    try:
        for parts in row_groups:
            if file is None:
                file, zone_map = _new_sidecar(actions), ZoneMap(actions.schema.sort_columns)
            file.append(action, parts)
            for columns in parts if action == "add" else ():
                zone_map.add(columns)
            if file.rows >= tuning.SIDECAR_ROWS:
                full, file = file, None
                yield partial(_publish, full, zone_map, actions.snapshot)
        if file is not None:
            last, file = file, None
            yield partial(_publish, last, zone_map, actions.snapshot)
    finally:
        if file is not None:
            file.discard()


def _publish(file: ActionFile, zone_map: ZoneMap, snapshot: SnapshotState) -> WrittenFile:
    written = file.publish(zone_map.tags())
    failpoint("checkpoint-part-written")
    validate_stored(snapshot.store, written, snapshot.version)
    return written


def _new_sidecar(actions: CheckpointActions) -> ActionFile:
    path = sidecar_path(f"{uuid.uuid4()}.parquet")
    return ActionFile(actions.snapshot.store, path, actions.schema, has_non_file_actions=False)
