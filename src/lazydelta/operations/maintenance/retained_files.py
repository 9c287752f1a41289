"""The files that a table needs: those of its retained versions, and those that are kept by name.

A version is retained if it was the newest one at or after the cutoff. Its files are live now, or
were removed by a later commit. Both are read from the log, so that no listing of data decides
which version stays readable.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import from_mask, string_scalar
from lazydelta._memory import release_memory
from lazydelta.checkpoint import checkpoint_removes
from lazydelta.errors import LogCorruptError, TimestampNotFoundError
from lazydelta.formats import DeletionVectorGroup
from lazydelta.log import LOG_DIRECTORY, LogFileKind, list_log
from lazydelta.operations.maintenance import tuning
from lazydelta.protocol.schemas import ADD, DELETION_VECTOR
from lazydelta.replay import PathDigests
from lazydelta.replay.skipping import Pruner
from lazydelta.scan.plan import live_adds
from lazydelta.schema import PrimitiveType
from lazydelta.schema.values import build_array, build_scalar
from lazydelta.snapshot import load_snapshot, version_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lazydelta.log import LogFile
    from lazydelta.snapshot import SnapshotState

__all__ = [
    "TOMBSTONE",
    "RetainedFiles",
    "RetainedVersions",
    "change_files",
    "checkpoint_removed_paths",
    "files_added_since",
    "paths_added_since",
    "paths_of",
    "removed_paths",
    "vector_files",
]

TOMBSTONE = pa.struct(
    [
        ("path", pa.string()),
        ("deletionTimestamp", pa.int64()),
        ("size", pa.int64()),
        ("deletionVector", DELETION_VECTOR),
    ]
)
"""The fields of a `remove` that maintenance needs."""
_FILES = pa.schema([ADD.field("path"), ADD.field("deletionVector")])
_STRING, _LONG = PrimitiveType("string"), PrimitiveType("long")
_RELATIVE, _ABSOLUTE = string_scalar("u"), string_scalar("p")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetainedVersions:
    """The retained part of a table's history."""

    snapshot: SnapshotState
    """The newest version."""
    cutoff_ms: int
    """Versions that were replaced before this time are not retained."""
    oldest: int
    """The oldest retained version: the newest one at the cutoff; -1 if the log starts later."""
    commits: tuple[LogFile, ...]
    """All commits of the log, ascending."""

    @classmethod
    def at(cls, snapshot: SnapshotState, cutoff_ms: int) -> Self:
        """Find the version that was the newest one at a time."""
        store = snapshot.store
        commits = tuple(f for f in list_log(store) if f.kind is LogFileKind.COMMIT)
        oldest = -1
        with suppress(TimestampNotFoundError):  # all commits are newer
            moment = _EPOCH + timedelta(milliseconds=cutoff_ms)
            oldest = version_at(store, snapshot.config, moment)
        return cls(snapshot=snapshot, cutoff_ms=cutoff_ms, oldest=oldest, commits=commits)

    def has_commits_since(self, first_version: int) -> bool:
        """Whether the log still has every commit from a version on."""
        return bool(self.commits) and self.commits[0].version <= max(first_version, 0)

    @property
    def commits_with_removes(self) -> tuple[LogFile, ...]:
        """The commits with the removes that neither the checkpoint nor an older version has."""
        first = min(self.oldest, self.snapshot.segment.base_version)
        return tuple(file for file in self.commits if file.version > first)

    @property
    def later_commits(self) -> tuple[LogFile, ...]:
        """The commits after the oldest retained version."""
        return tuple(file for file in self.commits if file.version > self.oldest)


