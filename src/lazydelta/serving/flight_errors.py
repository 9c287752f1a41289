"""Errors over Flight: the nearest gRPC status that pyarrow can send, and a JSON document.

pyarrow appends a Python traceback to every error that is not a `FlightError`, so only these are
raised. They have seven gRPC codes; the message begins with the exact one.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import orjson
import pyarrow.flight as fl

from lazydelta.serving.error_codes import public_error

if TYPE_CHECKING:
    from lazydelta.serving.error_codes import PublicError

__all__ = ["flight_error"]

_LOG = logging.getLogger(__name__)

_CLASSES: dict[str, type[fl.FlightError]] = {
    "UNAUTHENTICATED": fl.FlightUnauthenticatedError,
    "PERMISSION_DENIED": fl.FlightUnauthorizedError,
    "UNAVAILABLE": fl.FlightUnavailableError,
    "RESOURCE_EXHAUSTED": fl.FlightUnavailableError,
    "DEADLINE_EXCEEDED": fl.FlightTimedOutError,
    "CANCELLED": fl.FlightCancelledError,
    "INTERNAL": fl.FlightInternalError,
    "DATA_LOSS": fl.FlightInternalError,
}
"""The Flight error of a gRPC code; the others are sent as UNKNOWN."""


def flight_error(error: Exception, request_id: str, table: str | None = None) -> fl.FlightError:
    """Return the error to raise in a Flight handler.

    Args:
        error: What happened.
        request_id: The id that the client receives and the log has.
        table: The name by which the client knows the table.
    """
    if isinstance(error, fl.FlightError):
        return error
    public: PublicError = public_error(error, table)
    if not public.code.explained:
        _LOG.error("request %s failed", request_id, exc_info=error)
    kind = _CLASSES.get(public.code.grpc, fl.FlightServerError)
    message = f"{public.code.grpc}: {public.message} (request {request_id})"
    return kind(message, orjson.dumps(public.to_json(request_id)))
