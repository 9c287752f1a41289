"""One version of a table: immutable, and cheap because the files are not part of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from lazydelta._html import snapshot_html
from lazydelta.errors import LogCorruptError
from lazydelta.log import (
    Checkpoint,
    CheckpointFiles,
    CheckpointHint,
    Checksum,
    CommitReader,
    LogSegment,
    open_checkpoint,
)
from lazydelta.protocol import (
    DomainMetadata,
    PathResolver,
    SetTransaction,
    TableMetadata,
    TableProperties,
    TableProtocol,
    allows_column_mapping,
    clustering_columns,
    supported_by_table,
)
from lazydelta.snapshot.segment_search import undamaged_segment

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lazydelta.config import Config
    from lazydelta.schema import StructType
    from lazydelta.store import Store

__all__ = ["BYTES_PER_ADD", "SnapshotState", "skip_damaged_checkpoint"]

T = TypeVar("T")

BYTES_PER_ADD = 512
"""About what a line of a commit takes: turns sizes from a listing into counts."""


@dataclass(frozen=True, kw_only=True)
class SnapshotState:
    """One version of a table: what must be read to list its files, and how to understand them."""

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
        """The mode in force: the property counts only where the protocol allows it."""
        allowed = allows_column_mapping(self.protocol)
        return self.properties.column_mapping_mode if allowed else "none"

    @property
    def generates_columns(self) -> bool:
        """Whether generation expressions hold: without the feature they bind no writer."""
        return "generatedColumns" in supported_by_table(self.protocol)

    @property
    def in_commit_timestamps(self) -> bool:
        """Whether commits carry their own time: the property counts only with its feature."""
        supported = "inCommitTimestamp" in supported_by_table(self.protocol)
        return supported and self.properties.in_commit_timestamps

    @property
    def num_files(self) -> int | None:
        """The number of live files where a checksum of this very version tells, else None."""
        known = self.checksum
        return known.num_files if known is not None and known.version == self.version else None

    def estimated_files(self) -> int | None:
        """Return about how many files are live, from what is known without listing any of them.

        Exact if `num_files` is known; else the newest count that the log states, and a guess by
        size for the commits after it. None where the log states none.
        """
        known = self.checksum
        hint = (
            self.hint if self.hint is not None and self.hint.version == self.segment.floor else None
        )
        if known is not None:
            count, at = known.num_files, known.version
        elif self.segment.checkpoint is None:
            count, at = 0, -1
        elif hint is not None and hint.add_files is not None:
            count, at = hint.add_files, hint.version
        else:
            return None
        later = sum(file.size for file in self.segment.commits if file.version > at)
        return count + later // BYTES_PER_ADD

    def open_checkpoint(self, files: CheckpointFiles) -> Checkpoint:
        """Return a checkpoint of this table to read from."""
        return open_checkpoint(
            self.store,
            files,
            commits=self.commits,
            resolver=self.resolver,
            config=self.config,
            footers=self.footers,
        )

    def transactions(self) -> dict[str, SetTransaction]:
        """Return how far each application got, by its id."""
        newest: dict[str, SetTransaction] = {}
        for obj in self._newest_first("txn"):
            action = SetTransaction.from_json(obj)
            newest.setdefault(action.app_id, action)
        return newest

    def domain_metadata(self) -> dict[str, DomainMetadata]:
        """Return the metadata domains in force, by name."""
        newest: dict[str, DomainMetadata] = {}
        for obj in self._newest_first("domainMetadata"):
            action = DomainMetadata.from_json(obj)
            newest.setdefault(action.domain, action)
        return {name: action for name, action in newest.items() if not action.removed}

    def clustering_columns(self) -> list[tuple[str, ...]]:
        """Return the physical paths of the columns that the table is clustered by."""
        if "clustering" not in (self.protocol.writer_features or ()):
            return []
        return clustering_columns(self.domain_metadata())

    def _newest_first(self, kind: str) -> Sequence[dict[str, object]]:
        return skip_damaged_checkpoint(self, lambda undamaged: _actions(undamaged, kind))


def _actions(snapshot: SnapshotState, kind: str) -> list[dict[str, object]]:
    """Return all actions of a kind, newest first."""
    segment, found = snapshot.segment, []
    for _, actions in snapshot.commits.find_each(segment.tail[::-1], (kind,)):
        found += actions[kind]
    if segment.checkpoint is not None:
        checkpoint = snapshot.open_checkpoint(segment.checkpoint)
        found += checkpoint.actions((kind,), first_only=False)[kind]
    return found


def skip_damaged_checkpoint(snapshot: SnapshotState, read: Callable[[SnapshotState], T]) -> T:
    """Return `read(snapshot)`, called again without each checkpoint or compaction that is damaged.

    `read` must not hand out anything before it returns.

    Raises:
        LogCorruptError: The damage is elsewhere, or the log has no other segment for the version.
    """
    while True:
        try:
            return read(snapshot)
        except LogCorruptError as error:
            segment = undamaged_segment(snapshot.store, snapshot.config, snapshot.segment, error)
            snapshot = replace(snapshot, segment=segment, footers={})
