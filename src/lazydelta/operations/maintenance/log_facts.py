"""Facts about the log of a table: size, growth, checkpoint, tombstones, recent operations."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import from_mask, to_numpy
from lazydelta.checkpoint import checkpoint_removes
from lazydelta.log import LogFileKind, earliest_version, list_log
from lazydelta.operations.maintenance import tuning
from lazydelta.operations.maintenance.retained_files import TOMBSTONE
from lazydelta.protocol import CommitInfo, Retention
from lazydelta.schema import PrimitiveType
from lazydelta.schema.values import build_scalar

if TYPE_CHECKING:
    from lazydelta.log import LogFile
    from lazydelta.snapshot import SnapshotState

__all__ = ["log_facts"]

_ZERO = build_scalar(0, PrimitiveType("long"))
_DAY_MS = 86_400_000


def log_facts(snapshot: SnapshotState) -> dict[str, dict[str, Any]]:
    """Return the facts in sections."""
    files = list_log(snapshot.store)
    now_ms = time.time_ns() // 10**6
    return {
        "log": _log(snapshot, files, now_ms),
        "checkpoint": _checkpoint(snapshot, now_ms),
        "tombstones": _tombstones(snapshot, now_ms),
        "commits": _commits(snapshot, files),
    }


def _log(snapshot: SnapshotState, files: list[LogFile], now_ms: int) -> dict[str, Any]:
    commits = [file for file in files if file.kind is LogFileKind.COMMIT]
    kept_ms = max(now_ms - commits[0].modified_ms, 1) if commits else 1
    retention = Retention.parse(snapshot.metadata.configuration).log
    size = sum(file.size for file in files)
    return {
        "files": len(files),
        "bytes": size,
        "commits": len(commits),
        "commit_bytes": sum(file.size for file in commits),
        "oldest_version": earliest_version(files),
        "kept_days": round(kept_ms / _DAY_MS, 2),
        "retention_days": round(retention.total_seconds() / 86_400, 2),
        "commits_per_day": round(len(commits) / max(kept_ms / _DAY_MS, 1 / 24), 1),
        "bytes_per_day": int(size / max(kept_ms / _DAY_MS, 1 / 24)),
    }


def _checkpoint(snapshot: SnapshotState, now_ms: int) -> dict[str, Any]:
    segment = snapshot.segment
    tail = {
        "commits_since": len(segment.commits),
        "bytes_since": sum(file.size for file in segment.commits),
    }
    if segment.checkpoint is None:
        return {"version": None, **tail}
    files = segment.checkpoint.files
    kind = "multi-part" if len(files) > 1 else "V2" if "V2" in files[0].kind.value else "classic"
    leaves = snapshot.open_checkpoint(segment.checkpoint).leaves()
    sidecars = [leaf.size or 0 for leaf in leaves if not leaf.is_manifest]
    return {
        "version": segment.checkpoint.version,
        "kind": kind,
        "files": len(files) + len(sidecars),
        "bytes": sum(file.size for file in files) + sum(sidecars),
        "age_days": round((now_ms - files[0].modified_ms) / _DAY_MS, 2),
        **tail,
    }


def _tombstones(snapshot: SnapshotState, now_ms: int) -> dict[str, Any]:
    """Return the removed files that the newest version's log has, and which VACUUM may delete."""
    retention = Retention.parse(snapshot.metadata.configuration).deleted_files
    cutoff = now_ms - int(retention.total_seconds() * 1000)
    reader = snapshot.commits.decoding(TOMBSTONE)
    counts = {"count": 0, "bytes": 0, "expired": 0, "expired_bytes": 0}

    def add(removes: pa.StructArray) -> None:
        times = to_numpy(pc.coalesce(removes.field("deletionTimestamp"), _ZERO))
        expired = removes.filter(from_mask(times < cutoff))
        for name, some in (("", removes), ("expired", expired)):
            counts[name or "count"] += len(some)
            size = int(pc.sum(some.field("size")).as_py() or 0)
            counts[f"{name}_bytes" if name else "bytes"] += size

    for batch in reader.removes(reversed(snapshot.segment.commits)):
        add(batch.remove.drop_null())
    if snapshot.segment.checkpoint is not None:
        checkpoint = snapshot.open_checkpoint(snapshot.segment.checkpoint)
        for removes in checkpoint_removes(checkpoint, reader, TOMBSTONE):
            add(removes)
    return counts


def _commits(snapshot: SnapshotState, files: list[LogFile]) -> dict[str, Any]:
    """Return what the newest commits did, and how many of them lost a race first."""
    commits = [file for file in files if file.kind is LogFileKind.COMMIT][-tuning.COMMITS_READ :]
    operations: dict[str, int] = {}
    rebased = 0
    last: dict[str, str] = {}
    for file, actions in snapshot.commits.find_each(commits, ("commitInfo",)):
        info = CommitInfo.from_json(next(iter(actions["commitInfo"]), {}), version=file.version)
        name = info.operation or "unknown"
        operations[name] = operations.get(name, 0) + 1
        read_version = info.raw.get("readVersion")
        rebased += isinstance(read_version, int) and read_version < file.version - 1
        moment = datetime.fromtimestamp(file.modified_ms / 1000, UTC)
        last[name] = moment.isoformat(timespec="seconds")
    return {
        "read": len(commits),
        "operations": operations,
        "rebased": rebased,
        "last_vacuum": last.get("VACUUM END"),
        "last_optimize": last.get("OPTIMIZE"),
    }
