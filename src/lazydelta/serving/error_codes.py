"""The codes of errors for clients: one table for gRPC and HTTP (docs/reference/error-codes.md).

An error that is not in it has the code of its nearest base. Messages of errors that a client
causes are sent as they are, with the table's name in place of its address; others may name objects
of the store, so that clients receive their kind and the request's id only.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, NamedTuple

from lazydelta import errors
from lazydelta.errors import DeltaError, OverloadedError

__all__ = ["ERROR_CODES", "ErrorCode", "PublicError", "error_code", "public_error"]


class ErrorCode(NamedTuple):
    """How an error is reported."""

    grpc: str
    http: int
    retryable: bool = False
    """Whether the same request may succeed later, at this server or another."""
    explained: bool = False
    """Whether clients receive the error's own message."""


_INVALID = ErrorCode("INVALID_ARGUMENT", 400, explained=True)
_INTERNAL = ErrorCode("INTERNAL", 500)
_DAMAGED = ErrorCode("DATA_LOSS", 500)
_GONE = ErrorCode("OUT_OF_RANGE", 410, explained=True)

ERROR_CODES: dict[type[BaseException], ErrorCode] = {
    Exception: _INTERNAL,
    DeltaError: _INTERNAL,
    # the request
    errors.ConfigError: _INVALID,
    errors.PredicateError: _INVALID,
    errors.QueryError: _INVALID,
    errors.ColumnNotFoundError: _INVALID,
    errors.SchemaError: _INVALID,
    errors.ResumeTokenError: _INVALID,
    errors.ResumeTokenExpiredError: _GONE,
    errors.UnauthenticatedError: ErrorCode("UNAUTHENTICATED", 401, explained=True),
    errors.TicketError: ErrorCode("PERMISSION_DENIED", 403, explained=True),
    errors.ServedTableNotFoundError: ErrorCode("NOT_FOUND", 404, explained=True),
    errors.OverloadedError: ErrorCode("RESOURCE_EXHAUSTED", 429, retryable=True, explained=True),
    errors.ScanDeadlineError: ErrorCode("DEADLINE_EXCEEDED", 504, retryable=True, explained=True),
    errors.ScanCancelledError: ErrorCode("CANCELLED", 499, retryable=True, explained=True),
    # the table
    errors.VersionNotFoundError: ErrorCode("NOT_FOUND", 404, explained=True),
    errors.VersionCleanedUpError: _GONE,
    errors.TimestampNotFoundError: ErrorCode("NOT_FOUND", 404, explained=True),
    errors.ChangeFeedDisabledError: ErrorCode("FAILED_PRECONDITION", 409, explained=True),
    errors.ChangeFeedSchemaError: ErrorCode("FAILED_PRECONDITION", 409, explained=True),
    errors.ClientCapabilityError: ErrorCode("FAILED_PRECONDITION", 409, explained=True),
    errors.UnsupportedFeatureError: ErrorCode("UNIMPLEMENTED", 501, explained=True),
    errors.UnsupportedActionError: ErrorCode("UNIMPLEMENTED", 501),
    errors.UnsupportedOperationError: ErrorCode("UNIMPLEMENTED", 501),
    errors.TableNotFoundError: ErrorCode("UNAVAILABLE", 503, retryable=True),
    errors.LogCorruptError: _DAMAGED,
    errors.LogGapError: _DAMAGED,
    errors.DataFileError: _DAMAGED,
    errors.DataFileNotFoundError: _DAMAGED,
    errors.DeletionVectorError: _DAMAGED,
    errors.PathNotAllowedError: ErrorCode("PERMISSION_DENIED", 403),
    # the store
    errors.StoreError: ErrorCode("UNAVAILABLE", 502, retryable=True),
    errors.StoreAccessError: ErrorCode("UNAVAILABLE", 502),
    errors.ObjectNotFoundError: _DAMAGED,
    errors.MissingExtraError: ErrorCode("UNIMPLEMENTED", 501, explained=True),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicError:
    """What a client receives about an error."""

    kind: str
    """The name of the class of `lazydelta.errors`."""
    message: str
    code: ErrorCode
    retry_after: float | None = None

    def to_json(self, request_id: str) -> dict[str, Any]:
        """Return the document that both servers send."""
        document: dict[str, Any] = {
            "error": self.kind,
            "message": self.message,
            "code": self.code.grpc,
            "status": self.code.http,
            "retryable": self.code.retryable,
            "request_id": request_id,
        }
        if self.retry_after is not None:
            document["retry_after"] = self.retry_after
        return document


def error_code(error: BaseException | type[BaseException]) -> ErrorCode:
    """Return the code of an error, or of its nearest base."""
    kind = error if isinstance(error, type) else type(error)
    code = next((ERROR_CODES[base] for base in kind.__mro__ if base in ERROR_CODES), _INTERNAL)
    if isinstance(error, OverloadedError) and error.draining:
        return code._replace(grpc="UNAVAILABLE", http=503)
    return code


def error_kind(error: BaseException) -> str:
    """Return the name of an error's class, or of its nearest base, in `lazydelta.errors`.

    >>> error_kind(ValueError("unexpected"))
    'InternalError'
    """
    names = (base.__name__ for base in type(error).__mro__ if base.__name__ in errors.__all__)
    return next(names, "InternalError")


def public_error(error: BaseException, table: str | None = None) -> PublicError:
    """Return what a client may know of an error.

    Args:
        error: The error.
        table: The name by which the client knows the table.
    """
    code = error_code(error)
    retry_after = error.retry_after if isinstance(error, OverloadedError) else None
    if code.explained and isinstance(error, DeltaError):
        message = str(_renamed(error, table))
    else:
        message = "the server could not answer; its log has the reason under the request's id."
    return PublicError(kind=error_kind(error), message=message, code=code, retry_after=retry_after)


def _renamed(error: DeltaError, table: str | None) -> DeltaError:
    """Return the error with the table's name instead of its address."""
    if table is None or not is_dataclass(error):
        return error
    named = {"table", "where", "root"} & {item.name for item in fields(error)}
    return replace(error, **dict.fromkeys(named, table)) if named else error
