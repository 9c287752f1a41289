"""Plan of a change feed: the files to read for each version.

A version's changes are in its change data files if it has them. Otherwise they are the rows of the
files that it added and removed; for a file with a new deletion vector, the rows in which the old
and the new vector differ. Commits without data change have no changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import from_numpy
from lazydelta._stream import Stream
from lazydelta.changes import tuning
from lazydelta.changes.change_rows import (
    CHANGE_FILE,
    COMMIT_TIMESTAMP,
    COMMIT_VERSION,
    DELETE,
    INSERT,
    ChangeReader,
    FileTask,
)
from lazydelta.changes.commit_changes import CommitChanges, read_commits
from lazydelta.changes.version_range import ChangeRange, CommitValidator
from lazydelta.errors import LogCorruptError
from lazydelta.formats import DeletionVectorGroup
from lazydelta.scan import Scan
from lazydelta.scan.plan import partition_columns
from lazydelta.snapshot import load_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["ChangeMetrics", "ChangePlan"]

_TIMESTAMP = pa.timestamp("us", "UTC")


@dataclass(slots=True)
class ChangeMetrics:
    """Counters of one read of a change feed."""

    commits_read: int = 0
    files_read: int = 0
    files_pruned: int = 0
    """Files that the predicate excludes without opening them."""


class ChangePlan:
    """The files to read for a range, commit by commit."""

    def __init__(
        self, change_range: ChangeRange, reader: ChangeReader, metrics: ChangeMetrics
    ) -> None:
        self._range = change_range
        self._metrics = metrics
        self._reader = reader
        self._snapshot = change_range.end
        self._resolver = change_range.end.resolver
        self._table = change_range.end.store.root

    def tasks(self) -> Iterator[FileTask]:
        """Yield the files to read, oldest version first; a commit is read when it is reached."""
        change_range, snapshot = self._range, self._snapshot
        validator = CommitValidator(change_range)
        with Stream(read_commits(snapshot.store, snapshot.config, change_range.commits)) as commits:
            for commit, file_time in zip(commits, change_range.times, strict=True):
                self._metrics.commits_read += 1
                validator.validate(commit.other_actions, commit.file)
                time = validator.commit_time(commit.other_actions, commit.file, file_time)
                yield from self._commit_tasks(commit, time)

    def _commit_tasks(self, commit: CommitChanges, time: int) -> Iterator[FileTask]:
        """Yield the files of one commit; deletes precede inserts."""
        new_vectors, adds, removes = self._match_actions(commit)
        numbers = count()
        for files, kinds in (
            (commit.change_files, (CHANGE_FILE,)),
            (new_vectors, (DELETE, INSERT)),
            (self._with_partition_values(commit, removes), (DELETE,)),
            (adds, (INSERT,)),
        ):
            for batch in files.to_batches(max_chunksize=tuning.FILES_PER_BATCH):
                if batch.num_rows:
                    yield from self._file_tasks(commit, batch, kinds, time, numbers)

    def _match_actions(self, commit: CommitChanges) -> tuple[pa.Table, pa.Table, pa.Table]:
        """Return the files with a new deletion vector, the other adds, and the other removes."""
        adds, removes = commit.adds, commit.removes
        if not adds.num_rows or not removes.num_rows:
            return adds.slice(0, 0), adds, removes
        keys = [self._resolver.keys(_path(table)) for table in (adds, removes)]
        position = pc.index_in(keys[0], keys[1])
        if position.null_count == len(position):
            return adds.slice(0, 0), adds, removes
        for kind, array in zip(("adds", "removes"), keys, strict=True):
            if len(pc.unique(array)) != len(array):
                raise self._corrupt(commit, f"it {kind} a file more than once")
        before = removes.column("deletionVector").take(position.drop_null())
        new_vectors = adds.filter(position.is_valid()).append_column("before", before)
        only_removed = pc.invert(pc.is_in(keys[1], keys[0]))
        return new_vectors, adds.filter(position.is_null()), removes.filter(only_removed)

    def _with_partition_values(self, commit: CommitChanges, removes: pa.Table) -> pa.Table:
        """Return the removes with partition values; missing ones are read from the adds."""
        values = removes.column("partitionValues")
        if not values.null_count or not self._snapshot.partition_columns:
            return removes
        snapshot, removed = self._snapshot, self._resolver.keys(_path(removes))
        previous = load_snapshot(snapshot.store, snapshot.config, version=commit.version - 1)
        by_key: dict[str, object] = {}
        with Scan(previous).add_batches() as batches:
            for batch in batches:
                keys = self._resolver.keys(batch.column("path"))
                is_removed = pc.is_in(keys, removed)
                maps = batch.column("partitionValues").filter(is_removed).to_pylist()
                by_key.update(zip(keys.filter(is_removed).to_pylist(), maps, strict=True))
        completed = pa.array([by_key.get(key) for key in removed.to_pylist()], values.type)
        index = removes.schema.get_field_index("partitionValues")
        return removes.set_column(index, "partitionValues", completed)

    def _file_tasks(
        self,
        commit: CommitChanges,
        files: pa.RecordBatch,
        kinds: Sequence[str],
        time: int,
        numbers: Iterator[int],
    ) -> Iterator[FileTask]:
        constants = self._constants(commit, files, time)
        masks = [self._reader.may_match(kind, constants, files.num_rows) for kind in kinds]
        paths, sizes = files.column("path").to_pylist(), files.column("size").to_pylist()
        decoded = self._resolver.decoded(files.column("path")).to_pylist()
        names = [name for name in ("deletionVector", "before") if name in files.schema.names]
        vectors = [files.column(name).to_pylist() for name in names]
        named = [(path, v) for column in vectors for path, v in zip(decoded, column, strict=True)]
        group = DeletionVectorGroup(named, self._resolver, self._reader.stores.store)
        for index, path in enumerate(paths):
            matching = tuple(kind for kind, mask in zip(kinds, masks, strict=True) if mask[index])
            self._metrics.files_read += bool(matching)
            self._metrics.files_pruned += not matching
            if matching:
                yield FileTask(
                    path=path,
                    shown_path=decoded[index],
                    size=sizes[index],
                    version=commit.version,
                    kinds=matching,
                    vectors=group,
                    vector_indexes=tuple(range(index, len(names) * len(paths), len(paths))),
                    constants={name: array[index] for name, array in constants.items()},
                    time=time,
                    index=next(numbers),
                )

    def _constants(
        self, commit: CommitChanges, files: pa.RecordBatch, time: int
    ) -> dict[str, pa.Array]:
        """Return the columns with one value per file: partition columns, version and timestamp."""
        snapshot, count = self._snapshot, files.num_rows
        constants = {
            COMMIT_VERSION: from_numpy(np.full(count, commit.version, np.int64)),
            COMMIT_TIMESTAMP: from_numpy(np.full(count, time * 1000, np.int64)).view(_TIMESTAMP),
        }
        values, names = files.column("partitionValues"), snapshot.partition_columns
        if names and values.null_count:
            raise self._corrupt(commit, "a file has no partition values")
        return constants | partition_columns(snapshot, values, names)

    def _corrupt(self, commit: CommitChanges, reason: str) -> LogCorruptError:
        return LogCorruptError(self._table, commit.file.path, reason, commit.version)


def _path(files: pa.Table) -> pa.Array:
    return files.column("path").combine_chunks()
