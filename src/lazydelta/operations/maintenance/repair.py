"""FSCK REPAIR TABLE: files that are gone, or damaged, leave the log."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lazydelta._arrow import empty_table, from_mask, to_mask
from lazydelta.operations.dml.row_deletion import removes_of, total_size
from lazydelta.operations.maintenance import tuning
from lazydelta.operations.maintenance.file_presence import FilePresence
from lazydelta.operations.maintenance.object_listing import listed_objects
from lazydelta.operations.maintenance.retained_files import vector_files
from lazydelta.replay import PathDigests
from lazydelta.replay.skipping import Pruner
from lazydelta.scan.plan import live_adds
from lazydelta.transaction import ADDS, Reads, Transaction

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lazydelta.operations.maintenance.request import Maintained
    from lazydelta.snapshot import SnapshotState

__all__ = ["RepairResult", "repair_table"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairResult:
    """What a repair removed from the log, or would remove."""

    table: str
    version: int
    """The new version, or the newest one if nothing was committed."""
    dry_run: bool
    files_checked: int
    files_missing: int
    """Files that are missing, or damaged."""
    bytes_missing: int
    """Their size in the log."""
    paths: tuple[str, ...] = ()
    """Some of them, with the reason if it is not that they are missing."""
    committed: bool = False
    metrics: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)


def repair_table(table: Maintained, *, dry_run: bool, open_files: bool) -> RepairResult:
    """Remove files from the log that do not exist, as one commit; none if all exist.

    Args:
        table: The table.
        dry_run: Whether to commit nothing.
        open_files: Whether to open the files too.

    Raises:
        AppendOnlyError: The table is append-only.
        CommitConflictError: A concurrent commit conflicts with this one.
    """
    snapshot = table.newest(dry_run=dry_run)
    presence = FilePresence(snapshot, open_files=open_files)
    checked, reasons, missing = 0, list[str](), [empty_table(ADDS)]
    with closing(_Listing(snapshot, is_used=not open_files)) as listing:
        for batch in live_adds(snapshot, ADDS, Pruner()):
            checked += batch.num_rows
            adds = pa.Table.from_batches([batch.select(ADDS.names)])
            _, absent, named = presence.split(listing.unlisted(adds))
            missing.append(absent)
            reasons += named
    absent = pa.concat_tables(missing).combine_chunks()
    metrics = {"numFilesScanned": checked, "numRemovedFiles": absent.num_rows}
    result = RepairResult(
        table=table.store.root,
        version=snapshot.version,
        dry_run=dry_run,
        files_checked=checked,
        files_missing=absent.num_rows,
        bytes_missing=total_size(absent),
        paths=tuple(reasons[: tuning.LISTED_PATHS]),
        metrics=metrics,
    )
    if dry_run or not absent.num_rows:
        return result
    transaction = Transaction(
        operation="FSCK",
        metrics=metrics,
        user_metadata=table.commit_metadata,
        removes=removes_of([absent]),
        reads=Reads(paths=absent.column("path").combine_chunks()),
    )
    done = table.commit(transaction, snapshot)
    return replace(result, version=done.version, committed=True, warnings=done.warnings)


class _Listing:
    """The objects of a large table: most files need no request of their own.

    A file that is not listed is still requested before it counts as missing.

    Args:
        snapshot: The version to check.
        is_used: Whether a listing may replace requests.
    """

    def __init__(self, snapshot: SnapshotState, *, is_used: bool) -> None:
        self._snapshot = snapshot
        self._digests: PathDigests | None = None
        files = snapshot.estimated_files()
        if is_used and (files is None or files > tuning.LISTED_FILES):
            limit = snapshot.config.remove_set_memory_limit
            self._digests = PathDigests(memory_limit=limit)
            for batch in listed_objects(snapshot.store):
                self._digests.add(batch.column("path"))

    def unlisted(self, adds: pa.Table) -> pa.Table:
        """Return the files that must be requested."""
        if self._digests is None or not adds.num_rows:
            return adds
        paths = adds.column("path").combine_chunks()
        vectors = adds.column("deletionVector").combine_chunks()
        unknown = ~self._digests.contains(self._snapshot.resolver.keys(paths))
        files = vector_files(self._snapshot, vectors)
        if not np.all(self._digests.contains(files)):
            unknown |= to_mask(vectors.is_valid())
        return adds.filter(from_mask(unknown))

    def close(self) -> None:
        """Delete temporary files."""
        if self._digests is not None:
            self._digests.close()
