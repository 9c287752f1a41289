"""The protobuf messages of Flight SQL: those that clients send, and the answers to actions.

A command is a message in `google.protobuf.Any`. Unknown fields are ignored.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from lazydelta.errors import ConfigError
from lazydelta.serving import tuning

__all__ = ["SqlMessage", "parse_message", "prepared_statement"]

_PREFIX = "type.googleapis.com/arrow.flight.protocol.sql."
_ANY = b"\n"  # the tag of its first field; a JSON command begins with a brace
_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5
_SIZES = {_FIXED_64: 8, _FIXED_32: 4}


class SqlMessage(NamedTuple):
    """A message of Flight SQL."""

    name: str
    """The name of its type, as in `CommandStatementQuery`."""
    fields: dict[int, list[Any]]
    """The values of each field: bytes or integers."""

    def text(self, number: int) -> str | None:
        """Return a string, or None.

        Raises:
            ConfigError: It is not one.
        """
        value = self.fields.get(number, [None])[-1]
        try:
            return None if value is None else value.decode()
        except (AttributeError, UnicodeDecodeError):
            raise ConfigError("command", f"has no text in field {number}") from None


def parse_message(data: bytes) -> SqlMessage | None:
    """Return the Flight SQL message in a command, ticket or action; None if it is something else.

    Raises:
        ConfigError: It is damaged.
    """
    if not data.startswith(_ANY):
        return None
    try:
        outer = SqlMessage("Any", _fields(data))
        kind = outer.text(1) or ""
        if not kind.startswith(_PREFIX):
            return None
        return SqlMessage(kind.removeprefix(_PREFIX), _fields(outer.fields.get(2, [b""])[-1]))
    except (IndexError, TypeError, ValueError):
        raise ConfigError("command", "is not a message of Flight SQL") from None


def prepared_statement(handle: bytes, schema: bytes) -> bytes:
    """Return the answer to `CreatePreparedStatement`."""
    result = _bytes_field(1, handle) + _bytes_field(2, schema)
    kind = f"{_PREFIX}ActionCreatePreparedStatementResult".encode()
    return _bytes_field(1, kind) + _bytes_field(2, result)


def _fields(data: bytes) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {}
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            found.setdefault(tag >> 3, []).append(value)
        else:
            size, at = _varint(data, at) if kind == _BYTES else (_SIZES.get(kind, -1), at)
            if not 0 <= size <= len(data) - at:
                raise ValueError(kind)
            found.setdefault(tag >> 3, []).append(data[at : at + size])
            at += size
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return an integer, and where it ends."""
    value = 0
    for place in range(tuning.VARINT_BYTES):
        byte = data[at + place]
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, at + place + 1
    raise ValueError(value)


def _bytes_field(number: int, value: bytes) -> bytes:
    size, encoded = len(value), bytearray([number << 3 | _BYTES])
    while size >= 0x80:
        encoded.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([*encoded, size]) + value
