"""Parsing of data source options: strings with case-insensitive names.

Plans and logs show options. So an unknown name is an error instead of a silent default, and a
secret is refused.
"""

from __future__ import annotations

import json
import pkgutil
import re
from collections.abc import Callable
from dataclasses import fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from lazydelta.errors import ConfigError, redact
from lazydelta.store.cloud import check_picklable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lazydelta.store.cloud import Credential

__all__ = [
    "CATALOG_OPTIONS",
    "PINNED_PATH",
    "OptionParser",
    "boolean",
    "camel_case",
    "column_names",
    "credential",
    "integer",
    "is_catalog_table",
    "parse_options",
    "size",
    "string_map",
    "without_properties",
]

OptionParser = Callable[[str, str], Any]
"""Takes the name of an option and its string."""

_BOOLEANS = {"true": True, "false": False}
_UNITS = ("", "k", "m", "g", "t")
_SIZE = re.compile(r"(\d+)([kmgt]?)b?")
_NAME = re.compile(r"\s*(?:`([^`]+)`|([^,`\s][^,`]*?))\s*(?:,|$)")
_CURE = (
    "Put credentials in the environment of the executors, or in a JSON file on each of them "
    "that the option storageOptionsFile names."
)
_UNKNOWN = "lazydelta has no such option"
_PROPERTY = (
    "is a table property, not an option: the option properties takes them as a JSON object, and "
    "lazydelta.spark.write by name"
)
_NO_PATH = {
    "load()": "create the name by lazydelta.spark.sql: Spark keeps no location of one created "
    "with a list of columns, AS SELECT, writeTo or saveAsTable",
    "save()": "write by lazydelta.spark.sql or lazydelta.spark.write: Spark passes none with "
    "AS SELECT, writeTo, toTable, saveAsTable, and an INSERT whose rows have exactly the table's "
    "columns",
}
PINNED_PATH = re.compile(r"(?P<path>.+)@v(?P<version>\d+)")
"""Delta's notation for a version of a table."""
CATALOG_OPTIONS = "lazydelta.options"
"""Field metadata in Spark's catalog that holds the options of the table."""
_PROVIDER, _GIVEN = "provider", "option."
"""Spark's table property for the format, and its prefix for what `OPTIONS (...)` holds."""


def parse_options(
    kind: type[Any],
    options: Mapping[str, str],
    parsers: Mapping[str, OptionParser],
    *,
    call: str,
    elsewhere: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return values for the fields of a dataclass from options with their names in camelCase.

    Args:
        kind: The dataclass; one of its fields is `path`.
        options: As Spark passes them.
        parsers: How to parse a field that is not a plain string.
        call: The call that takes the path, for the error.
        elsewhere: Names in lower case that other calls take, with the reason to refuse them here.

    Raises:
        ConfigError: An unknown name, an invalid value, or a path that is missing or holds a secret.
    """
    known = {
        one.name.replace("_", ""): one.name
        for one in fields(kind)
        if one.metadata.get("option", True)
    }
    given: dict[str, Any] = {}
    for name, value in without_properties(options).items():
        if name.lower() == "paths":
            raise ConfigError("path", "must be one location: unite DataFrames of several")
        field = known.get(name.lower())
        if field is None and name.lower().startswith("delta."):
            raise ConfigError(name, _PROPERTY)
        if field is None:
            reason = elsewhere.get(name.lower()) or _unknown(name, known)
            raise ConfigError(redact(name) if name.isprintable() else repr(name), reason)
        given[field] = parsers.get(field, _string)(camel_case(field), value.strip())
    if not given.get("path"):
        raise ConfigError("path", f"is missing: give it to {call}, or {_NO_PATH[call]}")
    if redact(given["path"]) != given["path"]:
        raise ConfigError("path", f"{given['path']}: plans would show the secret. {_CURE}")
    return given


def _unknown(name: str, known: Mapping[str, str]) -> str:
    """Return why a name is refused, with the option that it resembles."""
    from difflib import get_close_matches  # slow to import

    near = get_close_matches(name.lower(), known, n=1, cutoff=0.75)
    if near:
        return f"{_UNKNOWN}; did you mean {camel_case(known[near[0]])}?"
    return f"{_UNKNOWN}. {_CURE}"


def is_catalog_table(options: Mapping[str, str]) -> bool:
    """Whether Spark passes the properties of a catalog table: `CREATE TABLE`."""
    return _PROVIDER in options


def without_properties(options: Mapping[str, str]) -> Mapping[str, str]:
    """Return the options of a catalog table without its properties; other options unchanged.

    `CREATE TABLE ... USING lazydelta` passes one map: the options, the same again with a prefix,
    the table's properties, and Spark's own (`owner`, `provider`, `location`, `comment`, ...).
    """
    if not is_catalog_table(options):
        return options
    given = {k[len(_GIVEN) :]: v for k, v in options.items() if k.lower().startswith(_GIVEN)}
    location = options.get("path")
    if location is None:
        return given
    # Spark qualifies a local path without percent-encoding it: `file:/lake/100%`.
    return given | {"path": location.removeprefix("file:")}


def camel_case(field: str) -> str:
    """Return the option name of a field."""
    first, *rest = field.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _string(name: str, value: str) -> str:
    if not value:
        raise ConfigError(name, "is empty")
    return value


def boolean(name: str, value: str) -> bool:
    """Parse `true` or `false`."""
    if value.lower() not in _BOOLEANS:
        raise ConfigError(name, f"must be true or false, not {value!r}")
    return _BOOLEANS[value.lower()]


def integer(minimum: int) -> Callable[[str, str], int]:
    """Return a parser of integers that are not below a minimum."""

    def parse(name: str, value: str) -> int:
        if not value.isdecimal() or int(value) < minimum:
            raise ConfigError(name, f"must be an integer >= {minimum}, not {value!r}")
        return int(value)

    return parse


def size(name: str, value: str) -> int:
    """Parse a size in Spark's notation: `1073741824`, `512m`, `1g`."""
    match = _SIZE.fullmatch(value.lower())
    if match is None or not int(match[1]):
        raise ConfigError(name, f"must be a size like 1073741824, 512m or 1g, not {value!r}")
    return int(match[1]) << 10 * _UNITS.index(match[2])


def column_names(name: str, value: str) -> tuple[str, ...]:
    """Parse comma-separated names; backticks quote a name that contains a comma."""
    names, position = [], 0
    while position < len(value):
        match = _NAME.match(value, position)
        if match is None:
            raise ConfigError(name, f"must be names separated by commas, not {value!r}")
        names.append(match[1] or match[2])
        position = match.end()
    return tuple(names)


def credential(name: str, value: str) -> Credential:
    """Import a function by its dotted name, like `company_auth.lake_keys`.

    Plans show the name; the function returns the secret in the process that needs it.
    """
    try:
        found = pkgutil.resolve_name(value)
    except (ImportError, AttributeError, ValueError) as error:
        reason = f"cannot import {value!r}: {type(error).__name__}; name a function of a module"
        raise ConfigError(name, reason) from None
    check_picklable(name, found)
    return cast("Credential", found)


def string_map(name: str, value: str) -> dict[str, str]:
    """Parse a JSON object with string values."""
    try:
        parsed = json.loads(value)
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict) or not all(isinstance(one, str) for one in parsed.values()):
        raise ConfigError(name, """must be a JSON object of strings, like {"a.b": "true"}""")
    return parsed
