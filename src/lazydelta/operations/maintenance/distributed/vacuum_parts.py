"""The parts of a VACUUM that other processes run: each reads a share of the log or of storage.

The files to delete are the candidates without the retained files; the caller takes the difference.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from lazydelta.log import LOG_DIRECTORY
from lazydelta.operations.maintenance.dead_files import DeadFiles
from lazydelta.operations.maintenance.file_deletion import delete_files
from lazydelta.operations.maintenance.object_listing import list_range, own_objects
from lazydelta.operations.maintenance.retained_files import (
    change_files,
    checkpoint_removed_paths,
    paths_of,
    removed_paths,
)
from lazydelta.schema import PrimitiveType
from lazydelta.schema.values import build_array
from lazydelta.store import LISTING_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lazydelta.log import LogFile
    from lazydelta.operations.maintenance.file_deletion import Deletion
    from lazydelta.operations.maintenance.file_rules import PartitionScope
    from lazydelta.operations.maintenance.retained_files import RetainedVersions

__all__ = ["OTHER_LOG", "VacuumParts"]

OTHER_LOG = f"/{LOG_DIRECTORY}/"


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumParts:
    """Parts of one VACUUM. Retained files are canonical paths, candidates have path and size."""

    versions: RetainedVersions
    """The retained versions; its commits are not used."""
    scope: PartitionScope

    def live(self, adds: Iterable[pa.RecordBatch]) -> Iterator[pa.Array]:
        """Yield the retained files of live files with `path` and `deletionVector`."""
        for batch in adds:
            vectors = batch.column("deletionVector")
            yield from paths_of(self.versions.snapshot, batch.column("path"), vectors)

    def removed(self, commits: Sequence[LogFile]) -> Iterator[pa.Array]:
        """Yield the retained files that some of `commits_with_removes` remove."""
        return removed_paths(self.versions, commits)

    def removed_before(self) -> Iterator[pa.Array]:
        """Yield the retained files of the checkpoint's tombstones."""
        return checkpoint_removed_paths(self.versions)

    def changed(self, commits: Sequence[LogFile]) -> Iterator[pa.Array]:
        """Yield the change data files of some of the `later_commits`."""
        return change_files(self.versions.snapshot, commits)

    def named(self, commits: Sequence[LogFile]) -> Iterator[pa.RecordBatch]:
        """Yield the candidates of some expired commits; without any, of the oldest checkpoint."""
        first = commits[0].version if commits else 0
        versions = replace(self.versions, commits=tuple(commits))
        return DeadFiles(versions, None, self.scope).in_log(first)

    def listed(self, after: str, last: str | None) -> Iterator[pa.RecordBatch]:
        """Yield the candidates of a range of paths in storage, as `inventory` does."""
        return self._among(list_range(self.versions.snapshot.store, after, last))

    def owned(self, inventory: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the objects of an inventory that are the table's."""
        return (own_objects(self.versions.snapshot, batch) for batch in inventory)

    def inventory(self, inventory: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the candidates of an inventory.

        A path that ends with `OTHER_LOG` is the log of another table: the caller leaves out its
        directory.
        """
        return self._among(self.owned(inventory))

    def _among(self, objects: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        dead = DeadFiles(self.versions, None, self.scope)
        yield from dead.among(objects)
        if names := [f"{name}{OTHER_LOG}" for name in sorted(dead.nested_tables)]:
            nothing = (pa.nulls(len(names), kind) for kind in LISTING_SCHEMA.types[1:])
            columns = [build_array(names, PrimitiveType("string")), *nothing]
            yield pa.RecordBatch.from_arrays(columns, schema=LISTING_SCHEMA)

    def delete(self, files: Iterable[pa.RecordBatch]) -> Deletion:
        """Delete files."""
        return delete_files(self.versions.snapshot.store, files)
