"""Log cleanup: delete log files that no retained version needs.

A version is retained if it was the newest one at or after the cutoff of
`delta.logRetentionDuration`. The newest complete checkpoint up to the oldest retained version is
kept, and every file of its version and later ones. It is read before anything is deleted.
"""

from __future__ import annotations

import time
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from lazydelta.checkpoint import tuning
from lazydelta.checkpoint.checkpoint_schema import checkpoint_interval
from lazydelta.errors import (
    ConfigError,
    LogCorruptError,
    SchemaError,
    StoreError,
    TimestampNotFoundError,
)
from lazydelta.log import (
    CheckpointFiles,
    LogFile,
    LogFileKind,
    choose_segment,
    list_log,
    sidecar_path,
)
from lazydelta.protocol import Retention
from lazydelta.protocol.features import supported_features, unsupported_error, unwritable_features
from lazydelta.snapshot import load_snapshot, version_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lazydelta.config import Config
    from lazydelta.snapshot import SnapshotState
    from lazydelta.store import Store
    from lazydelta.transaction import Committed

__all__ = ["LogCleanupResult", "clean_up_after", "clean_up_log"]

_ENABLED = "delta.enableExpiredLogCleanup"
_PROTECTED = "delta.requireCheckpointProtectionBeforeVersion"
_MAY_HAVE_SIDECARS = (LogFileKind.CLASSIC_CHECKPOINT, LogFileKind.V2_CHECKPOINT)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCleanupResult:
    """What a log cleanup deleted, or would delete."""

    table: str
    dry_run: bool
    cutoff: datetime
    """Versions that were replaced before this time are not retained."""
    oldest_version: int | None
    """The oldest version that the remaining log can build; None if nothing was to be deleted."""
    files_to_delete: int = 0
    bytes_to_delete: int = 0
    files_deleted: int = 0
    """Files that a listing after the deletion no longer shows."""
    kinds: dict[str, int] = field(default_factory=dict)
    """The number of files to delete of each kind."""
    reason: str = ""
    """Why nothing, or less than usual, was to be deleted."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {**asdict(self), "cutoff": self.cutoff.isoformat()}


def clean_up_log(
    store: Store, config: Config, *, dry_run: bool = False, force: bool = False
) -> LogCleanupResult:
    """Delete the log files that no retained version needs.

    Args:
        store: The table's store.
        config: Settings of the engine.
        dry_run: Whether to report what would be deleted, and delete nothing.
        force: Whether to ignore `delta.enableExpiredLogCleanup`.

    Raises:
        ConfigError: The table's properties turn log cleanup off.
        UnsupportedFeatureError: The table has a feature that lazydelta cannot write.
    """
    snapshot = load_snapshot(store, config)
    if features := unwritable_features(snapshot.protocol):
        raise unsupported_error(store.root, features, "write")
    if not force and not is_enabled(snapshot):
        raise ConfigError(_ENABLED, f"is false for {store.root}: set it, or give force=True")
    cutoff = _cutoff(snapshot)
    plan = _Plan(snapshot, list_log(store), cutoff)
    plan.find()
    return LogCleanupResult(
        table=store.root,
        dry_run=dry_run,
        cutoff=cutoff,
        oldest_version=plan.base,
        files_to_delete=len(plan.files),
        bytes_to_delete=sum(size for _, size in plan.files.values()),
        files_deleted=0 if dry_run else _delete(store, plan),
        kinds=plan.kinds(),
        reason=plan.reason,
    )


def clean_up_after(committed: Committed) -> None:
    """Clean up the log after a commit with a checkpoint; a post-commit hook."""
    snapshot = committed.snapshot
    if snapshot is None or not is_enabled(snapshot):
        return
    interval = checkpoint_interval(snapshot.metadata.configuration)
    if snapshot.version > 0 and snapshot.version % interval == 0:
        clean_up_log(committed.store, committed.config)


def is_enabled(snapshot: SnapshotState) -> bool:
    """Whether the table's properties allow log cleanup, as they do by default."""
    return snapshot.metadata.configuration.get(_ENABLED, "true").lower() == "true"


