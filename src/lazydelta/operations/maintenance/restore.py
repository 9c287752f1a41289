"""RESTORE: make an older version the newest one again, as a new commit.

The commit has the difference of two replays. A file is identified by its path and deletion vector,
so a file whose vector changed is removed and added. Memory is bounded by the difference, which the
commit holds anyway, and by the file keys, which spill.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import from_mask
from lazydelta.config import validate_integer
from lazydelta.errors import ConfigError, FilesNotFoundError
from lazydelta.operations.dml.row_deletion import removes_of, total_size
from lazydelta.operations.maintenance import tuning
from lazydelta.operations.maintenance.file_presence import FilePresence
from lazydelta.protocol.features import supported_features, with_features
from lazydelta.replay import SeenFiles, file_keys
from lazydelta.replay.skipping import Pruner
from lazydelta.scan.plan import live_adds
from lazydelta.schema import PrimitiveType, schema_to_json
from lazydelta.schema.values import build_scalar
from lazydelta.snapshot import load_snapshot, version_at
from lazydelta.transaction import ADDS, Reads, Transaction
from lazydelta.writer.columns import identity_columns, with_high_water_marks
from lazydelta.writer.properties import MAX_COLUMN_ID

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from lazydelta.operations.maintenance.request import Maintained
    from lazydelta.protocol import DomainMetadata, TableMetadata, TableProtocol
    from lazydelta.snapshot import SnapshotState

__all__ = [
    "FileDifference",
    "LocalRestore",
    "RestoreRequest",
    "RestoreResult",
    "RestoreWorkers",
    "restore_table",
]

_ROW_TRACKING = "delta.rowTracking"
_BOOLEAN = PrimitiveType("boolean")


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreRequest:
    """The options of a RESTORE, as `Table.restore` documents them."""

    version: int | None = None
    timestamp: datetime | str | None = None
    ignore_missing_files: bool = False
    protocol_downgrade_allowed: bool = False
    dry_run: bool = False

    def __post_init__(self) -> None:
        """Validate that one version is meant."""
        if (self.version is None) == (self.timestamp is None):
            raise ConfigError("version", "give either a version or a timestamp")
        if self.version is not None:
            validate_integer("version", self.version, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreResult:
    """The outcome of a RESTORE."""

    table: str
    version: int
    """The new version, or the newest one if nothing was committed."""
    restored_version: int
    committed: bool
    """Whether there was anything to restore, and it was no dry run."""
    metrics: Mapping[str, int] = field(default_factory=dict)
    """`operationMetrics`, as Delta Spark names them."""
    missing_files: tuple[str, ...] = ()
    """Some files that were left out because they do not exist."""
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)


def restore_table(
    table: Maintained, request: RestoreRequest, workers: RestoreWorkers | None = None
) -> RestoreResult:
    """Commit the state of an older version as a new version.

    Args:
        table: The table.
        request: The options.
        workers: Compare versions and check files; by default this process.

    Raises:
        FilesNotFoundError: Files of the older version do not exist any more.
        VersionNotFoundError: The log does not have the version any more, or yet.
        CommitConflictError: A concurrent commit conflicts with this one.
    """
    current = table.newest(dry_run=request.dry_run)
    version = request.version
    if version is None:
        assert request.timestamp is not None  # noqa: S101 - validated
        version = version_at(table.store, table.config, request.timestamp)
    target = load_snapshot(table.store, table.config, version=version)
    workers = LocalRestore() if workers is None else workers
    change = workers.difference(current, target)
    adds, missing = _existing(workers, target, change.adds, request)
    metrics = _metrics(change, adds, missing)
    result = RestoreResult(
        table=table.store.root,
        version=current.version,
        restored_version=version,
        committed=False,
        metrics=metrics,
        missing_files=tuple(missing[: tuning.LISTED_PATHS]),
    )
    transaction = Transaction(
        operation="RESTORE",
        parameters={"version": request.version, "timestamp": _string(request.timestamp)},
        metrics=metrics,
        user_metadata=table.commit_metadata,
        adds=_with_data_change(adds),
        removes=removes_of([change.removes]),
        reads=Reads(whole_table=True),
    )
    transaction = _with_definition(transaction, current, target, request)
    if request.dry_run or (transaction.has_only_files and not transaction.has_files):
        return result
    done = table.commit(transaction, current)
    return replace(result, version=done.version, committed=True, warnings=done.warnings)


def _metrics(change: FileDifference, adds: pa.Table, missing: Sequence[str]) -> dict[str, int]:
    """Return `operationMetrics` under the names of Delta Spark."""
    return {
        "tableSizeAfterRestore": change.size - total_size(change.adds) + total_size(adds),
        "numOfFilesAfterRestore": change.files - len(missing),
        "numRemovedFiles": change.removes.num_rows,
        "numRestoredFiles": adds.num_rows,
        "removedFilesSize": total_size(change.removes),
        "restoredFilesSize": total_size(adds),
    }


def _existing(
    workers: RestoreWorkers, target: SnapshotState, adds: pa.Table, request: RestoreRequest
) -> tuple[pa.Table, list[str]]:
    """Return the files that exist, and the names of the others.

    Raises:
        FilesNotFoundError: There are others, and the request does not allow it.
    """
    if not adds.num_rows:
        return adds, []
    existing, missing = workers.existing(target, adds)
    if missing and not request.ignore_missing_files:
        shown = tuple(missing[: tuning.LISTED_FAILURES])
        raise FilesNotFoundError(target.store.root, target.version, shown, len(missing))
    return existing, missing


def _with_definition(
    transaction: Transaction,
    current: SnapshotState,
    target: SnapshotState,
    request: RestoreRequest,
) -> Transaction:
    """Return the transaction with protocol, metadata and domains, where they change."""
    return replace(
        transaction,
        protocol=_protocol(current, target, request),
        metadata=_metadata(current, target),
        domains=_domains(current, target),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDifference:
    """The files that a restore adds and removes, in the schema of `ADDS`."""

    adds: pa.Table
    removes: pa.Table
    files: int
    """Number of files of the target."""
    size: int
    """Bytes of the target."""


class RestoreWorkers(Protocol):
    """Compares the files of versions, and finds out which of them exist."""

    def difference(self, current: SnapshotState, target: SnapshotState) -> FileDifference:
        """Return the files that a restore of the target adds and removes."""

    def existing(self, target: SnapshotState, adds: pa.Table) -> tuple[pa.Table, list[str]]:
        """Return the files that exist, and the names of the others."""


class LocalRestore:
    """Reads the log and looks for files in this process."""

    def difference(self, current: SnapshotState, target: SnapshotState) -> FileDifference:
        """Replay the target twice and the current version once."""
        files = size = 0
        with closing(_new_set(current)) as wanted, closing(_new_set(current)) as present:
            for batch, keys in _files(target, _KEYS):
                wanted.add(keys)
                files += batch.num_rows
                size += int(pc.sum(batch.column("size")).as_py() or 0)
            removes = []
            for batch, keys in _files(current, ADDS):
                present.add(keys)
                removes.append(batch.filter(from_mask(~wanted.contains(keys))))
            adds = [b.filter(from_mask(~present.contains(k))) for b, k in _files(target, ADDS)]
        return FileDifference(
            adds=pa.Table.from_batches(adds, ADDS),
            removes=pa.Table.from_batches(removes, ADDS),
            files=files,
            size=size,
        )

    def existing(self, target: SnapshotState, adds: pa.Table) -> tuple[pa.Table, list[str]]:
        """Request the metadata of each file."""
        existing, _, missing = FilePresence(target).split(adds)
        return existing, missing


_KEYS = pa.schema([ADDS.field(name) for name in ("path", "size", "deletionVector")])


def _files(snapshot: SnapshotState, schema: pa.Schema) -> Any:
    """Yield the live files of a version with their keys."""
    for batch in live_adds(snapshot, schema, Pruner()):
        paths = snapshot.resolver.keys(batch.column("path"))
        yield batch.select(schema.names), file_keys(paths, batch.column("deletionVector"))


def _new_set(snapshot: SnapshotState) -> SeenFiles:
    config = snapshot.config
    return SeenFiles(
        memory_limit=config.remove_set_memory_limit,
        capacity=config.remove_set_capacity,
        false_positive_rate=config.remove_set_false_positive_rate,
    )


def _with_data_change(adds: pa.Table) -> pa.Table:
    index = adds.schema.get_field_index("dataChange")
    values = pa.repeat(build_scalar(True, _BOOLEAN), adds.num_rows)
    return adds.set_column(index, adds.schema.field(index), values)


def _protocol(
    current: SnapshotState, target: SnapshotState, request: RestoreRequest
) -> TableProtocol | None:
    """Return the protocol to commit; None keeps the current one.

    Without a downgrade it supports what either version does.
    """
    if request.protocol_downgrade_allowed:
        protocol = target.protocol
    else:
        added = supported_features(target.protocol) - supported_features(current.protocol)
        protocol = with_features(current.protocol, added) if added else current.protocol
    return None if protocol == current.protocol else protocol


def _metadata(current: SnapshotState, target: SnapshotState) -> TableMetadata | None:
    """Return the metadata to commit; None keeps the current one.

    Generated values and column ids that were used once are not used again.
    """
    metadata = target.metadata
    newest = {c.name: c.high_water_mark for c in identity_columns(current.schema, "")}
    columns = identity_columns(target.schema, "")
    marks = {c.name: mark for c in columns if (mark := newest.get(c.name)) is not None}
    schema = with_high_water_marks(target.schema, columns, marks)
    if schema is not target.schema:
        metadata = replace(metadata, schema_string=schema_to_json(schema))
    configuration = dict(metadata.configuration)
    last_id = current.metadata.configuration.get(MAX_COLUMN_ID)
    if MAX_COLUMN_ID in configuration and last_id is not None:
        configuration[MAX_COLUMN_ID] = str(max(int(configuration[MAX_COLUMN_ID]), int(last_id)))
        metadata = replace(metadata, configuration=configuration)
    return None if metadata == current.metadata else metadata


def _domains(current: SnapshotState, target: SnapshotState) -> tuple[DomainMetadata, ...]:
    """Return the domains that change; the row ids of removed files are not used again."""
    before, after = current.domain_metadata(), target.domain_metadata()
    changed = [domain for name, domain in after.items() if before.get(name) != domain]
    removed = [replace(before[name], removed=True) for name in before if name not in after]
    return tuple(d for d in (*changed, *removed) if d.domain != _ROW_TRACKING)


def _string(timestamp: datetime | str | None) -> str | None:
    return timestamp if timestamp is None or isinstance(timestamp, str) else timestamp.isoformat()
