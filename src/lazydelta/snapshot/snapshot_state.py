"""Snapshots: one version of a table, without its files."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakValueDictionary

from lazydelta._html import snapshot_html
from lazydelta.errors import LogCorruptError
from lazydelta.log import checkpoints
from lazydelta.protocol import (
    DomainMetadata,
    SetTransaction,
    TableMetadata,
    TableProperties,
    TableProtocol,
    clustering_columns,
)
from lazydelta.protocol.features import allows_column_mapping, supported_features
from lazydelta.snapshot import tuning
from lazydelta.snapshot.segment_search import undamaged_segment

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping, Sequence

    from lazydelta.config import Config
    from lazydelta.log import CheckpointFiles, Checksum, CommitReader, LogSegment
    from lazydelta.log.checkpoints import Checkpoint, CheckpointHint
    from lazydelta.protocol.paths import PathResolver
    from lazydelta.replay import SeenFiles
    from lazydelta.schema import StructType
    from lazydelta.store import Store

__all__ = ["SnapshotState", "skip_damaged_checkpoint"]

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class SnapshotState:
    """One version of a table: its log segment, protocol, metadata and schema. Immutable."""

    store: Store
    config: Config
    segment: LogSegment
    protocol: TableProtocol
    metadata: TableMetadata
    schema: StructType
    properties: TableProperties
    resolver: PathResolver
    commits: CommitReader
    checksum: Checksum | None
    hint: CheckpointHint | None
    footers: dict[str, Any] = field(default_factory=dict)
    tail_keys: MutableMapping[tuple[str, ...], SeenFiles] = field(
        default_factory=WeakValueDictionary, compare=False
    )
    """The file keys of the tail, by its files, while a scan uses them: all scans share them."""
    listed_ms: int = field(default_factory=lambda: time.time_ns() // 10**6)
    """When the log was listed. Log cleanup cannot have removed commits made after a recent one."""

    def __repr__(self) -> str:
        return f"Snapshot({self.store.root!r}, version={self.version})"

    _repr_html_ = snapshot_html

    @property
    def version(self) -> int:
        """The version of the table."""
        return self.segment.version

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """Logical names of the partition columns, in the table's order."""
        return self.metadata.partition_columns

    @property
    def column_mapping_mode(self) -> str:
        """The effective mode: the property applies only if the protocol supports the feature."""
        allowed = allows_column_mapping(self.protocol)
        return self.properties.column_mapping_mode if allowed else "none"

    @property
    def generates_columns(self) -> bool:
        """Whether writers must enforce generation expressions: only with the feature."""
        return "generatedColumns" in supported_features(self.protocol)

    @property
    def in_commit_timestamps(self) -> bool:
        """Whether in-commit timestamps are enabled: the property applies only with its feature."""
        supported = "inCommitTimestamp" in supported_features(self.protocol)
        return supported and self.properties.in_commit_timestamps

    @property
    def num_files(self) -> int | None:
        """The number of live files from this version's checksum; None without one."""
        crc = self.checksum
        return crc.num_files if crc is not None and crc.version == self.version else None

    def estimated_files(self) -> int | None:
        """Return the approximate number of live files, without listing them.

        Exact if `num_files` is known. Otherwise the newest count in a checksum or hint, plus an
        estimate by size for the commits after it. None if the log has no count.
        """
        crc = self.checksum
        hint = (
            self.hint
            if self.hint is not None and self.hint.version == self.segment.base_version
            else None
        )
        if crc is not None:
            count, version = crc.num_files, crc.version
        elif self.segment.checkpoint is None:
            count, version = 0, -1
        elif hint is not None and hint.add_files is not None:
            count, version = hint.add_files, hint.version
        else:
            return None
        later = sum(file.size for file in self.segment.commits if file.version > version)
        return count + later // tuning.BYTES_PER_ADD

    def open_checkpoint(self, files: CheckpointFiles) -> Checkpoint:
        """Open a checkpoint of this table."""
        return checkpoints.open_checkpoint(
            self.store,
            files,
            commits=self.commits,
            resolver=self.resolver,
            config=self.config,
            footers=self.footers,
        )

    def transactions(self) -> dict[str, SetTransaction]:
        """Return the newest `txn` action of each application, by its id."""
        newest: dict[str, SetTransaction] = {}
        for obj in self._newest_first("txn"):
            action = SetTransaction.from_json(obj)
            newest.setdefault(action.app_id, action)
        return newest

    def domain_metadata(self) -> dict[str, DomainMetadata]:
        """Return the active metadata domains, by name."""
        newest: dict[str, DomainMetadata] = {}
        for obj in self._newest_first("domainMetadata"):
            action = DomainMetadata.from_json(obj)
            newest.setdefault(action.domain, action)
        return {name: action for name, action in newest.items() if not action.removed}

    def clustering_columns(self) -> list[tuple[str, ...]]:
        """Return the physical paths of the clustering columns."""
        if "clustering" not in (self.protocol.writer_features or ()):
            return []
        return clustering_columns(self.domain_metadata())

    def _newest_first(self, kind: str) -> Sequence[dict[str, object]]:
        return skip_damaged_checkpoint(self, lambda undamaged: _actions(undamaged, kind))


def _actions(snapshot: SnapshotState, kind: str) -> list[dict[str, object]]:
    """Return all actions of a kind, newest first."""
    segment, actions = snapshot.segment, []
    for _, of_commit in snapshot.commits.find_each(segment.tail[::-1], (kind,)):
        actions += of_commit[kind]
    if segment.checkpoint is not None:
        checkpoint = snapshot.open_checkpoint(segment.checkpoint)
        actions += checkpoint.actions((kind,), first_only=False)[kind]
    return actions


def skip_damaged_checkpoint(snapshot: SnapshotState, read: Callable[[SnapshotState], T]) -> T:
    """Return `read(snapshot)`; retries it without each corrupt checkpoint or compacted commit.

    `read` must not yield results before it returns.

    Raises:
        LogCorruptError: A commit is corrupt, or the log has no other segment of the version.
    """
    while True:
        try:
            return read(snapshot)
        except LogCorruptError as error:
            segment = undamaged_segment(snapshot.store, snapshot.config, snapshot.segment, error)
            snapshot = replace(snapshot, segment=segment, footers={})