def _cutoff(snapshot: SnapshotState) -> datetime:
    """Return when a version must have been replaced to be deleted.

    Never a recent time: a writer relies on the commits since its last listing.
    """
    retention = Retention.parse(snapshot.metadata.configuration).log
    least = timedelta(milliseconds=tuning.MIN_LOG_AGE_MS)
    now = datetime.fromtimestamp(time.time_ns() // 10**6 / 1000, UTC)
    return now - max(retention, least)


class _Plan:
    """The log files to delete: path to kind and size."""

    def __init__(
        self, snapshot: SnapshotState, listed: Sequence[LogFile], cutoff: datetime
    ) -> None:
        self._snapshot = snapshot
        self._listed = listed
        self._cutoff = cutoff
        self.base: int | None = None
        self.files: dict[str, tuple[str, int]] = {}
        self.reason = ""

    def find(self) -> None:
        """Choose the checkpoint to keep, and the files before it."""
        snapshot = self._snapshot
        try:
            oldest = version_at(snapshot.store, snapshot.config, self._cutoff)
        except TimestampNotFoundError:
            self.reason = "all versions are within delta.logRetentionDuration"
            return
        base = self._readable_checkpoint(oldest)
        if base is None:
            self.reason = f"no readable checkpoint precedes version {oldest}: write one"
            return
        protected = self._protected_version()
        if base < protected:
            self.reason = (
                f"the feature checkpointProtection keeps all versions before {protected} until "
                "they can be deleted together"
            )
            return
        self.base = base
        for file in self._listed:
            if file.version < base:
                self.files[file.path] = (file.kind.value, file.size)
        self._find_sidecars()

    def kinds(self) -> dict[str, int]:
        """Return the number of files of each kind."""
        counts: dict[str, int] = {}
        for kind, _ in self.files.values():
            counts[kind] = counts.get(kind, 0) + 1
        return counts

    def _readable_checkpoint(self, version: int) -> int | None:
        """Return the version of the newest checkpoint up to a version that can be read."""
        snapshot, excluded = self._snapshot, frozenset[str]()
        while True:
            segment = choose_segment(
                snapshot.store.root,
                self._listed,
                version=version,
                use_compaction=False,
                excluded=excluded,
            )
            checkpoint = segment.checkpoint
            if checkpoint is None or _is_readable(snapshot, checkpoint):
                return None if checkpoint is None else checkpoint.version
            excluded |= {checkpoint.name}

    def _protected_version(self) -> int:
        snapshot = self._snapshot
        if "checkpointProtection" not in supported_features(snapshot.protocol):
            return 0
        value = snapshot.metadata.configuration.get(_PROTECTED, "0")
        try:
            return int(value)
        except ValueError:
            raise SchemaError(f"{_PROTECTED} cannot be {value!r}") from None

    def _find_sidecars(self) -> None:
        """Add old sidecars that no remaining checkpoint names.

        A young one may belong to a checkpoint that is being written.
        """
        store = self._snapshot.store
        directory = sidecar_path("").rstrip("/")
        cutoff_ms = int(self._cutoff.timestamp() * 1000)
        old: dict[str, tuple[str, int]] = {}
        for batch in store.list_from(directory):
            times = batch.column("modified").cast("int64").to_pylist()
            sizes, paths = batch.column("size").to_pylist(), batch.column("path").to_pylist()
            for path, size, modified in zip(paths, sizes, times, strict=True):
                if modified < cutoff_ms:
                    old[path] = ("sidecar", size)
        if not old:
            return
        try:
            named = self._named_sidecars()
        except (LogCorruptError, StoreError) as error:
            self.reason = f"sidecars are kept, because a checkpoint cannot be read: {error}"
            return
        self.files |= {path: entry for path, entry in old.items() if path not in named}

    def _named_sidecars(self) -> set[str]:
        named: set[str] = set()
        for file in self._listed:
            if file.kind in _MAY_HAVE_SIDECARS and file.path not in self.files and file.size:
                files = CheckpointFiles(version=file.version, files=(file,))
                leaves = self._snapshot.open_checkpoint(files).leaves()
                named.update(leaf.path for leaf in leaves)
        return named


def _is_readable(snapshot: SnapshotState, checkpoint: CheckpointFiles) -> bool:
    """Whether a checkpoint has protocol, metadata and all its files, with valid footers."""
    try:
        loaded = load_snapshot(snapshot.store, snapshot.config, version=checkpoint.version)
        if loaded.segment.checkpoint is None or loaded.segment.checkpoint.name != checkpoint.name:
            return False
        opened = loaded.open_checkpoint(checkpoint)
        if not all(opened.actions(("protocol", "metaData"), first_only=True).values()):
            return False
        for reader in opened.readers():
            with closing(reader):
                _ = reader.metadata
    except (LogCorruptError, StoreError):
        return False
    return True


def _delete(store: Store, plan: _Plan) -> int:
    """Delete the files, oldest first, and return how many a new listing no longer shows.

    A cleanup that stops halfway leaves the newer versions of the log.
    """
    paths = list(plan.files)
    for start in range(0, len(paths), tuning.DELETED_TOGETHER):
        with suppress(StoreError):  # the listing shows what is left
            store.delete(paths[start : start + tuning.DELETED_TOGETHER])
    left = {file.path for file in list_log(store, to_version=plan.base)} if paths else set()
    if any(kind == "sidecar" for kind, _ in plan.files.values()):
        for batch in store.list_from(sidecar_path("").rstrip("/")):
            left.update(batch.column("path").to_pylist())
    return len(plan.files.keys() - left)
