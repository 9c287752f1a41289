"""The options of `format("lazydelta")`: every name, what it takes, and what it must not hold.

Spark hands options over as texts without regard to case, and shows them in plans and logs. An
unknown name is an error rather than a silent default, and a secret has no place here.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from lazydelta.errors import ConfigError
from lazydelta.spark.option_texts import (
    boolean,
    camel_case,
    column_names,
    given_options,
    size,
    whole_number,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["LATEST", "SourceOptions"]

LATEST = -1
"""`startingVersion=latest`: only what is committed after the stream began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """What was asked of the source. The names of the options are those of the fields in camelCase.

    `columns` are names separated by commas; one that holds a comma stands in backticks.
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
    num_partitions: int = 50

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SourceOptions:
        """Read the texts.

        Raises:
            ConfigError: A name is not known, or a text is not what the option takes.
        """
        found = cls(**given_options(cls, options, _READERS, call="load()"))
        found._check()
        return found

    def _check(self) -> None:
        """Refuse options that exclude each other, or do not belong to the read."""
        for one, other in _EXCLUDING:
            if getattr(self, one) is not None and getattr(self, other) is not None:
                raise ConfigError(camel_case(other), f"give it or {camel_case(one)}, not both")
        if self.read_change_feed:
            for name in ("version_as_of", "timestamp_as_of"):
                if getattr(self, name) is not None:
                    reason = "a change feed has a range: startingVersion, endingVersion"
                    raise ConfigError(camel_case(name), reason)

    def refuse_stream_options(self) -> None:
        """Refuse what only a stream, or only a change feed, understands."""
        names = [*_STREAM_ONLY, *(() if self.read_change_feed else _RANGE)]
        self._refuse(names, "belongs to readStream")

    def refuse_batch_options(self) -> None:
        """Refuse what a stream does not understand."""
        self._refuse(_BATCH_ONLY, "does not belong to a stream, which follows the table")

    def _refuse(self, names: tuple[str, ...] | list[str], reason: str) -> None:
        defaults = {field.name: field.default for field in fields(self)}
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
_RANGE = ("starting_version", "starting_timestamp", "ending_version", "ending_timestamp")
_BATCH_ONLY = ("version_as_of", "timestamp_as_of", "ending_version", "ending_timestamp")


def _start(name: str, text: str) -> int:
    return LATEST if text.lower() == "latest" else whole_number(0)(name, text)


_READERS: dict[str, Callable[[str, str], Any]] = {
    **dict.fromkeys(
        ("read_change_feed", "ignore_changes", "ignore_deletes", "skip_change_commits"), boolean
    ),
    **dict.fromkeys(("version_as_of", "ending_version"), whole_number(0)),
    **dict.fromkeys(("max_files_per_trigger", "num_partitions"), whole_number(1)),
    "starting_version": _start,
    "max_bytes_per_trigger": size,
    "columns": column_names,
}
