"""Structured logs: one JSON object a line, without secrets."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson

from lazydelta.errors import redact

if TYPE_CHECKING:
    from typing import TextIO

__all__ = ["JsonFormatter", "log_to"]

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {
    "message",
    "asctime",
    "taskName",
    "color_message",
}
_EXPECTED = "ASGI callable returned without completing response."
"""uvicorn's message when a stream that failed is cut off; its own line has the reason."""


class JsonFormatter(logging.Formatter):
    """Formats a record as JSON: time, level, message and the fields of `extra`.

    >>> record = logging.makeLogRecord({"msg": "request", "levelname": "INFO", "status": 200})
    >>> JsonFormatter().format(record).partition(",")[2]
    '"level":"info","logger":null,"message":"request","status":200}'
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; the trace of an error is one string."""
        fields: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redact(record.getMessage()),
        }
        extra = vars(record).items()
        fields |= {k: v for k, v in extra if k not in _STANDARD and v is not None}
        if record.exc_info:
            fields["error"] = redact(self.formatException(record.exc_info))
        return orjson.dumps(fields, default=str).decode()


def log_to(stream: TextIO | None = None) -> None:
    """Send the logs of lazydelta and uvicorn to a stream, by default standard error."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter())
    handler.addFilter(lambda record: record.getMessage() != _EXPECTED)
    for name in (__name__.partition(".")[0], "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(logging.WARNING if name == "uvicorn" else logging.INFO)
        logger.propagate = False
    logging.getLogger("uvicorn.access").disabled = True
