"""Which versions a change feed covers, and whether it can be read over all of them.

Turns what was asked for (versions or times) into consecutive commits, and judges them: the feed
must be on throughout, and every version's rows must fit the schema of the last one. Knows nothing
of files and rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from lazydelta.changes.schema_compatibility import schema_break
from lazydelta.config import given_number
from lazydelta.errors import (
    ChangeFeedDisabledError,
    ChangeFeedSchemaError,
    ConfigError,
    LogCorruptError,
    LogGapError,
    TimestampNotFoundError,
    UnsupportedFeatureError,
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
    why_unreadable,
)
from lazydelta.schema import parse_schema
from lazydelta.snapshot import SnapshotState, file_times, load_snapshot, version_at, version_since

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from lazydelta.config import Config
    from lazydelta.store import Store

__all__ = ["ChangeRange", "RequestedRange", "VersionCheck", "check_readable", "find_range"]

_ENABLED = "delta.enableChangeDataFeed"
_MOST_MISSING = 1000
_LAST_MILLISECOND = (2**63 - 1) // 1000  # times are shown in microseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedRange:
    """A range as a caller says it: both ends inclusive, each a version or a time."""

    starting_version: int | None = None
    ending_version: int | None = None
    starting_timestamp: datetime | str | None = None
    ending_timestamp: datetime | str | None = None
    allow_out_of_range: bool = False

    def __post_init__(self) -> None:
        """Refuse what contradicts itself."""
        for end in ("starting", "ending"):
            version, time = getattr(self, f"{end}_version"), getattr(self, f"{end}_timestamp")
            if version is not None and time is not None:
                raise ConfigError(f"{end}_timestamp", "give a version or a time, not both")
            if version is not None and given_number(f"{end}_version", version) < 0:
                raise ConfigError(f"{end}_version", f"cannot be {version}: versions start at 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRange:
    """The commits to read, oldest first; none where the range lies after the newest commit."""

    commits: tuple[LogFile, ...]
    times: tuple[int | None, ...]
    """When they were made, in milliseconds; None for one that carries its own time."""
    start: SnapshotState
    end: SnapshotState
    """The last version: its schema is the one that rows are shown in."""


def find_range(store: Store, config: Config, asked: RequestedRange) -> ChangeRange:
    """Find the commits of a range, and check both of its ends.

    Raises:
        ConfigError: The start lies after the end.
        VersionNotCommittedError: An end is newer than the newest version, and may not be.
        VersionCleanedUpError: Log cleanup removed commits of the range.
        TimestampNotFoundError: The same, for times.
        ChangeFeedDisabledError: The feed is not on at both ends.
        ChangeFeedSchemaError: The first version's schema does not fit the last one's.
    """
    newest = load_snapshot(store, config)
    end = _end(store, config, asked, newest.version)
    start = _start(store, config, asked, newest)
    if start is None:
        return ChangeRange(commits=(), times=(), start=newest, end=newest)
    if start > end:
        if None not in (asked.starting_timestamp, asked.ending_timestamp) and start == end + 1:
            last = load_snapshot(store, config, version=end)  # no commit between the two times
            return ChangeRange(commits=(), times=(), start=last, end=last)
        raise ConfigError("starting_version", f"version {start} lies after the end, version {end}")
    commits = _commits(store, start, end, newest.version)
    last = newest if end == newest.version else load_snapshot(store, config, version=end)
    first = last if start == end else load_snapshot(store, config, version=start)
    found = ChangeRange(
        commits=commits,
        times=tuple(file_times(commits, last)),
        start=first,
        end=last,
    )
    _check_ends(found)
    return found


def _end(store: Store, config: Config, asked: RequestedRange, newest: int) -> int:
    if asked.ending_timestamp is not None:
        try:
            return version_at(store, config, asked.ending_timestamp)
        except TimestampNotFoundError as error:
            if error.kind != "not-yet" or not asked.allow_out_of_range:
                raise
            return newest
    if asked.ending_version is None:
        return newest
    if asked.ending_version > newest and not asked.allow_out_of_range:
        raise _not_committed(store, asked.ending_version, newest)
    return min(asked.ending_version, newest)


def _start(
    store: Store, config: Config, asked: RequestedRange, newest: SnapshotState
) -> int | None:
    """Return the first version; None if it may lie, and does lie, after the newest commit."""
    if asked.starting_timestamp is not None:
        try:
            return version_since(store, config, asked.starting_timestamp)
        except TimestampNotFoundError as error:
            if error.kind == "before-table":
                return 0
            if error.kind != "not-yet" or not asked.allow_out_of_range:
                raise
            return None
    start = asked.starting_version or 0
    if start <= newest.version:
        return start
    if not asked.allow_out_of_range:
        raise _not_committed(store, start, newest.version)
    return None


def _not_committed(store: Store, version: int, newest: int) -> VersionNotCommittedError:
    earliest = earliest_version(list_log(store))
    return VersionNotCommittedError(store.root, version, earliest, newest)


def _commits(store: Store, start: int, end: int, newest: int) -> tuple[LogFile, ...]:
    """Return the commits of a range, every one of them."""
    files = list_log(store, from_version=start, to_version=end)
    known = {f.version: f for f in files if f.kind is LogFileKind.COMMIT}
    if len(known) == end - start + 1:
        return tuple(known[version] for version in range(start, end + 1))
    if start not in known:
        later = [f.version for f in list_log(store) if f.kind is LogFileKind.COMMIT]
        earliest = min((version for version in later if version > start), default=newest)
        if not any(version < start for version in later):
            raise VersionCleanedUpError(store.root, start, earliest, newest)
    missing = (version for version in range(start, end + 1) if version not in known)
    raise LogGapError(store.root, tuple(islice(missing, _MOST_MISSING)), end)


def _check_ends(found: ChangeRange) -> None:
    for snapshot in (found.start, found.end):
        if not _is_on(snapshot.metadata.configuration):
            raise _disabled(found, snapshot.version)
    VersionCheck(found).schema_of(
        found.start.metadata, found.start.column_mapping_mode, found.start.version
    )


def _is_on(configuration: Mapping[str, str]) -> bool:
    return configuration.get(_ENABLED, "false").lower() == "true"


def _disabled(found: ChangeRange, version: int) -> ChangeFeedDisabledError:
    """Return the error for a version without changes: the first such one, and where to begin."""
    start, end = found.start, found.end
    off = [] if _is_on(start.metadata.configuration) else [start.version]
    since: int | None = None if off else start.version
    reader = CommitReader(start.store, start.config)
    for file, actions in reader.find_each(found.commits, ("metaData",)):
        for action in actions["metaData"]:
            is_on = _is_on(action.get("configuration") or {})
            off += [] if is_on else [file.version]
            since = (file.version if since is None else since) if is_on else None
    return ChangeFeedDisabledError(
        start.store.root, min([version, *off]), start.version, end.version, since
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
        raise UnsupportedFeatureError(table, features, "read", why_unreadable(features))
    try:
        check_protocol(protocol)
    except MalformedActionError as error:
        raise LogCorruptError(table, file.path, str(error), file.version) from None


class VersionCheck:
    """Judges the versions of a range one after another, by what their commits change."""

    def __init__(self, found: ChangeRange) -> None:
        self._found = found
        self._end = found.end
        self._table = found.end.store.root
        self._protocol = found.start.protocol

    def commit(self, facts: Mapping[str, Sequence[Mapping[str, Any]]], file: LogFile) -> None:
        """Refuse a version that cannot be part of the feed.

        Raises:
            UnsupportedFeatureError: It needs what this engine does not read.
            ChangeFeedDisabledError: It turns the feed off.
            ChangeFeedSchemaError: Its schema does not fit the last version's.
            LogCorruptError: Its actions break the protocol.
        """
        try:
            protocols = [TableProtocol.from_json(obj) for obj in facts["protocol"]]
            changed = [TableMetadata.from_json(obj) for obj in facts["metaData"]]
        except MalformedActionError as error:
            raise LogCorruptError(self._table, file.path, str(error), file.version) from None
        for protocol in protocols:
            check_readable(protocol, file, self._table)
            self._protocol = protocol
        for metadata in changed:
            if not _is_on(metadata.configuration):
                raise _disabled(self._found, file.version)
            mode = TableProperties.parse(metadata.configuration).column_mapping_mode
            allowed = allows_column_mapping(self._protocol)
            self.schema_of(metadata, mode if allowed else "none", file.version)

    def schema_of(self, metadata: TableMetadata, mode: str, version: int) -> None:
        """Refuse a schema whose rows the last version's cannot show."""
        end = self._end
        if metadata.schema_string == end.metadata.schema_string:
            reason = ""
        else:
            schema = parse_schema(metadata.schema_string, where=self._table)
            reason = schema_break((schema, mode), (end.schema, end.column_mapping_mode))
        if not reason and metadata.partition_columns != end.partition_columns:
            old, new = (", ".join(m.partition_columns) for m in (metadata, end.metadata))
            reason = f"it is partitioned by ({old}), not by ({new})"
        if reason:
            raise ChangeFeedSchemaError(self._table, version, end.version, reason)

    def time_of(
        self, facts: Mapping[str, Sequence[Mapping[str, Any]]], file: LogFile, known: int | None
    ) -> int:
        """Return when a commit was made, in milliseconds: its own word where that counts."""
        if known is not None:
            return known
        for info in facts["commitInfo"]:
            stated = CommitInfo.from_json(info, version=file.version).in_commit_timestamp
            if stated is not None and 0 <= stated <= _LAST_MILLISECOND:
                return stated
        reason = "it has no inCommitTimestamp, or one that cannot be"
        raise LogCorruptError(self._table, file.path, reason, file.version)
