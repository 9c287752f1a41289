"""The files that VACUUM deletes: from the tombstones of the log, a listing or an inventory.

Batches have the columns `path`, `size` and `modified`, with canonical paths inside the table. A
file is named once.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import from_mask, from_numpy, to_mask, to_numpy
from lazydelta.checkpoint import checkpoint_removes
from lazydelta.errors import ObjectNotFoundError, UnsupportedOperationError
from lazydelta.log import choose_segment, earliest_version, list_log
from lazydelta.operations.maintenance.file_rules import inside_mask, nested_tables, visible_mask
from lazydelta.operations.maintenance.object_listing import inventory_objects, listed_objects
from lazydelta.operations.maintenance.retained_files import TOMBSTONE, change_files, vector_files
from lazydelta.replay import SeenFiles
from lazydelta.schema import PrimitiveType
from lazydelta.schema.values import build_array
from lazydelta.store import LISTING_SCHEMA, is_local

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lazydelta.operations.maintenance.file_rules import PartitionScope
    from lazydelta.operations.maintenance.retained_files import RetainedFiles, RetainedVersions

__all__ = ["DeadFiles"]

_STRING, _LONG = PrimitiveType("string"), PrimitiveType("long")


class DeadFiles:
    """Finds files that no retained version needs.

    Args:
        versions: The retained versions.
        retained: Their files, and others to keep; None leaves it to the caller to keep them.
        scope: The partitions to consider.
    """

    def __init__(
        self, versions: RetainedVersions, retained: RetainedFiles | None, scope: PartitionScope
    ) -> None:
        self._versions = versions
        self._snapshot = versions.snapshot
        self._retained = retained
        self._scope = scope
        self.lists_partitions = True
        """Whether the partitions in scope were listed alone, not the whole table."""
        self.nested_tables: set[str] = set()
        """Directories of listed objects that have a log of their own."""

    def in_log(self, first_version: int) -> Iterator[pa.RecordBatch]:
        """Yield the expired files of tombstones, vectors and change files since a version.

        Args:
            first_version: The first commit to read; older ones are vacuumed already.
        """
        config = self._snapshot.config
        seen = SeenFiles(
            memory_limit=config.remove_set_memory_limit,
            capacity=config.remove_set_capacity,
            false_positive_rate=config.remove_set_false_positive_rate,
        )
        try:
            for named in self._named_in_log(first_version):
                unique = _first_of_each(named)
                new = unique.filter(from_mask(~seen.contains(unique.column("path"))))
                seen.add(new.column("path"))
                yield self._existing(self._dead(new))
        finally:
            seen.close()

    def in_storage(self) -> Iterator[pa.RecordBatch]:
        """List all objects, and return those that are old enough and not needed."""
        store = self._snapshot.store
        sample = () if self._retained is None else self._retained.sample
        try:
            batches = listed_objects(store, sample, self._scope)
        except UnsupportedOperationError:
            self.lists_partitions = self._scope.is_everything
            batches = listed_objects(store)
        return self.among(batches)

    def in_inventory(self, inventory: Any) -> Iterator[pa.RecordBatch]:
        """Return the objects of an inventory that are old enough and not needed."""
        return self.among(inventory_objects(self._snapshot, inventory))

    def among(self, objects: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the objects that are old enough and not needed."""
        for batch in objects:
            yield self._dead(self._old(batch))

    def _existing(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the files of the log that exist, with their sizes; remote ones are not asked for.

        A request for each object costs more than deleting it. Object stores confirm the deletion
        of an object that was gone like any other.
        """
        store = self._snapshot.store
        if not is_local(store) or not batch.num_rows:
            return batch
        found = []
        for path in batch.column("path").to_pylist():
            with suppress(ObjectNotFoundError):
                found.append(store.head(path))
        times = build_array([file.modified_ms for file in found], _LONG)
        arrays = [
            build_array([file.path for file in found], _STRING),
            build_array([file.size for file in found], _LONG),
            times.cast(LISTING_SCHEMA.field("modified").type),
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=LISTING_SCHEMA)

    def _old(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        self.nested_tables.update(nested_tables(batch.column("path")))
        times = to_numpy(batch.column("modified").view(pa.int64()))
        return batch.filter(from_mask(times < self._versions.cutoff_ms))

    def _dead(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self._retained is not None:
            batch = batch.filter(from_mask(~self._retained.digests.contains(batch.column("path"))))
        keys = batch.column("path")
        may_go = to_mask(pc.and_(inside_mask(keys), visible_mask(keys, self._snapshot)))
        if not self._scope.is_everything:
            may_go &= self._scope.mask(keys)
        return batch.filter(from_mask(may_go))

    def _named_in_log(self, first_version: int) -> Iterator[pa.RecordBatch]:
        snapshot, last = self._snapshot, self._versions.oldest
        commits = [f for f in self._versions.commits if first_version <= f.version <= last]
        reader = snapshot.commits.decoding(TOMBSTONE)
        for batch in reader.removes(reversed(commits)):
            yield from self._files_of(batch.remove.drop_null())
        for paths in change_files(snapshot, commits):
            yield _listing(paths)
        if not self._versions.has_commits_since(first_version):
            yield from self._oldest_tombstones()

    def _oldest_tombstones(self) -> Iterator[pa.RecordBatch]:
        """Yield the files of the oldest checkpoint's tombstones: their commits are cleaned up."""
        snapshot = self._snapshot
        files = list_log(snapshot.store)
        segment = choose_segment(
            snapshot.store.root, files, version=earliest_version(files), use_compaction=False
        )
        if segment.checkpoint is not None:
            reader = snapshot.commits.decoding(TOMBSTONE)
            checkpoint = snapshot.open_checkpoint(segment.checkpoint)
            for removes in checkpoint_removes(checkpoint, reader, TOMBSTONE):
                yield from self._files_of(removes)

    def _files_of(self, removes: pa.StructArray) -> Iterator[pa.RecordBatch]:
        yield _listing(self._snapshot.resolver.keys(removes.field("path")), removes.field("size"))
        yield _listing(vector_files(self._snapshot, removes.field("deletionVector")))


def _listing(paths: pa.Array, sizes: pa.Array | None = None) -> pa.RecordBatch:
    count = len(paths)
    columns = [paths, sizes, None]
    return pa.RecordBatch.from_arrays(
        [
            pa.nulls(count, kind) if column is None else column
            for column, kind in zip(columns, LISTING_SCHEMA.types, strict=True)
        ],
        schema=LISTING_SCHEMA,
    )


def _first_of_each(batch: pa.RecordBatch) -> pa.RecordBatch:
    codes = to_numpy(batch.column("path").dictionary_encode().indices)
    _, first = np.unique(codes, return_index=True)
    return batch.take(from_numpy(np.sort(first)))
