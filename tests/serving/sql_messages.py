"""Messages of Flight SQL, as drivers send them."""

from __future__ import annotations

__all__ = ["message"]


def field(number, value):
    data = value.encode() if isinstance(value, str) else value
    size, length = len(data), []
    while size >= 128:
        length.append(size % 128 + 128)
        size //= 128
    return bytes([number * 8 + 2, *length, size]) + data


def message(name, *values, tail=b""):
    """Return a message of Flight SQL with strings in the fields 1, 2, ...; None is left out."""
    fields = [field(n, value) for n, value in enumerate(values, 1) if value is not None]
    kind = f"type.googleapis.com/arrow.flight.protocol.sql.{name}"
    return field(1, kind) + field(2, b"".join(fields) + tail)
