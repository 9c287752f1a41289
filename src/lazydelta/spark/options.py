"""The options of `format("lazydelta")`: every name, what it takes, and what it must not hold.

Spark hands options over as texts without regard to case, and shows them in plans and logs. An
unknown name is an error rather than a silent default, and a secret has no place here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from lazydelta.errors import ConfigError, redact

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["LATEST", "SourceOptions"]

LATEST = -1
"""`startingVersion=latest`: only what is committed after the stream began."""

_BOOLEANS = {"true": True, "false": False}
_UNITS = ("", "k", "m", "g", "t")
_SIZE = re.compile(r"(\d+)([kmgt]?)b?")
_NAME = re.compile(r"\s*(?:`([^`]+)`|([^,`\s][^,`]*?))\s*(?:,|$)")


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
        readers = {field.name.replace("_", ""): field.name for field in fields(cls)}
        given: dict[str, Any] = {}
        for name, text in options.items():
            field = readers.get(name.lower())
            if field is None:
                raise ConfigError(_shown(name), _UNKNOWN)
            given[field] = _READERS.get(field, _text)(_camel(field), text.strip())
        if not given.get("path"):
            raise ConfigError("path", "is missing: give the table's address to load()")
        if redact(given["path"]) != given["path"]:
            raise ConfigError("path", f"{given['path']}: a secret would be shown in plans. {_CURE}")
        found = cls(**given)
        found._check()
        return found

    def _check(self) -> None:
        """Refuse options that exclude each other, or do not belong to the read."""
        for one, other in _EXCLUDING:
            if getattr(self, one) is not None and getattr(self, other) is not None:
                raise ConfigError(_camel(other), f"give it or {_camel(one)}, not both")
        if self.read_change_feed:
            for name in ("version_as_of", "timestamp_as_of"):
                if getattr(self, name) is not None:
                    reason = "a change feed has a range: startingVersion, endingVersion"
                    raise ConfigError(_camel(name), reason)

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
                raise ConfigError(_camel(name), reason)


_CURE = (
    "Credentials belong in the environment of the executors, or in a JSON file on each of them "
    "that the option storageOptionsFile names."
)
_UNKNOWN = f"there is no such option of lazydelta. {_CURE}"
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


def _camel(field: str) -> str:
    first, *rest = field.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _shown(name: str) -> str:
    return redact(name) if name.isprintable() else repr(name)


def _text(name: str, text: str) -> str:
    if not text:
        raise ConfigError(name, "is empty")
    return text


def _boolean(name: str, text: str) -> bool:
    if text.lower() not in _BOOLEANS:
        raise ConfigError(name, f"must be true or false, not {text!r}")
    return _BOOLEANS[text.lower()]


def _number(least: int) -> Callable[[str, str], int]:
    def read(name: str, text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise ConfigError(name, f"must be a whole number from {least} on, not {text!r}")
        return int(text)

    return read


def _start(name: str, text: str) -> int:
    return LATEST if text.lower() == "latest" else _number(0)(name, text)


def _bytes(name: str, text: str) -> int:
    """Read a size as Spark writes it: `1073741824`, `512m`, `1g`."""
    found = _SIZE.fullmatch(text.lower())
    if found is None or not int(found[1]):
        raise ConfigError(name, f"must be a size like 1073741824, 512m or 1g, not {text!r}")
    return int(found[1]) << 10 * _UNITS.index(found[2])


def _columns(name: str, text: str) -> tuple[str, ...]:
    names, at = [], 0
    while at < len(text):
        found = _NAME.match(text, at)
        if found is None:
            raise ConfigError(name, f"must be names separated by commas, not {text!r}")
        names.append(found[1] or found[2])
        at = found.end()
    return tuple(names)


_READERS: dict[str, Callable[[str, str], Any]] = {
    **dict.fromkeys(
        ("read_change_feed", "ignore_changes", "ignore_deletes", "skip_change_commits"), _boolean
    ),
    **dict.fromkeys(("version_as_of", "ending_version"), _number(0)),
    **dict.fromkeys(("max_files_per_trigger", "num_partitions"), _number(1)),
    "starting_version": _start,
    "max_bytes_per_trigger": _bytes,
    "columns": _columns,
}
