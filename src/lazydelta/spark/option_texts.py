"""Options of a Spark format: texts under names without regard to case, read into values.

Plans and logs show options. An unknown name is an error rather than a silent default, and a secret
has no place here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from lazydelta.errors import ConfigError, redact

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "OptionReader",
    "boolean",
    "camel_case",
    "column_names",
    "given_options",
    "object_of_texts",
    "plain_text",
    "size",
    "whole_number",
]

OptionReader = Callable[[str, str], Any]
"""Given the name of an option and its text."""

_BOOLEANS = {"true": True, "false": False}
_UNITS = ("", "k", "m", "g", "t")
_SIZE = re.compile(r"(\d+)([kmgt]?)b?")
_NAME = re.compile(r"\s*(?:`([^`]+)`|([^,`\s][^,`]*?))\s*(?:,|$)")
_CURE = (
    "Credentials belong in the environment of the executors, or in a JSON file on each of them "
    "that the option storageOptionsFile names."
)
_UNKNOWN = f"there is no such option of lazydelta. {_CURE}"


def given_options(
    kind: type[Any], options: Mapping[str, str], readers: Mapping[str, OptionReader], *, call: str
) -> dict[str, Any]:
    """Return values for the fields of a dataclass from options with their names in camelCase.

    Args:
        kind: The dataclass; one of its fields is `path`.
        options: As Spark hands them over.
        readers: How the text of a field is read, where it is not taken as it stands.
        call: Where a caller gives the path.

    Raises:
        ConfigError: A name is not known, a text is not what the option takes, or the path is
            missing or has a secret in it.
    """
    known = {field.name.replace("_", ""): field.name for field in fields(kind)}
    given: dict[str, Any] = {}
    for name, text in options.items():
        field = known.get(name.lower())
        if field is None:
            raise ConfigError(_shown(name), _UNKNOWN)
        given[field] = readers.get(field, plain_text)(camel_case(field), text.strip())
    if not given.get("path"):
        raise ConfigError("path", f"is missing: give the table's address to {call}")
    if redact(given["path"]) != given["path"]:
        raise ConfigError("path", f"{given['path']}: a secret would be shown in plans. {_CURE}")
    return given


def camel_case(field: str) -> str:
    """Return the name of the option that a field is given by."""
    first, *rest = field.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _shown(name: str) -> str:
    return redact(name) if name.isprintable() else repr(name)


def plain_text(name: str, text: str) -> str:
    """Take a text as it stands."""
    if not text:
        raise ConfigError(name, "is empty")
    return text


def boolean(name: str, text: str) -> bool:
    """Read `true` or `false`."""
    if text.lower() not in _BOOLEANS:
        raise ConfigError(name, f"must be true or false, not {text!r}")
    return _BOOLEANS[text.lower()]


def whole_number(least: int) -> Callable[[str, str], int]:
    """Return what reads a number that must not be smaller."""

    def read(name: str, text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise ConfigError(name, f"must be a whole number from {least} on, not {text!r}")
        return int(text)

    return read


def size(name: str, text: str) -> int:
    """Read a size as Spark writes it: `1073741824`, `512m`, `1g`."""
    found = _SIZE.fullmatch(text.lower())
    if found is None or not int(found[1]):
        raise ConfigError(name, f"must be a size like 1073741824, 512m or 1g, not {text!r}")
    return int(found[1]) << 10 * _UNITS.index(found[2])


def column_names(name: str, text: str) -> tuple[str, ...]:
    """Read names separated by commas; one that holds a comma stands in backticks."""
    names, at = [], 0
    while at < len(text):
        found = _NAME.match(text, at)
        if found is None:
            raise ConfigError(name, f"must be names separated by commas, not {text!r}")
        names.append(found[1] or found[2])
        at = found.end()
    return tuple(names)


def object_of_texts(name: str, text: str) -> dict[str, str]:
    """Read a JSON object whose values are texts."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(one, str) for one in found.values()):
        raise ConfigError(name, """must be a JSON object of texts, like {"a.b": "true"}""")
    return found
