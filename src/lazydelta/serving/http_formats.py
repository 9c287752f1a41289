"""The two formats of an HTTP stream: NDJSON and Arrow IPC.

Both have the resume token of each batch, and an explicit end: a stream without it is incomplete.
NDJSON has control lines, `{"resume": ...}`, `{"end": true, ...}` and `{"error": ...}`. An Arrow
stream has the token in the custom metadata of its batches, and ends with an empty batch with `end`
in its metadata before the end-of-stream marker; after an error it is cut off.
"""

from __future__ import annotations

import io
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Protocol

import arro3.io
import orjson
import pyarrow as pa

from lazydelta.errors import ConfigError

if TYPE_CHECKING:
    from lazydelta.scan import Delivered

__all__ = ["ARROW", "NDJSON", "Encoder", "NotAcceptableError", "choose_format", "encoder"]

NDJSON = "application/x-ndjson"
ARROW = "application/vnd.apache.arrow.stream"

_CONTROL_KEYS = ("resume", "end", "error")
_FORMATS = {"ndjson": NDJSON, "arrow": ARROW}
_ACCEPTED = {
    ARROW: ARROW,
    **dict.fromkeys((NDJSON, "application/json", "application/*", "text/*", "*/*"), NDJSON),
}


class NotAcceptableError(ConfigError):
    """The client accepts neither format."""


class Encoder(Protocol):
    """Turns batches into the bytes of a body."""

    def start(self) -> bytes:
        """Return what precedes the first batch."""

    def batch(self, delivered: Delivered) -> bytes:
        """Return a batch and its token."""

    def end(self, facts: dict[str, Any]) -> bytes:
        """Return the explicit end."""

    def error(self, document: dict[str, Any]) -> bytes | None:
        """Return the end of a stream that failed; None if the body must be cut off."""


def choose_format(accept: str | None, requested: str | None = None) -> str:
    """Return the media type of the answer.

    >>> choose_format("text/html, */*;q=0.8"), choose_format(None, "arrow")
    ('application/x-ndjson', 'application/vnd.apache.arrow.stream')

    Args:
        accept: The `Accept` header.
        requested: The `format` parameter, which precedes it.

    Raises:
        NotAcceptableError: Neither format is accepted.
    """
    if requested is not None:
        if requested not in _FORMATS:
            raise ConfigError("format", f"must be ndjson or arrow, not {requested!r:.40}")
        return _FORMATS[requested]
    offers = []
    for part in (accept or "*/*").split(","):
        kind, *parameters = (piece.strip().lower() for piece in part.split(";"))
        quality = next((p[2:] for p in parameters if p.startswith("q=")), "1")
        if kind in _ACCEPTED and quality.strip("0.") != "":
            offers.append((quality, _ACCEPTED[kind]))
    if not offers:
        raise NotAcceptableError("Accept", f"must allow {NDJSON} or {ARROW}")
    best = max(quality for quality, _ in offers)
    return next(kind for quality, kind in offers if quality == best)


def encoder(media_type: str, schema: pa.Schema) -> Encoder:
    """Return the encoder of a media type.

    Raises:
        ConfigError: NDJSON cannot tell columns of these names from its control lines.
    """
    if media_type == ARROW:
        return _ArrowStream(schema)
    return _JsonLines(schema)


class _JsonLines:
    def __init__(self, schema: pa.Schema) -> None:
        if clashes := sorted(set(_CONTROL_KEYS) & set(schema.names)):
            reason = f"has {clashes[0]!r}, which is a control line of NDJSON: accept {ARROW}"
            raise ConfigError("columns", reason)
        self._has_other_maps = any(_has_other_map(field.type) for field in schema)

    def start(self) -> bytes:
        return b""

    def batch(self, delivered: Delivered) -> bytes:
        lines = io.BytesIO()
        if self._has_other_maps:
            lines.writelines(map(_value_line, delivered.batch.to_pylist()))
        elif delivered.batch.num_rows:
            arro3.io.write_ndjson(delivered.batch, lines, explicit_nulls=True)
        lines.write(_line({"resume": delivered.token}))
        return lines.getvalue()

    def end(self, facts: dict[str, Any]) -> bytes:
        return _line({"end": True, **facts})

    def error(self, document: dict[str, Any]) -> bytes:
        return _line(document)


def _line(document: dict[str, Any]) -> bytes:
    return orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE)


def _has_other_map(kind: pa.DataType) -> bool:
    """Whether a type has a map whose keys are no strings, which JSON objects cannot have."""
    if pa.types.is_map(kind) and kind.key_type not in (pa.string(), pa.large_string()):
        return True
    return any(_has_other_map(kind.field(number).type) for number in range(kind.num_fields))


def _value_line(row: dict[str, Any]) -> bytes:
    option = orjson.OPT_APPEND_NEWLINE | orjson.OPT_UTC_Z
    return orjson.dumps(row, default=_json_value, option=option)


def _json_value(value: Any) -> Any:
    """Return a value that orjson does not know, as the other encoder writes it."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Decimal):
        return orjson.Fragment(str(value))
    raise TypeError(type(value).__name__)


class _ArrowStream:
    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._sink = _Parts()
        self._writer = pa.ipc.new_stream(self._sink, schema)

    def start(self) -> bytes:
        return self._sink.take()

    def batch(self, delivered: Delivered) -> bytes:
        self._writer.write_batch(delivered.batch, custom_metadata={"resume": delivered.token})
        return self._sink.take()

    def end(self, facts: dict[str, Any]) -> bytes:
        metadata = {"end": "true", **{name: str(value) for name, value in facts.items()}}
        empty = pa.RecordBatch.from_pylist([], self._schema)
        self._writer.write_batch(empty, custom_metadata=metadata)
        self._writer.close()
        return self._sink.take()

    def error(self, document: dict[str, Any]) -> None:
        del document


class _Parts(io.RawIOBase):
    """Collects what is written until it is taken."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._parts.append(bytes(data))
        return len(self._parts[-1])

    def take(self) -> bytes:
        taken, self._parts = b"".join(self._parts), []
        return taken
