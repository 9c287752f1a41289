"""Query parameters of a URL as a `ScanRequest`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lazydelta.errors import ConfigError
from lazydelta.serving.request import ScanRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lazydelta.serving.request import Mode

__all__ = ["parameters", "scan_request"]

_INTEGERS = ("limit", "version", "start_version", "end_version")
_LISTS = ("columns", "capabilities")
_DIGITS = 19


def parameters(pairs: Iterable[tuple[str, str]], allowed: Iterable[str]) -> dict[str, str]:
    """Return the parameters of a URL.

    Raises:
        ConfigError: One is unknown, or given twice.
    """
    found: dict[str, str] = {}
    names = list(allowed)
    for name, value in pairs:
        if name not in names:
            raise ConfigError(f"{name:.40}", f"no such parameter. There are: {', '.join(names)}")
        if name in found and name not in _LISTS:
            raise ConfigError(name, "is given more than once")
        found[name] = f"{found[name]},{value}" if name in found else value
    return found


def scan_request(table: str, mode: Mode, given: Mapping[str, str]) -> ScanRequest:
    """Return the request of the parameters of a URL.

    Raises:
        ConfigError: A value is invalid.
    """
    document: dict[str, Any] = {"table": table, "mode": mode, **given}
    document.pop("format", None)
    for name in _INTEGERS:
        if name in given:
            document[name] = integer(name, given[name])
    for name in _LISTS:
        if name in given:
            document[name] = [part for part in given[name].split(",") if part]
    if "statistics" in given:
        document["statistics"] = {"true": True, "false": False}.get(given["statistics"], "")
    return ScanRequest.from_json(document)


def integer(name: str, value: str) -> int:
    """Return a parameter that is a whole number.

    Raises:
        ConfigError: It is not.
    """
    if not value.isascii() or not value.isdigit() or len(value) > _DIGITS:
        raise ConfigError(name, f"must be an integer >= 0, not {value!r:.40}")
    return int(value)
