"""Options of `spark.read` and `spark.readStream` with `format("lazydelta")`."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING

from lazydelta.errors import ConfigError
from lazydelta.spark.conf import DEFAULTS, ReplaySettings
from lazydelta.spark.option_parsing import (
    PINNED_PATH,
    boolean,
    camel_case,
    column_names,
    credential,
    integer,
    parse_options,
    size,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lazydelta.spark.option_parsing import OptionParser
    from lazydelta.store.cloud import Credential

__all__ = ["LATEST", "SourceOptions"]

_SYNONYMS = {"readchangedata": "readChangeFeed"}
LATEST = -1
"""`startingVersion=latest`: only commits after the start of the stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """Options of a read; the option names are the field names in camelCase.

    `columns` are comma-separated names; backticks quote a name that contains a comma.
    """

    path: str
    version_as_of: int | None = None
    timestamp_as_of: str | None = None
    columns: tuple[str, ...] | None = None
    where: str | None = None
    read_change_feed: bool = False
    starting_version: int | None = None
    starting_timestamp: str | None = None
    ending_version: int | None = None
    ending_timestamp: str | None = None
    max_files_per_trigger: int | None = None
    max_bytes_per_trigger: int | None = None
    ignore_changes: bool = False
    ignore_deletes: bool = False
    skip_change_commits: bool = False
    storage_options_file: str | None = None
    credential: Credential | None = None
    """Given by the dotted name of a function."""
    num_partitions: int | None = None
    """Requested number of tasks; by default the planner's."""
    file_threshold: int | None = None
    """With more files, tasks find theirs in the log; by default the session's setting."""
    replay: ReplaySettings = field(default=DEFAULTS, metadata={"option": False})
    """The settings of the session that registered the format, with those of the options."""

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SourceOptions:
        """Parse and validate options.

        Raises:
            ConfigError: An unknown name, an invalid value, or options that exclude each other.
        """
        given = {_SYNONYMS.get(name.lower(), name): value for name, value in options.items()}
        values = parse_options(cls, given, _PARSERS, call="load()")
        pinned = PINNED_PATH.fullmatch(values["path"])
        if pinned is not None and "version_as_of" not in values:
            values |= {"path": pinned["path"], "version_as_of": int(pinned["version"])}
        parsed = cls(**values)
        parsed._validate()
        return parsed

    def _validate(self) -> None:
        """Refuse options that exclude each other."""
        for one, other in _EXCLUDING:
            if getattr(self, one) is not None and getattr(self, other) is not None:
                raise ConfigError(
                    camel_case(other), f"excludes {camel_case(one)}: give one of them"
                )
        if self.read_change_feed:
            for name in ("version_as_of", "timestamp_as_of"):
                if getattr(self, name) is not None:
                    reason = "a change feed takes startingVersion and endingVersion instead"
                    raise ConfigError(camel_case(name), reason)

    def with_defaults(self, options_file: str | None, session: ReplaySettings) -> SourceOptions:
        """Return the options with the settings of a session where they are not given."""
        if self.file_threshold is not None:
            session = replace(session, enabled=True, file_threshold=self.file_threshold)
        file = self.storage_options_file or options_file
        return replace(self, storage_options_file=file, replay=session)

    def refuse_stream_options(self) -> None:
        """Refuse options of streams and, unless it is one, of change feeds."""
        self._refuse(_STREAM_ONLY, "is an option of readStream")
        if not self.read_change_feed:
            self._refuse(_START, "needs readChangeFeed=true, or readStream")
            self._refuse(_END, "needs readChangeFeed=true")

    def refuse_batch_options(self) -> None:
        """Refuse options of batch reads."""
        self._refuse(_BATCH_ONLY, "is not an option of a stream, which follows the table")

    def _refuse(self, names: tuple[str, ...], reason: str) -> None:
        defaults = {one.name: one.default for one in fields(self)}
        for name in names:
            if getattr(self, name) != defaults[name]:
                raise ConfigError(camel_case(name), reason)


_EXCLUDING = (
    ("version_as_of", "timestamp_as_of"),
    ("starting_version", "starting_timestamp"),
    ("ending_version", "ending_timestamp"),
)
_STREAM_ONLY = (
    "max_files_per_trigger",
    "max_bytes_per_trigger",
    "ignore_changes",
    "ignore_deletes",
    "skip_change_commits",
)
_START = ("starting_version", "starting_timestamp")
_END = ("ending_version", "ending_timestamp")
_BATCH_ONLY = ("version_as_of", "timestamp_as_of", *_END)


def _start(name: str, value: str) -> int:
    return LATEST if value.lower() == "latest" else integer(0)(name, value)


_PARSERS: dict[str, OptionParser] = {
    **dict.fromkeys(
        ("read_change_feed", "ignore_changes", "ignore_deletes", "skip_change_commits"), boolean
    ),
    **dict.fromkeys(("version_as_of", "ending_version", "file_threshold"), integer(0)),
    **dict.fromkeys(("max_files_per_trigger", "num_partitions"), integer(1)),
    "starting_version": _start,
    "max_bytes_per_trigger": size,
    "columns": column_names,
    "credential": credential,
}
