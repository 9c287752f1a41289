"""`ScanRequest`: a validated request of a client, however it arrived.

HTTP builds it from query parameters, Flight from the JSON of a command. It is untrusted: fields,
types and sizes are checked here, the predicate by the one grammar of `expressions`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

from lazydelta.config import ScanStrategy, Strategy, validate_columns, validate_integer
from lazydelta.errors import ConfigError
from lazydelta.serving import tuning

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Mode", "ScanRequest"]

Mode = Literal["files", "rows", "changes"]
DeletionVectors = Literal["descriptor", "bitmap", "ranges"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRequest:
    """What a client wants to read, and what it can handle."""

    table: str
    mode: Mode = "files"
    where: str | None = None
    columns: tuple[str, ...] | None = None
    limit: int | None = None
    strategy: Strategy = "auto"
    version: int | None = None
    timestamp: str | None = None
    start_version: int | None = None
    end_version: int | None = None
    resume: str | None = None
    capabilities: frozenset[str] = frozenset()
    """Table features whose file records the client handles itself."""
    deletion_vectors: DeletionVectors = "descriptor"
    statistics: bool = False

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Validate a request.

        >>> ScanRequest.from_json({"table": "trips", "limit": 10}).limit
        10

        Raises:
            ConfigError: A field is unknown, or its value is invalid or too large.
        """
        if not isinstance(document, dict):
            raise ConfigError("request", "must be a JSON object")
        known = [item.name for item in fields(cls)]
        if unknown := sorted(str(name) for name in document.keys() - set(known)):
            raise ConfigError(f"{unknown[0]:.40}", f"no such field. There are: {', '.join(known)}")
        if not isinstance(document.get("table"), str):
            raise ConfigError("table", "must be the name of a table")
        given = {name: value for name, value in document.items() if value is not None}
        return cls(**{name: _value(name, value) for name, value in given.items()})

    def __post_init__(self) -> None:
        """Refuse contradictory fields."""
        if self.version is not None and self.timestamp is not None:
            raise ConfigError("timestamp", "give a version or a timestamp, not both")
        if self.mode != "changes":
            for name in ("start_version", "end_version"):
                if getattr(self, name) is not None:
                    raise ConfigError(name, "is only for changes")
        elif self.version is not None or self.timestamp is not None:
            raise ConfigError("version", "is not for changes: give start_version and end_version")
        if self.mode == "files" and self.columns is not None:
            raise ConfigError("columns", "is only for rows and changes: a file has all columns")


def _value(name: str, value: Any) -> Any:
    """Validate one field, and return it in the type of the class."""
    if name in _CHOICES:
        if not isinstance(value, str) or value not in _CHOICES[name]:
            reason = f"must be one of {', '.join(_CHOICES[name])}, not {value!r:.40}"
            raise ConfigError(name, reason)
        return value
    if name in ("columns", "capabilities"):
        return _names(name, value)
    if name in ("limit", "version", "start_version", "end_version"):
        number = validate_integer(name, value, 0)
        if number > tuning.MAX_INTEGER:
            raise ConfigError(name, "is too large")
        return number
    if name == "statistics":
        if not isinstance(value, bool):
            raise ConfigError(name, f"must be true or false, not {value!r:.40}")
        return value
    return _text(name, value)


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ConfigError(name, f"must be a string, not {value!r:.40}")
    if len(value) > tuning.MAX_TEXT_BYTES:
        raise ConfigError(name, f"is longer than {tuning.MAX_TEXT_BYTES} characters")
    if name == "timestamp":
        try:
            datetime.fromisoformat(value)
        except ValueError:
            reason = f"{value!r:.40} is not a timestamp like 2026-01-31T12:00:00Z"
            raise ConfigError(name, reason) from None
    return value


def _names(name: str, value: Any) -> Any:
    if not isinstance(value, list | tuple):
        raise ConfigError(name, "must be a list of names")
    if len(value) > tuning.MAX_NAMES:
        raise ConfigError(name, f"has more than {tuning.MAX_NAMES} names")
    for item in value:
        _text(name, item)
    return frozenset(value) if name == "capabilities" else validate_columns(value)


_CHOICES: dict[str, tuple[str, ...]] = {
    "mode": get_args(Mode),
    "strategy": tuple(ScanStrategy),
    "deletion_vectors": get_args(DeletionVectors),
}
