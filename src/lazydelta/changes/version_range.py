"""Resolve the range of a change feed (versions or times) to commits, and validate each version.

The change data feed must be enabled in every version of the range, and the schema of every version
must be compatible with that of the last one.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from lazydelta.changes import tuning
from lazydelta.changes.schema_compatibility import schema_incompatibility
from lazydelta.config import validate_integer
from lazydelta.errors import (
    ChangeFeedDisabledError,
    ChangeFeedSchemaError,
    ConfigError,
    LogCorruptError,
    LogGapError,
    TimestampNotFoundError,
    VersionCleanedUpError,
    VersionNotCommittedError,
)
from lazydelta.log import CommitReader, LogFile, LogFileKind, earliest_version, list_log
from lazydelta.protocol import (
    CommitInfo,
    MalformedActionError,
    TableMetadata,
    TableProperties,
    TableProtocol,
)
from lazydelta.protocol.features import (
    allows_column_mapping,
    check_protocol,
    unreadable_features,
    unsupported_error,
)
from lazydelta.schema import parse_schema
from lazydelta.snapshot import SnapshotState, file_times, load_snapshot, version_at, version_since

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from lazydelta.config import Config
    from lazydelta.store import Store

__all__ = [
    "ChangeRange",
    "CommitValidator",
    "RequestedRange",
    "check_readable",
    "find_range",
]

_ENABLED = "delta.enableChangeDataFeed"
_MAX_TIME = (2**63 - 1) // 1000  # in milliseconds; Arrow timestamps are in microseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedRange:
    """A requested range: both ends inclusive, each a version or a time."""

    starting_version: int | None = None
    ending_version: int | None = None
    starting_timestamp: datetime | str | None = None
    ending_timestamp: datetime | str | None = None
    allow_out_of_range: bool = False

    def __post_init__(self) -> None:
        """Validate the values."""
        for end in ("starting", "ending"):
            version, time = getattr(self, f"{end}_version"), getattr(self, f"{end}_timestamp")
            if version is not None and time is not None:
                raise ConfigError(f"{end}_timestamp", "give a version or a timestamp, not both")
            if version is not None and validate_integer(f"{end}_version", version) < 0:
                raise ConfigError(f"{end}_version", f"cannot be {version}: versions start at 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRange:
    """The commits to read, oldest first; none where the range lies after the newest commit."""

    commits: tuple[LogFile, ...]
    times: tuple[int | None, ...]
    """Commit times in milliseconds, from file times; None for in-commit timestamps."""
    start: SnapshotState
    end: SnapshotState
    """The last version; the changes have its schema."""


def find_range(store: Store, config: Config, requested: RequestedRange) -> ChangeRange:
    """Resolve a range to its commits, and validate its first and last version.

    Raises:
        ConfigError: The start is after the end.
        VersionNotCommittedError: An end is after the newest version, without
            `allow_out_of_range`.
        VersionCleanedUpError: Log cleanup has removed commits of the range.
        TimestampNotFoundError: The same, for times.
        ChangeFeedDisabledError: The feed is not enabled in the first or last version.
        ChangeFeedSchemaError: The first version's schema does not fit the last one's.
    """
    newest = load_snapshot(store, config)
    end = _end(store, config, requested, newest.version)
    start = _start(store, config, requested, newest)
    if start is None:
        return ChangeRange(commits=(), times=(), start=newest, end=newest)
    if start > end:
        if (
            None not in (requested.starting_timestamp, requested.ending_timestamp)
            and start == end + 1
        ):
            last = load_snapshot(store, config, version=end)  # no commit between the two times
            return ChangeRange(commits=(), times=(), start=last, end=last)
        raise ConfigError("starting_version", f"version {start} is after the end, version {end}")
    commits = _commits(store, start, end, newest.version)
    last = newest if end == newest.version else load_snapshot(store, config, version=end)
    first = last if start == end else load_snapshot(store, config, version=start)
    change_range = ChangeRange(
        commits=commits,
        times=tuple(file_times(commits, last)),
        start=first,
        end=last,
    )
    _validate_ends(change_range)
    return change_range


def _end(store: Store, config: Config, requested: RequestedRange, newest: int) -> int:
    if requested.ending_timestamp is not None:
        try:
            return version_at(store, config, requested.ending_timestamp)
        except TimestampNotFoundError as error:
            if error.kind != "not-yet" or not requested.allow_out_of_range:
                raise
            return newest
    if requested.ending_version is None:
        return newest
    if requested.ending_version > newest and not requested.allow_out_of_range:
        raise _not_committed(store, requested.ending_version, newest)
    return min(requested.ending_version, newest)


def _start(
    store: Store, config: Config, requested: RequestedRange, newest: SnapshotState
) -> int | None:
    """Return the first version; None if it is after the newest commit and that is allowed."""
    if requested.starting_timestamp is not None:
        try:
            return version_since(store, config, requested.starting_timestamp)
        except TimestampNotFoundError as error:
            if error.kind == "before-table":
                return 0
            if error.kind != "not-yet" or not requested.allow_out_of_range:
                raise
            return None
    start = requested.starting_version or 0
    if start <= newest.version:
        return start
    if not requested.allow_out_of_range:
        raise _not_committed(store, start, newest.version)
    return None


def _not_committed(store: Store, version: int, newest: int) -> VersionNotCommittedError:
    earliest = earliest_version(list_log(store))
    return VersionNotCommittedError(store.root, version, earliest, newest)


def _commits(store: Store, start: int, end: int, newest: int) -> tuple[LogFile, ...]:
    """Return the commits of a range; a missing one is an error."""
    files = list_log(store, from_version=start, to_version=end)
    by_version = {f.version: f for f in files if f.kind is LogFileKind.COMMIT}
    if len(by_version) == end - start + 1:
        return tuple(by_version[version] for version in range(start, end + 1))
    if start not in by_version:
        versions = [f.version for f in list_log(store) if f.kind is LogFileKind.COMMIT]
        earliest = min((version for version in versions if version > start), default=newest)
        if not any(version < start for version in versions):
            raise VersionCleanedUpError(store.root, start, earliest, newest)
    missing = (version for version in range(start, end + 1) if version not in by_version)
    raise LogGapError(store.root, tuple(islice(missing, tuning.MAX_MISSING_VERSIONS)), end)


def _validate_ends(change_range: ChangeRange) -> None:
    start, end = change_range.start, change_range.end
    for snapshot in (start, end):
        if not _is_enabled(snapshot.metadata.configuration):
            raise _disabled_error(change_range, snapshot.version)
    CommitValidator(change_range).validate_schema(
        start.metadata, start.column_mapping_mode, start.version
    )


def _is_enabled(configuration: Mapping[str, str]) -> bool:
    return configuration.get(_ENABLED, "false").lower() == "true"


def _disabled_error(change_range: ChangeRange, version: int) -> ChangeFeedDisabledError:
    """Return the error with the first version without the feed, and the first one to read from."""
    start, end = change_range.start, change_range.end
    disabled = [] if _is_enabled(start.metadata.configuration) else [start.version]
    enabled_since: int | None = None if disabled else start.version
    reader = CommitReader(start.store, start.config)
    for file, actions in reader.find_each(change_range.commits, ("metaData",)):
        for action in actions["metaData"]:
            if not _is_enabled(action.get("configuration") or {}):
                disabled.append(file.version)
                enabled_since = None
            elif enabled_since is None:
                enabled_since = file.version
    return ChangeFeedDisabledError(
        start.store.root, min([version, *disabled]), start.version, end.version, enabled_since
    )


def check_readable(protocol: TableProtocol, file: LogFile, table: str) -> None:
    """Validate a protocol action inside a range of versions.

    Args:
        protocol: The protocol.
        file: The commit that has the action.
        table: The table's URL, for errors.

    Raises:
        UnsupportedFeatureError: It requires a reader feature that lazydelta does not support.
        LogCorruptError: Its versions and feature lists contradict each other.
    """
    if features := unreadable_features(protocol):
        raise unsupported_error(table, features, "read")
    try:
        check_protocol(protocol)
    except MalformedActionError as error:
        raise LogCorruptError(table, file.path, str(error), file.version) from None


class CommitValidator:
    """Validates the commits of a range, in order."""

    def __init__(self, change_range: ChangeRange) -> None:
        self._range = change_range
        self._end = change_range.end
        self._table = change_range.end.store.root
        self._protocol = change_range.start.protocol

    def validate(self, actions: Mapping[str, Sequence[Mapping[str, Any]]], file: LogFile) -> None:
        """Validate the protocol and metadata actions of a commit.

        Raises:
            UnsupportedFeatureError: The protocol has a feature that this engine does not read.
            ChangeFeedDisabledError: The commit disables the feed.
            ChangeFeedSchemaError: Its schema does not fit the last version's.
            LogCorruptError: An action is malformed.
        """
        try:
            protocols = [TableProtocol.from_json(obj) for obj in actions["protocol"]]
            metadata_actions = [TableMetadata.from_json(obj) for obj in actions["metaData"]]
        except MalformedActionError as error:
            raise LogCorruptError(self._table, file.path, str(error), file.version) from None
        for protocol in protocols:
            check_readable(protocol, file, self._table)
            self._protocol = protocol
        for metadata in metadata_actions:
            if not _is_enabled(metadata.configuration):
                raise _disabled_error(self._range, file.version)
            mode = TableProperties.parse(metadata.configuration).column_mapping_mode
            allowed = allows_column_mapping(self._protocol)
            self.validate_schema(metadata, mode if allowed else "none", file.version)

    def validate_schema(self, metadata: TableMetadata, mode: str, version: int) -> None:
        """Raise `ChangeFeedSchemaError` for a schema that does not fit the last version's."""
        end = self._end
        if metadata.schema_string == end.metadata.schema_string:
            reason = ""
        else:
            schema = parse_schema(metadata.schema_string, where=self._table)
            reason = schema_incompatibility((schema, mode), (end.schema, end.column_mapping_mode))
        if not reason and metadata.partition_columns != end.partition_columns:
            old, new = (", ".join(m.partition_columns) for m in (metadata, end.metadata))
            reason = f"it is partitioned by ({old}), not by ({new})"
        if reason:
            raise ChangeFeedSchemaError(self._table, version, end.version, reason)

    def commit_time(
        self,
        actions: Mapping[str, Sequence[Mapping[str, Any]]],
        file: LogFile,
        file_time: int | None,
    ) -> int:
        """Return the time of a commit in milliseconds: `file_time`, or its in-commit timestamp."""
        if file_time is not None:
            return file_time
        for info in actions["commitInfo"]:
            time = CommitInfo.from_json(info, version=file.version).in_commit_timestamp
            if time is not None and 0 <= time <= _MAX_TIME:
                return time
        reason = "it has no valid inCommitTimestamp"
        raise LogCorruptError(self._table, file.path, reason, file.version)
