"""The two layouts of a checkpoint: one classic file, or a V2 manifest with sidecars.

Both are written row group by row group and become visible atomically: with the classic file, or
with the manifest that references the sidecars.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import orjson
import pyarrow as pa

from lazydelta._failpoints import failpoint
from lazydelta.checkpoint.action_files import ActionFile, WrittenFile, count_actions
from lazydelta.checkpoint.action_source import ROW_GROUP_ROWS
from lazydelta.checkpoint.zone_map_tags import Zones
from lazydelta.errors import InternalError, LogCorruptError
from lazydelta.log import checkpoint_path, sidecar_path
from lazydelta.parquet import read_footer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lazydelta.checkpoint.add_slices import Columns
    from lazydelta.checkpoint.checkpoint_schema import CheckpointShape
    from lazydelta.checkpoint.full_replay import FullReplay
    from lazydelta.snapshot import SnapshotState
    from lazydelta.store import Store

__all__ = [
    "ActionSource",
    "WrittenCheckpoint",
    "found_checkpoint",
    "publish_v2",
    "write_classic",
    "write_sidecars",
    "write_v2",
]

_SIDECAR_ADDS = 4 * ROW_GROUP_ROWS


class ActionSource(Protocol):
    """Actions to write: those of a whole version, or a share of them."""

    shape: CheckpointShape
    others: list[dict[str, Any]]

    @property
    def snapshot(self) -> SnapshotState:
        """The version."""

    def adds(self) -> Iterator[list[Columns]]:
        """Yield adds, in order, a row group in some pieces at a time; once, and first."""

    def removes(self) -> Iterator[list[Columns]]:
        """Yield tombstones likewise; once."""

    def verify(self, adds: int) -> None:
        """Raise unless so many adds are all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenCheckpoint:
    """A checkpoint that is in its place."""

    path: str
    is_new: bool
    bytes: int
    adds: int
    removes: int
    actions: int
    """How many actions there are in all."""
    parts: int | None = None
    """How many files a multi-part checkpoint has; None of any other."""
    v2: dict[str, Any] | None = None
    """What `_last_checkpoint` says of a V2 checkpoint."""


def found_checkpoint(replay: FullReplay) -> WrittenCheckpoint:
    """Return the checkpoint that a replay is of, and of nothing else, with its counts."""
    segment = replay.snapshot.segment
    if segment.checkpoint is None or segment.commits:
        raise InternalError("a checkpoint was taken for there that is not")
    adds = sum(batch.num_rows for batch in replay.adds())
    removes = sum(batch.num_rows for batch in replay.removes())
    others = 2 + len(replay.transactions) + len(replay.domains)
    files = segment.checkpoint.files
    return WrittenCheckpoint(
        path=files[0].path,
        is_new=False,
        bytes=sum(file.size for file in files),
        adds=adds,
        removes=removes,
        actions=adds + removes + others,
        parts=len(files) if len(files) > 1 else None,
    )


def write_classic(source: ActionSource) -> WrittenCheckpoint:
    """Write `n.checkpoint.parquet`.

    Raises:
        ObjectExistsError: Another writer was first.
    """
    snapshot = source.snapshot
    store, path = snapshot.store, checkpoint_path(snapshot.version)
    file = ActionFile(store, path, source.shape, others=True)
    try:
        file.append_others(source.others)
        for adds in source.adds():
            file.append("add", adds)
        source.verify(file.adds)
        for removes in source.removes():
            file.append("remove", removes)
        failpoint("checkpoint-part-written")
        failpoint("checkpoint-manifest-prepared")
        written = file.publish()
    except BaseException:
        file.discard()
        raise
    failpoint("checkpoint-published")
    _verify_stored(store, written, snapshot.version)
    return WrittenCheckpoint(
        path=path,
        is_new=True,
        bytes=written.bytes,
        adds=written.adds,
        removes=written.removes,
        actions=written.rows,
    )


