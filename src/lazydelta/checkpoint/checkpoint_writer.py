"""Writing checkpoints: the state of a version in one place, laid out to be skipped.

The steps, each of which leaves a readable table if it is the last: files with actions, which
nobody looks for yet; the file that makes them a checkpoint; and `_last_checkpoint`, after every
count was taken again from what is in the store. The source is a `FullReplay` and nothing else.
"""

from __future__ import annotations

import logging
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import orjson

from lazydelta._failpoints import failpoint
from lazydelta.checkpoint.action_files import checkpoint_schema
from lazydelta.checkpoint.action_source import CheckpointSource
from lazydelta.checkpoint.checkpoint_schema import checkpoint_interval
from lazydelta.checkpoint.checksum_writer import checksum_of, put_checksum
from lazydelta.checkpoint.full_replay import full_replay
from lazydelta.checkpoint.layouts import found_checkpoint, write_classic, write_v2
from lazydelta.checkpoint.write_gate import require_writable
from lazydelta.errors import LogCorruptError, ObjectExistsError, SchemaError
from lazydelta.log.checkpoints import write_hint
from lazydelta.schema import from_arrow_schema, schema_to_json
from lazydelta.snapshot import load_snapshot, skip_damaged_checkpoint

if TYPE_CHECKING:
    from lazydelta.checkpoint.checkpoint_schema import CheckpointShape
    from lazydelta.checkpoint.full_replay import FullReplay
    from lazydelta.checkpoint.layouts import WrittenCheckpoint
    from lazydelta.snapshot import SnapshotState
    from lazydelta.transaction import Committed

__all__ = [
    "CheckpointResult",
    "checkpoint_after",
    "checkpoint_from",
    "conclude",
    "write_checkpoint",
]

logger = logging.getLogger(__name__)

_LARGEST_SCHEMA = 8_000
_MOST_LISTED = 30
"""Most actions of each kind that a hint repeats, so that it stays a small file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointResult:
    """A checkpoint that was written, or found to be there already."""

    version: int
    path: str
    is_new: bool
    adds: int
    removes: int
    bytes: int
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)


def write_checkpoint(snapshot: SnapshotState, *, now_ms: int | None = None) -> CheckpointResult:
    """Write the checkpoint of a version, and point `_last_checkpoint` at it.

    A damaged checkpoint that the version would be rebuilt from is left out, where the log still
    has another way.

    Args:
        snapshot: The version.
        now_ms: The time at which tombstones are judged to have expired; by default now.

    Raises:
        UnsupportedFeatureError: The table has a feature whose rules for writers we do not follow.
        LogCorruptError: The log contradicts its own `.crc`, or a checkpoint of the version.
    """

    def written(sound: SnapshotState) -> CheckpointResult:
        with full_replay(sound, now_ms=now_ms) as replay:
            return checkpoint_from(replay)

    if (
        snapshot.segment.base_version == snapshot.version
    ):  # to write the damaged one anew is not for us
        return written(snapshot)
    return skip_damaged_checkpoint(snapshot, written)


def checkpoint_after(committed: Committed) -> None:
    """Write the checkpoint that a commit makes due; a post-commit hook.

    Where the version has no checksum, it gets one: the files are counted anyway.
    """
    base, version = committed.base, committed.version
    metadata = committed.transaction.metadata or (None if base is None else base.metadata)
    if metadata is None or not version or version % checkpoint_interval(metadata.configuration):
        return
    snapshot = load_snapshot(committed.store, committed.config, version=version)
    if snapshot.segment.base_version == version:
        return
    with full_replay(snapshot) as replay:
        checkpoint_from(replay)
        if committed.config.write_checksums and snapshot.num_files is None:
            body = checksum_of(
                replay, timestamp_ms=committed.timestamp_ms, txn_id=committed.transaction.txn_id
            )
            put_checksum(committed.store, version, body)


def checkpoint_from(replay: FullReplay) -> CheckpointResult:
    """Write the checkpoint of a version that is being replayed; reads the replay to its end."""
    started = time.perf_counter()
    snapshot = replay.snapshot
    require_writable(snapshot)
    source = CheckpointSource(replay)
    return conclude(snapshot, source.shape, _written(source), started=started)


def conclude(
    snapshot: SnapshotState, shape: CheckpointShape, written: WrittenCheckpoint, *, started: float
) -> CheckpointResult:
    """Point `_last_checkpoint` at a checkpoint that is in its place."""
    hint = _hint(snapshot.version, shape, written)
    write_hint(snapshot.store, hint, is_new=written.is_new)
    failpoint("last-checkpoint-written")
    result = CheckpointResult(
        version=snapshot.version,
        path=written.path,
        is_new=written.is_new,
        adds=written.adds,
        removes=written.removes,
        bytes=written.bytes,
        seconds=time.perf_counter() - started,
    )
    logger.info(
        "%s: checkpoint of version %d: %d adds, %d removes, %d bytes in %.3f s",
        snapshot.store.root, result.version, result.adds, result.removes, result.bytes,
        result.seconds,
    )  # fmt: skip
    return result


def _written(source: CheckpointSource) -> WrittenCheckpoint:
    """Write the checkpoint, or return the one of this version that is there already."""
    replay, snapshot = source.replay, source.replay.snapshot
    if snapshot.segment.base_version == snapshot.version:
        return found_checkpoint(replay)
    try:
        return (write_v2 if source.shape.settings.is_v2 else write_classic)(source)
    except ObjectExistsError:
        rival = load_snapshot(snapshot.store, snapshot.config, version=snapshot.version)
        with full_replay(rival, now_ms=replay.now_ms) as again:
            found = found_checkpoint(again)
    if found.adds != replay.totals.files:
        reason = f"it has {found.adds} adds, the log gives {replay.totals.files}"
        raise LogCorruptError(snapshot.store.root, found.path, reason, snapshot.version)
    return found


def _hint(version: int, shape: CheckpointShape, written: WrittenCheckpoint) -> dict[str, Any]:
    body: dict[str, Any] = {
        "version": version,
        "size": written.actions,
        "numOfAddFiles": written.adds,
    }
    if not written.is_new:
        # How it is made is its writer's business, but readers take one without parts for one file.
        return body if written.parts is None else body | {"parts": written.parts}
    body["sizeInBytes"] = written.bytes
    if written.v2 is not None:
        lists = {name: written.v2[name] for name in ("nonFileActions", "sidecarFiles")}
        too_long = {name: None for name, listed in lists.items() if len(listed) > _MOST_LISTED}
        body["v2Checkpoint"] = {k: v for k, v in (written.v2 | too_long).items() if v is not None}
        return body
    try:
        schema = from_arrow_schema(checkpoint_schema(shape, others=True))
    except SchemaError:
        return body  # a hint does well without
    text = schema_to_json(schema)
    if len(text) <= _LARGEST_SCHEMA:
        body["checkpointSchema"] = orjson.loads(text)
    return body
