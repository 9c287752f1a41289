"""Resume tokens: where a stream of batches continues, signed, as a short URL-safe string.

A token names the table, the version and the log segment that it was made from, a digest of the
scan, and the position after a batch. It has no secret and no path: everything in it may be shown to
the caller. The signature is an HMAC of `Config.resume_key`. With an empty key it detects damage
only, because anyone can compute it.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import orjson

from lazydelta.errors import ResumeTokenError
from lazydelta.scan.plan.log_positions import (
    Position,
    RowPosition,
    Share,
    is_position,
    is_row_position,
)

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ResumeToken", "digest", "table_name"]

_FORMAT = "1"
_DIGEST_BYTES = 16
_MAX_CHARACTERS = 4096
_MAX_ID_CHARACTERS = 64
_MAX_TIME = 1 << 52  # in milliseconds; Arrow timestamps are in microseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeToken:
    """The content of a token."""

    kind: str
    """`files`, `rows` or `changes`."""
    table: str
    """The id of the table, from its metadata."""
    version: int
    """The version; of changes the last one."""
    log: str
    """Digest of the names and sizes of the segment's files."""
    checkpoint: str | None = None
    """The name of the segment's checkpoint."""
    compacted: tuple[tuple[int, int], ...] = ()
    """The log compactions of the segment: first and last version of each."""
    scan: str
    """Digest of the predicate, the columns and the row limit."""
    strategy: str
    limit: int | None
    """The maximum number of files or rows of all resumptions together."""
    delivered: int = 0
    """The files or rows that were delivered."""
    share: tuple[int, int] | None = None
    """The index of the share, and the number of shares; None is the whole scan."""
    position: tuple[Any, ...]
    """The position in the stream; its meaning depends on the kind."""
    records: tuple[Any, ...] | None = None
    """What file records contain."""

    @property
    def file_position(self) -> Position:
        """The position of a token of files."""
        return Position(*self.position)

    @property
    def row_position(self) -> RowPosition:
        """The position of a token of rows."""
        return RowPosition(Position(*self.position[0]), *self.position[1:])

    @property
    def plan_share(self) -> Share | None:
        """The share of the plan."""
        return None if self.share is None else Share(*self.share)

    def to_text(self, key: bytes) -> str:
        """Return the signed token."""
        content = {field.name: getattr(self, field.name) for field in fields(self)}
        text = f"{_FORMAT}.{_key_id(key)}.{_encoded(orjson.dumps(content, default=list))}"
        return f"{text}.{_signature(key, text)}"

    @classmethod
    def from_text(cls, text: str, key: bytes, table: str) -> ResumeToken:
        """Parse a token and verify its signature.

        Args:
            text: The token.
            key: The key that signed it.
            table: The address of the table, for errors.

        Raises:
            ResumeTokenError: It is damaged, forged, of another format or signed with another key.
        """
        import hmac  # slow to import, like hashlib, and few scans are resumed

        parts = text.split(".") if isinstance(text, str) and len(text) <= _MAX_CHARACTERS else []
        if len(parts) != 4 or not text.isascii():
            raise ResumeTokenError(table, "it is not a resume token")
        if parts[0] != _FORMAT:
            reason = f"it has format {parts[0]:.10}; this engine reads format {_FORMAT}"
            raise ResumeTokenError(table, reason)
        if parts[1] != _key_id(key):
            raise ResumeTokenError(
                table, "it is signed with another key", "Set Config.resume_key to that key."
            )
        if not hmac.compare_digest(parts[3], _signature(key, ".".join(parts[:3]))):
            raise ResumeTokenError(table, "it was altered or cut off")
        try:
            return _parsed(orjson.loads(base64.urlsafe_b64decode(_padded(parts[2]))))
        except (ValueError, TypeError, KeyError, AttributeError):
            raise ResumeTokenError(table, "its content is invalid") from None


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_is_count, value))


def _is_records(value: Any) -> bool:
    match value:
        case [[*capabilities], "descriptor" | "bitmap" | "ranges", bool()]:
            return all(isinstance(name, str) for name in capabilities)
    return False


_POSITIONS: dict[str, Callable[[Any], bool]] = {
    "files": is_position,
    "rows": is_row_position,
    "changes": lambda position: (
        len(position) == 6 and all(map(_is_count, position)) and position[5] <= _MAX_TIME
    ),
}
"""Validates the position of a kind of token."""

_FIELDS: dict[str, Callable[[Any], bool]] = {
    "kind": lambda value: value in _POSITIONS,
    "table": lambda value: isinstance(value, str),
    "version": _is_count,
    "log": lambda value: isinstance(value, str),
    "checkpoint": lambda value: isinstance(value, str | None),
    "compacted": lambda value: all(_is_pair(pair) for pair in value),
    "scan": lambda value: isinstance(value, str),
    "strategy": lambda value: value in ("reverse", "forward", "versions"),
    "limit": lambda value: value is None or _is_count(value),
    "delivered": _is_count,
    "share": lambda value: value is None or (_is_pair(value) and 0 <= value[0] < value[1]),
    "position": lambda value: isinstance(value, list),
    "records": lambda value: value is None or _is_records(value),
}


def _parsed(content: dict[str, Any]) -> ResumeToken:
    """Return the content of a token; without a key, anyone may have written it."""
    if content.keys() != _FIELDS.keys():
        raise ValueError
    if not all(is_valid(content[name]) for name, is_valid in _FIELDS.items()):
        raise ValueError
    token = ResumeToken(**{name: _tuples(value) for name, value in content.items()})
    if not _POSITIONS[token.kind](token.position):
        raise ValueError
    return token


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def table_name(table_id: str) -> str:
    """Return the id of a table as it is in tokens: a writer may have made it too long for one."""
    return table_id if len(table_id) <= _MAX_ID_CHARACTERS else digest(table_id)


def digest(*parts: object) -> str:
    """Return a short hash of JSON values."""
    import hashlib

    return _encoded(hashlib.sha256(orjson.dumps(parts)).digest()[:_DIGEST_BYTES])


def _key_id(key: bytes) -> str:
    """Return a short name of a key, to tell a token of another key from a forged one."""
    return _mac(key, b"lazydelta resume key")[:8]


def _signature(key: bytes, text: str) -> str:
    return _mac(key, text.encode())


def _mac(key: bytes, message: bytes) -> str:
    import hmac

    return _encoded(hmac.digest(key, message, "sha256"))


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _padded(text: str) -> str:
    return text + "=" * (-len(text) % 4)
