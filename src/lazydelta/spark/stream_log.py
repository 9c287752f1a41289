"""Commits of a stream: listing, validation, and the files that each one appends.

The rules are those of Delta streams on Spark: appended rows only, unless an option defines how to
handle other commits, and one schema throughout.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lazydelta.changes import check_readable, read_commits, schema_incompatibility
from lazydelta.errors import (
    LogCorruptError,
    LogGapError,
    StreamChangesError,
    StreamSchemaError,
    VersionCleanedUpError,
)
from lazydelta.log import LogFile, LogFileKind, list_log
from lazydelta.protocol import MalformedActionError, TableMetadata, TableProtocol
from lazydelta.schema import parse_schema
from lazydelta.spark.tasks import file_sizes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lazydelta.snapshot import SnapshotState
    from lazydelta.spark.source_options import SourceOptions

__all__ = ["StreamLog"]

_MODE = "delta.columnMapping.mode"


class StreamLog:
    """The log of one table, for a stream.

    Args:
        snapshot: The version whose schema the rows have.
        options: The options of the stream.
    """

    def __init__(self, snapshot: SnapshotState, options: SourceOptions) -> None:
        self.snapshot = snapshot
        self._options = options
        self._table = snapshot.store.root
        self._validated: dict[int, tuple[LogFile, np.ndarray]] = {}

    def commits(self, first: int, last: int | None = None) -> Sequence[LogFile]:
        """Return the commits from one version to another, or to the latest.

        Validated commits are listed once. Those before `first` belong to earlier batches, and are
        forgotten.

        Raises:
            VersionCleanedUpError: Log cleanup removed commits that the stream has not read.
            LogGapError: A commit is missing.
        """
        validated = {n: commit for n, commit in self._validated.items() if n >= first}
        self._validated = validated
        if last is not None and all(n in validated for n in range(first, last + 1)):
            return [validated[n][0] for n in range(first, last + 1)]
        files = list_log(self.snapshot.store, from_version=first, to_version=last)
        commits = [file for file in files if file.kind is LogFileKind.COMMIT]
        if commits and commits[0].version > first:
            newest = commits[-1].version
            raise VersionCleanedUpError(self._table, first, commits[0].version, newest)
        for place, file in enumerate(commits):
            if file.version != first + place:
                raise LogGapError(self._table, (first + place,), file.version)
        return commits

    def file_sizes(self, file: LogFile) -> np.ndarray:
        """Validate a commit, and return the sizes of the files that the stream reads from it.

        A commit is read once.

        Raises:
            StreamChangesError: It deletes or updates rows, and no option allows that.
            StreamSchemaError: Its schema is incompatible with that of the stream.
            UnsupportedFeatureError: It enables a reader feature that lazydelta does not support.
        """
        known = self._validated.get(file.version)
        if known is not None and known[0] == file:
            return known[1]
        own = self.snapshot
        (commit,) = read_commits(own.store, own.config, [file], every_file=True)
        self._check_actions(file, commit.other_actions)
        sizes = file_sizes(commit.adds)
        if self._options.read_change_feed:  # the feed validates commits itself
            sizes = np.concatenate(
                [sizes, file_sizes(commit.removes), file_sizes(commit.change_files)]
            )
        elif commit.removes.num_rows:
            sizes = self._with_removes(file, sizes)
        self._validated[file.version] = file, sizes
        return sizes

    def check_snapshot(self, snapshot: SnapshotState) -> None:
        """Refuse a version whose schema is incompatible with that of the stream."""
        self._check_schema(snapshot.metadata, snapshot.column_mapping_mode, snapshot.version)

    def _with_removes(self, file: LogFile, sizes: np.ndarray) -> np.ndarray:
        options, updates = self._options, len(sizes) > 0
        if options.skip_change_commits:
            return sizes[:0]
        if not options.ignore_changes and (updates or not options.ignore_deletes):
            raise StreamChangesError(self._table, file.version, updates)
        return sizes

    def _check_actions(self, file: LogFile, actions: Mapping[str, Sequence[Any]]) -> None:
        try:
            protocols = [TableProtocol.from_json(obj) for obj in actions["protocol"]]
            changed = [TableMetadata.from_json(obj) for obj in actions["metaData"]]
        except MalformedActionError as error:
            raise LogCorruptError(self._table, file.path, str(error), file.version) from None
        for protocol in protocols:
            check_readable(protocol, file, self._table)
        for metadata in changed:
            mode = metadata.configuration.get(_MODE, "none").lower()
            self._check_schema(metadata, mode, file.version)

    def _check_schema(self, metadata: TableMetadata, mode: str, version: int) -> None:
        own = self.snapshot
        if metadata.id != own.metadata.id:
            reason = "the table was replaced: its id changed"
            raise StreamSchemaError(self._table, version, reason)
        reason = ""
        if metadata.schema_string != own.metadata.schema_string:
            schema = parse_schema(metadata.schema_string, where=self._table)
            reason = schema_incompatibility((schema, mode), (own.schema, own.column_mapping_mode))
        if metadata.partition_columns != own.partition_columns:
            reason = reason or "the partition columns changed"
        if reason:
            raise StreamSchemaError(self._table, version, reason)
