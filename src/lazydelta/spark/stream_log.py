"""The commits that a stream follows: which there are, whether it may pass them, what they append.

Judges commits by the rules that users of Delta streams know: appended rows only, unless an option
says what to make of the rest, and one schema throughout.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lazydelta.changes import read_commits, schema_break
from lazydelta.errors import (
    LogCorruptError,
    LogGapError,
    StreamChangesError,
    StreamSchemaError,
    UnsupportedFeatureError,
    VersionCleanedUpError,
)
from lazydelta.log import LogFile, LogFileKind, list_log
from lazydelta.protocol import (
    MalformedActionError,
    TableMetadata,
    TableProtocol,
    unreadable_features,
    why_unreadable,
)
from lazydelta.schema import parse_schema
from lazydelta.spark.tasks import sizes_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lazydelta.snapshot import Snapshot
    from lazydelta.spark.options import SourceOptions

__all__ = ["StreamCommit", "StreamLog"]

_MODE = "delta.columnMapping.mode"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamCommit:
    """What a stream makes of one commit: the sizes of the files that it takes from it."""

    file: LogFile
    sizes: np.ndarray

    @property
    def version(self) -> int:
        """The version that the commit made."""
        return self.file.version


class StreamLog:
    """The log of one table, as a stream sees it.

    Args:
        snapshot: The version whose schema the stream's rows have.
        options: What to make of commits that are no appends.
    """

    def __init__(self, snapshot: Snapshot, options: SourceOptions) -> None:
        self.snapshot = snapshot
        self._options = options
        self._table = snapshot.store.root

    def commits(self, first: int, last: int | None = None) -> Sequence[LogFile]:
        """Return the commits from a version on, as many as there are.

        Raises:
            VersionCleanedUpError: Log cleanup was faster than the stream.
            LogGapError: One is missing in between.
        """
        files = list_log(self.snapshot.store, from_version=first, to_version=last)
        found = [file for file in files if file.kind is LogFileKind.COMMIT]
        if found and found[0].version > first:
            newest = found[-1].version
            raise VersionCleanedUpError(self._table, first, found[0].version, newest)
        for place, file in enumerate(found):
            if file.version != first + place:
                raise LogGapError(self._table, (first + place,), file.version)
        return found

    def judged(self, file: LogFile) -> StreamCommit:
        """Return what the stream takes from a commit.

        Raises:
            StreamChangesError: It deletes or changes rows, and no option says what to make of it.
            StreamSchemaError: The stream's schema cannot show its rows.
            UnsupportedFeatureError: From it on the table needs what this engine does not read.
        """
        own = self.snapshot
        (commit,) = read_commits(own.store, own.config, [file], every_file=True)
        self._check_facts(file, commit.facts)
        sizes = sizes_of(commit.adds)
        if self._options.read_change_feed:  # the feed judges commits itself
            sizes = np.concatenate([sizes, sizes_of(commit.removes), sizes_of(commit.change_files)])
        elif commit.removes.num_rows:
            sizes = self._with_removes(file, sizes)
        return StreamCommit(file=file, sizes=sizes)

    def check_snapshot(self, snapshot: Snapshot) -> None:
        """Refuse a version whose rows the stream's schema cannot show."""
        self._check_schema(snapshot.metadata, snapshot.column_mapping_mode, snapshot.version)

    def _with_removes(self, file: LogFile, sizes: np.ndarray) -> np.ndarray:
        options, updates = self._options, len(sizes) > 0
        if options.skip_change_commits:
            return sizes[:0]
        if not options.ignore_changes and (updates or not options.ignore_deletes):
            raise StreamChangesError(self._table, file.version, updates)
        return sizes

    def _check_facts(self, file: LogFile, facts: Mapping[str, Sequence[Any]]) -> None:
        try:
            protocols = [TableProtocol.from_json(obj) for obj in facts["protocol"]]
            changed = [TableMetadata.from_json(obj) for obj in facts["metaData"]]
        except MalformedActionError as error:
            raise LogCorruptError(self._table, file.path, str(error), file.version) from None
        for protocol in protocols:
            features = unreadable_features(protocol)
            if features:
                why = why_unreadable(features)
                raise UnsupportedFeatureError(self._table, features, "read", why)
        for metadata in changed:
            mode = metadata.configuration.get(_MODE, "none").lower()
            self._check_schema(metadata, mode, file.version)

    def _check_schema(self, metadata: TableMetadata, mode: str, version: int) -> None:
        own = self.snapshot
        if metadata.id != own.metadata.id:
            reason = "it is another table, with another id"
            raise StreamSchemaError(self._table, version, reason)
        reason = ""
        if metadata.schema_string != own.metadata.schema_string:
            schema = parse_schema(metadata.schema_string, where=self._table)
            reason = schema_break((schema, mode), (own.schema, own.column_mapping_mode))
        if metadata.partition_columns != own.partition_columns:
            reason = reason or "it is partitioned by other columns"
        if reason:
            raise StreamSchemaError(self._table, version, reason)
