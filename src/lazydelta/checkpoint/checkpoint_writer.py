"""Writing checkpoints: the state of a version, sorted so that readers can skip most of it.

The steps, each of which leaves a readable table if it is the last: files with actions that nothing
references yet; the file that makes them a checkpoint; and `_last_checkpoint`, after the counts of
the stored files were validated. The only source is a `FullReplay`.
"""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import orjson

from lazydelta._failpoints import failpoint
from lazydelta._parallel import start_thread
from lazydelta.checkpoint import tuning
from lazydelta.checkpoint.action_files import action_file_schema
from lazydelta.checkpoint.checkpoint_actions import CheckpointActions
from lazydelta.checkpoint.checkpoint_layouts import existing_checkpoint, write_classic, write_v2
from lazydelta.checkpoint.checkpoint_schema import checkpoint_interval
from lazydelta.checkpoint.checksum_writer import checksum_of, put_checksum
from lazydelta.checkpoint.full_replay import full_replay
from lazydelta.errors import (
    LogCorruptError,
    ObjectExistsError,
    SchemaError,
)
from lazydelta.log.checkpoints import read_hint, write_hint
from lazydelta.parquet.footer import footer_range
from lazydelta.protocol.features import unsupported_error, unwritable_features
from lazydelta.schema import from_arrow_schema, schema_to_json
from lazydelta.snapshot import load_snapshot, skip_damaged_checkpoint
from lazydelta.store.layers import prefetch

if TYPE_CHECKING:
    from concurrent.futures import Future

    from lazydelta.checkpoint.checkpoint_layouts import WrittenCheckpoint
    from lazydelta.checkpoint.checkpoint_schema import CheckpointSchema
    from lazydelta.checkpoint.full_replay import FullReplay
    from lazydelta.log.checkpoints import CheckpointHint
    from lazydelta.snapshot import SnapshotState
    from lazydelta.store import Store
    from lazydelta.transaction import Committed

__all__ = [
    "CheckpointResult",
    "checkpoint_after",
    "checkpoint_from",
    "prefetch_checkpoint",
    "write_checkpoint",
]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointResult:
    """A checkpoint that was written, or that already existed."""

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

    A damaged older checkpoint is skipped where the log can rebuild the version without it.

    Args:
        snapshot: The version.
        now_ms: The time that tombstones and transactions expire against; now by default.

    Raises:
        UnsupportedFeatureError: The table has a writer feature that lazydelta does not support.
        LogCorruptError: The log contradicts its checksum, or a checkpoint of the version.
    """

    def write(undamaged: SnapshotState) -> CheckpointResult:
        hint = _start_reading_hint(undamaged.store)
        with full_replay(undamaged, now_ms=now_ms) as replay:
            return checkpoint_from(replay, hint)

    if (
        snapshot.segment.base_version == snapshot.version
    ):  # an existing checkpoint is never rewritten
        return write(snapshot)
    return skip_damaged_checkpoint(snapshot, write)


def prefetch_checkpoint(committed: Committed) -> None:
    """Request the previous checkpoint if the next one is due; a post-commit hook.

    It arrives while the checksum is written.
    """
    snapshot = committed.snapshot
    with suppress(SchemaError):  # reported by the hook that writes
        if snapshot is None or snapshot.segment.checkpoint is None or not _is_due(snapshot):
            return
        for file in snapshot.segment.checkpoint.files:
            is_parquet = file.name.endswith(".parquet")
            end = footer_range(file.size) if is_parquet else (0, None)
            prefetch(snapshot.store, file.path, *end)


def _is_due(snapshot: SnapshotState) -> bool:
    interval = checkpoint_interval(snapshot.metadata.configuration)
    return snapshot.version > 0 and snapshot.version % interval == 0


def checkpoint_after(committed: Committed) -> None:
    """Write the checkpoint if the commit makes it due; a post-commit hook.

    A version without a checksum gets one too, since its files are counted anyway. The next listing
    finds the checkpoint.
    """
    snapshot, version = committed.snapshot, committed.version
    if snapshot is None or not _is_due(snapshot):
        return
    hint = _start_reading_hint(snapshot.store)
    with full_replay(snapshot) as replay:
        checkpoint_from(replay, hint)
        if committed.config.write_checksums and snapshot.num_files is None:
            body = checksum_of(
                replay, timestamp_ms=committed.timestamp_ms, txn_id=committed.transaction.txn_id
            )
            put_checksum(committed.store, version, body)


def _start_reading_hint(store: Store) -> Future[CheckpointHint | None]:
    """Start reading the existing hint; the new one is compared with it at the end."""
    return start_thread(lambda: read_hint(store))


def checkpoint_from(
    replay: FullReplay, existing_hint: Future[CheckpointHint | None]
) -> CheckpointResult:
    """Write the checkpoint of a replayed version, and point `_last_checkpoint` at it.

    The replay is read to its end.
    """
    started = time.perf_counter()
    snapshot = replay.snapshot
    if features := unwritable_features(snapshot.protocol):
        raise unsupported_error(snapshot.store.root, features, "write")
    actions = CheckpointActions(replay)
    written = _write(actions)
    hint = _hint(snapshot.version, actions.schema, written)
    write_hint(snapshot.store, hint, is_new=written.is_new, existing=existing_hint.result())
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


def _write(actions: CheckpointActions) -> WrittenCheckpoint:
    """Write the checkpoint, or return the existing one of the version."""
    replay, snapshot = actions.replay, actions.snapshot
    if snapshot.segment.base_version == snapshot.version:
        return existing_checkpoint(replay)
    try:
        return (write_v2 if actions.schema.settings.is_v2 else write_classic)(actions)
    except ObjectExistsError:
        other = load_snapshot(snapshot.store, snapshot.config, version=snapshot.version)
        with full_replay(other, now_ms=replay.now_ms) as other_replay:
            existing = existing_checkpoint(other_replay)
    if existing.adds != replay.totals.files:
        reason = f"it has {existing.adds} adds, the log has {replay.totals.files}"
        raise LogCorruptError(snapshot.store.root, existing.path, reason, snapshot.version)
    return existing


def _hint(version: int, schema: CheckpointSchema, written: WrittenCheckpoint) -> dict[str, Any]:
    """Return the content of `_last_checkpoint`."""
    body: dict[str, Any] = {
        "version": version,
        "size": written.actions,
        "numOfAddFiles": written.adds,
    }
    if not written.is_new:
        # Another writer knows the rest. Without `parts`, readers expect a single file.
        return body if written.parts is None else body | {"parts": written.parts}
    body["sizeInBytes"] = written.bytes
    if written.v2 is not None:
        too_long = {
            name
            for name in ("nonFileActions", "sidecarFiles")
            if len(written.v2[name]) > tuning.HINT_ACTIONS
        }
        body["v2Checkpoint"] = {k: v for k, v in written.v2.items() if k not in too_long}
        return body
    try:
        table_schema = from_arrow_schema(action_file_schema(schema, has_non_file_actions=True))
    except SchemaError:
        return body  # the field is optional
    schema_json = schema_to_json(table_schema)
    if len(schema_json) <= tuning.HINT_SCHEMA_CHARACTERS:
        body["checkpointSchema"] = orjson.loads(schema_json)
    return body