def write_v2(source: ActionSource) -> WrittenCheckpoint:
    """Write the sidecars, then `n.checkpoint.<uuid>.json` that names them."""
    sidecars = write_sidecars(source)
    source.verify(sum(file.adds for file in sidecars))
    return publish_v2(source.snapshot, source.others, sidecars)


def write_sidecars(source: ActionSource) -> list[WrittenFile]:
    """Write actions into sidecars, which no manifest references yet."""
    sidecars: list[WrittenFile] = []
    for written in _sidecars(source):
        failpoint("checkpoint-part-written")
        _verify_stored(source.snapshot.store, written, source.snapshot.version)
        sidecars.append(written)
    return sidecars


def publish_v2(
    snapshot: SnapshotState, others: Sequence[dict[str, Any]], sidecars: Sequence[WrittenFile]
) -> WrittenCheckpoint:
    """Make a checkpoint of sidecars, all of which are in the store and counted."""
    store, path = snapshot.store, checkpoint_path(snapshot.version, str(uuid.uuid4()), "json")
    now_ms = time.time_ns() // 10**6
    named = [
        {
            "path": file.path.rsplit("/", 1)[-1],
            "sizeInBytes": file.bytes,
            "modificationTime": now_ms,
            "tags": dict(file.tags),
        }
        for file in sidecars
    ]
    actions = [
        {"checkpointMetadata": {"version": snapshot.version}},
        *others,
        *({"sidecar": sidecar} for sidecar in named),
    ]
    data = b"".join(orjson.dumps(action) + b"\n" for action in actions)
    failpoint("checkpoint-manifest-prepared")
    store.write(path, data, overwrite=False)
    failpoint("checkpoint-published")
    return WrittenCheckpoint(
        path=path,
        is_new=True,
        bytes=len(data) + sum(file.bytes for file in sidecars),
        adds=sum(file.adds for file in sidecars),
        removes=sum(file.removes for file in sidecars),
        actions=len(actions) + sum(file.rows for file in sidecars),
        v2={
            "path": path.rsplit("/", 1)[-1],
            "sizeInBytes": len(data),
            "modificationTime": now_ms,
            "nonFileActions": [actions[0], *others],
            "sidecarFiles": named,
        },
    )


def _sidecars(source: ActionSource) -> Iterator[WrittenFile]:
    """Write adds, then tombstones, into files of their own."""
    yield from _sidecars_of(source, "add", source.adds())
    yield from _sidecars_of(source, "remove", source.removes())


def _sidecars_of(
    source: ActionSource, kind: Literal["add", "remove"], chunks: Iterator[list[Columns]]
) -> Iterator[WrittenFile]:
    file: ActionFile | None = None
    try:
        for pieces in chunks:
            if file is None:
                file, zones = _new_sidecar(source), Zones(source.shape.leading)
            file.append(kind, pieces)
            for columns in pieces if kind == "add" else ():
                zones.add(columns)
            if file.rows >= _SIDECAR_ADDS:
                done, file = file, None
                yield done.publish(zones.tags())
        if file is not None:
            done, file = file, None
            yield done.publish(zones.tags())
    finally:
        if file is not None:
            file.discard()


def _new_sidecar(source: ActionSource) -> ActionFile:
    path = sidecar_path(f"{uuid.uuid4()}.parquet")
    return ActionFile(source.snapshot.store, path, source.shape, others=False)


def _verify_stored(store: Store, written: WrittenFile, version: int) -> None:
    """Count again what is in the store; what is not what was written is taken away at once."""
    expected = (written.rows, written.adds, written.removes)
    try:
        with store.open_input(written.path) as source:
            stored = count_actions(read_footer(source).metadata)
        size = store.head(written.path).size
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = " ".join(str(error).split())
    else:
        if stored == expected and size == written.bytes:
            return
        reason = f"it holds {stored} actions in {size} bytes, not {expected} in {written.bytes}"
    store.delete([written.path])
    raise LogCorruptError(store.root, written.path, reason, version)