class RetainedFiles:
    """The set of files that must not be deleted; close it.

    Args:
        versions: The retained versions.
        keep_versions: Versions whose files are kept too.
    """

    def __init__(self, versions: RetainedVersions, keep_versions: Sequence[int] = ()) -> None:
        self._versions = versions
        snapshot = versions.snapshot
        self.digests = PathDigests(memory_limit=snapshot.config.remove_set_memory_limit)
        self.sample: list[str] = []
        """Some paths of the table, for the ranges of a listing."""
        self._add_live(snapshot)
        for version in keep_versions:
            self._add_live(load_snapshot(snapshot.store, snapshot.config, version=version))
        self._add_removed()
        for paths in change_files(snapshot, versions.later_commits):
            self._add(paths)
        self.digests.sort()
        release_memory()  # of the replay and the sort

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.digests.close()

    def _add_live(self, snapshot: SnapshotState) -> None:
        for batch in live_adds(snapshot, _FILES, Pruner()):
            for paths in paths_of(snapshot, batch.column("path"), batch.column("deletionVector")):
                self._add(paths)

    def _add_removed(self) -> None:
        """Add files that a retained version has, and a later one has not."""
        versions = self._versions
        for paths in removed_paths(versions, versions.commits_with_removes):
            self._add(paths)
        for paths in checkpoint_removed_paths(versions):
            self._add(paths)

    def _add(self, paths: pa.Array) -> None:
        self.digests.add(paths)
        step = max(1, len(paths) // tuning.SAMPLED_PATHS)
        self.sample += paths.take(build_array(list(range(0, len(paths), step)), _LONG)).to_pylist()


def paths_of(
    snapshot: SnapshotState, paths: pa.Array, vectors: pa.StructArray
) -> Iterator[pa.Array]:
    """Yield the canonical paths of data files, and of the files of their deletion vectors."""
    yield snapshot.resolver.keys(paths)
    yield vector_files(snapshot, vectors)


def removed_paths(versions: RetainedVersions, commits: Sequence[LogFile]) -> Iterator[pa.Array]:
    """Yield the files that these commits remove, and that a retained version has."""
    reader = versions.snapshot.commits.decoding(TOMBSTONE)
    for batch in reader.removes(reversed(commits)):
        is_later = from_mask(batch.versions > versions.oldest)
        yield from _retained(versions, batch.remove, is_later)


def checkpoint_removed_paths(versions: RetainedVersions) -> Iterator[pa.Array]:
    """Yield the files of the checkpoint's tombstones that are not expired."""
    snapshot = versions.snapshot
    if snapshot.segment.checkpoint is not None:
        reader = snapshot.commits.decoding(TOMBSTONE)
        checkpoint = snapshot.open_checkpoint(snapshot.segment.checkpoint)
        for removes in checkpoint_removes(checkpoint, reader, TOMBSTONE):
            yield from _retained(versions, removes, from_mask(np.zeros(len(removes), np.bool_)))


def _retained(
    versions: RetainedVersions, removes: pa.StructArray, is_later: pa.BooleanArray
) -> Iterator[pa.Array]:
    """Yield the files of removes that are later, or deleted after the cutoff by their own time.

    A commit's own clock may differ from the one that time travel uses: either retains a file.
    """
    times = removes.field("deletionTimestamp")
    unexpired = pc.greater(times, build_scalar(versions.cutoff_ms, _LONG))
    kept = removes.filter(pc.and_(removes.is_valid(), pc.or_kleene(is_later, unexpired)))
    yield from paths_of(versions.snapshot, kept.field("path"), kept.field("deletionVector"))


def files_added_since(snapshot: SnapshotState) -> PathDigests:
    """Return the files that later commits add; close the set."""
    digests = PathDigests(memory_limit=snapshot.config.remove_set_memory_limit)
    for paths in paths_added_since(snapshot):
        digests.add(paths)
    return digests


def paths_added_since(snapshot: SnapshotState) -> Iterator[pa.Array]:
    """Yield the paths of the files that later commits add.

    They may be older than their commit: RESTORE adds files again that were removed.
    """
    files = list_log(snapshot.store)
    later = [f for f in files if f.kind is LogFileKind.COMMIT and f.version > snapshot.version]
    for batch in snapshot.commits.batches(reversed(later)):
        adds = batch.add.drop_null()
        yield from paths_of(snapshot, adds.field("path"), adds.field("deletionVector"))


def vector_files(snapshot: SnapshotState, vectors: pa.StructArray) -> pa.Array:
    """Return the canonical paths of the files of deletion vectors, each once.

    Raises:
        LogCorruptError: A descriptor does not name its file.
    """
    if vectors.null_count == len(vectors):
        return build_array([], _STRING)
    kinds, places = vectors.field("storageType"), vectors.field("pathOrInlineDv")
    present = vectors.is_valid()
    relative = places.filter(pc.and_(present, pc.equal(kinds, _RELATIVE))).unique().to_pylist()
    absolute = places.filter(pc.and_(present, pc.equal(kinds, _ABSOLUTE))).unique()
    try:
        names = build_array([DeletionVectorGroup.file_name(place) for place in relative], _STRING)
    except ValueError as error:
        reason = f"a deletion vector is invalid: {error}"
        raise LogCorruptError(snapshot.store.root, LOG_DIRECTORY, reason) from None
    return pa.concat_arrays([names.unique(), snapshot.resolver.keys(absolute)])


def change_files(snapshot: SnapshotState, commits: Sequence[LogFile]) -> Iterator[pa.Array]:
    """Yield the canonical paths of the change data files of commits."""
    for _, actions in snapshot.commits.find_each(commits, ("cdc",)):
        paths = [path for cdc in actions["cdc"] if isinstance(path := cdc.get("path"), str)]
        if paths:
            yield snapshot.resolver.keys(build_array(paths, _STRING))
