"""The files that tell what changed, version by version.

A version is told by its change files where it has them; else by the files it added and removed,
and where a file only got another deletion vector, by the rows in which the two differ. Rewrites
that change no data tell nothing. `changes.version_range` decides which versions, `changes.commit_changes` reads their
commits, and `changes.change_rows` the files.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import from_numpy
from lazydelta._stream import Stream
from lazydelta.changes.change_rows import (
    CHANGE_FILE,
    DELETE,
    INSERT,
    TIME,
    VERSION,
    ChangeReader,
    FileTask,
)
from lazydelta.changes.commit_changes import CommitChanges, read_commits
from lazydelta.changes.version_range import ChangeRange, VersionCheck
from lazydelta.errors import LogCorruptError
from lazydelta.formats import DeletionVectorGroup
from lazydelta.scan import Scan
from lazydelta.scan.plan import partition_columns
from lazydelta.snapshot import load_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["ChangeCounts", "ChangePlan"]

_TIMESTAMP = pa.timestamp("us", "UTC")
_FILES_AT_ONCE = 32


@dataclass(slots=True)
class ChangeCounts:
    """What one read of a feed came across."""

    commits_read: int = 0
    files_read: int = 0
    files_pruned: int = 0
    """Files that the predicate kept from being opened."""


class ChangePlan:
    """The files of a range that tell what changed, commit by commit."""

    def __init__(self, found: ChangeRange, reader: ChangeReader, counts: ChangeCounts) -> None:
        self._found = found
        self._counts = counts
        self._reader = reader
        self._snapshot = found.end
        self._resolver = found.end.resolver
        self._table = found.end.store.root

    def tasks(self) -> Iterator[FileTask]:
        """Yield the files to read, oldest version first; a commit is read when it is reached."""
        found, snapshot = self._found, self._snapshot
        check = VersionCheck(found)
        with Stream(read_commits(snapshot.store, snapshot.config, found.commits)) as commits:
            for commit, known in zip(commits, found.times, strict=True):
                self._counts.commits_read += 1
                check.commit(commit.facts, commit.file)
                made = check.time_of(commit.facts, commit.file, known)
                yield from self._tasks_of(commit, made)

    def _tasks_of(self, commit: CommitChanges, made: int) -> Iterator[FileTask]:
        """Yield the files of one commit; what is gone comes before what is new."""
        moved, adds, removes = self._paired(commit)
        for files, kinds in (
            (commit.change_files, (CHANGE_FILE,)),
            (moved, (DELETE, INSERT)),
            (self._completed(commit, removes), (DELETE,)),
            (adds, (INSERT,)),
        ):
            for batch in files.to_batches(max_chunksize=_FILES_AT_ONCE):
                if batch.num_rows:
                    yield from self._tasks_for(commit, batch, kinds, made)

    def _paired(self, commit: CommitChanges) -> tuple[pa.Table, pa.Table, pa.Table]:
        """Return the files that only got another vector, then the other adds and removes."""
        adds, removes = commit.adds, commit.removes
        if not adds.num_rows or not removes.num_rows:
            return adds.slice(0, 0), adds, removes
        keys = [self._resolver.keys(_path(table)) for table in (adds, removes)]
        place = pc.index_in(keys[0], keys[1])
        if place.null_count == len(place):
            return adds.slice(0, 0), adds, removes
        for kind, array in zip(("adds", "removes"), keys, strict=True):
            if len(pc.unique(array)) != len(array):
                raise self._corrupt(commit, f"it {kind} a file more than once")
        before = removes.column("deletionVector").take(place.drop_null())
        moved = adds.filter(place.is_valid()).append_column("before", before)
        others = pc.invert(pc.is_in(keys[1], keys[0]))
        return moved, adds.filter(place.is_null()), removes.filter(others)

    def _completed(self, commit: CommitChanges, removes: pa.Table) -> pa.Table:
        """Return the removes with partition values: a remove need not state them, its add did."""
        values = removes.column("partitionValues")
        if not values.null_count or not self._snapshot.partition_columns:
            return removes
        snapshot, wanted = self._snapshot, self._resolver.keys(_path(removes))
        older = load_snapshot(snapshot.store, snapshot.config, version=commit.version - 1)
        known: dict[str, object] = {}
        with Scan(older).add_batches() as batches:
            for batch in batches:
                keys = self._resolver.keys(batch.column("path"))
                here = pc.is_in(keys, wanted)
                stated = batch.column("partitionValues").filter(here).to_pylist()
                known.update(zip(keys.filter(here).to_pylist(), stated, strict=True))
        found = [known.get(key) for key in wanted.to_pylist()]
        at = removes.schema.get_field_index("partitionValues")
        return removes.set_column(at, "partitionValues", pa.array(found, values.type))

    def _tasks_for(
        self, commit: CommitChanges, files: pa.RecordBatch, kinds: Sequence[str], made: int
    ) -> Iterator[FileTask]:
        known = self._known(commit, files, made)
        masks = [self._reader.decided(kind, known, files.num_rows) for kind in kinds]
        paths, sizes = files.column("path").to_pylist(), files.column("size").to_pylist()
        shown = self._resolver.decoded(files.column("path")).to_pylist()
        names = [name for name in ("deletionVector", "before") if name in files.schema.names]
        vectors = [files.column(name).to_pylist() for name in names]
        named = [(path, v) for column in vectors for path, v in zip(shown, column, strict=True)]
        group = DeletionVectorGroup(named, self._resolver, self._reader.places.store)
        for at, path in enumerate(paths):
            wanted = tuple(kind for kind, mask in zip(kinds, masks, strict=True) if mask[at])
            self._counts.files_read += bool(wanted)
            self._counts.files_pruned += not wanted
            if wanted:
                yield FileTask(
                    path=path,
                    shown_path=shown[at],
                    size=sizes[at],
                    version=commit.version,
                    kinds=wanted,
                    vectors=group,
                    places=tuple(at + column * len(paths) for column in range(len(names))),
                    constants={name: array[at] for name, array in known.items()},
                )

    def _known(
        self, commit: CommitChanges, files: pa.RecordBatch, made: int
    ) -> dict[str, pa.Array]:
        """Return what has one value in each file: partition columns, version and time."""
        snapshot, count = self._snapshot, files.num_rows
        found = {
            VERSION: from_numpy(np.full(count, commit.version, np.int64)),
            TIME: from_numpy(np.full(count, made * 1000, np.int64)).view(_TIMESTAMP),
        }
        values, names = files.column("partitionValues"), snapshot.partition_columns
        if names and values.null_count:
            raise self._corrupt(commit, "a file of it has no partition values")
        return found | partition_columns(snapshot, values, names)

    def _corrupt(self, commit: CommitChanges, reason: str) -> LogCorruptError:
        return LogCorruptError(self._table, commit.file.path, reason, commit.version)


def _path(files: pa.Table) -> pa.Array:
    return files.column("path").combine_chunks()
