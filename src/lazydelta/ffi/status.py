"""Errors as the status codes of the C library: the codes of gRPC, negative."""

from __future__ import annotations

from lazydelta import errors
from lazydelta.serving import error_code

__all__ = ["status_of"]

_NAMES = (
    *("OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND"),
    *("ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION"),
    *("ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"),
    "UNAUTHENTICATED",
)

# Here the caller names the table and has its credentials; a server's client has neither.
_OF_THE_CALLER: tuple[tuple[type[BaseException], str], ...] = (
    (errors.TableNotFoundError, "NOT_FOUND"),
    (errors.StoreAccessError, "PERMISSION_DENIED"),
)


def status_of(error: BaseException) -> int:
    """Return the status of an error.

    >>> status_of(errors.ConfigError("limit", "is too large"))
    -3
    """
    own = (name for kind, name in _OF_THE_CALLER if isinstance(error, kind))
    return -_NAMES.index(next(own, error_code(error).grpc))
