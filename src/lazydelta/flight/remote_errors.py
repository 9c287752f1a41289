"""Errors of a server, raised in the client as what they were: the classes of `lazydelta.errors`."""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.flight as fl

from lazydelta import errors
from lazydelta.errors import DeltaError, ServerConnectionError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["answered", "rebuilt_error"]


class _RemoteError(DeltaError):
    """An error with the message of a server; the fields of its class are not sent."""

    document: dict[str, Any]

    def __str__(self) -> str:
        return str(self.document.get("message", ""))

    def __reduce__(self) -> tuple[Any, ...]:
        return rebuilt_error, (self.document,)

    @property
    def request_id(self) -> str | None:
        """The id under which the server's log has the error."""
        return self.document.get("request_id")

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later, at this server or another."""
        return bool(self.document.get("retryable"))


@cache
def _remote_class(name: str) -> type[DeltaError]:
    found = getattr(errors, name, None) if name in errors.__all__ else None
    base = found if isinstance(found, type) and issubclass(found, DeltaError) else DeltaError
    return type(base.__name__, (_RemoteError, base), {})


def rebuilt_error(document: dict[str, Any]) -> DeltaError:
    """Return the error of a server's document: an instance of the class that it names.

    >>> error = rebuilt_error({"error": "ServedTableNotFoundError", "message": "no table 'x'"})
    >>> isinstance(error, errors.ServedTableNotFoundError), str(error)
    (True, "no table 'x'")
    """
    kind = _remote_class(str(document.get("error")))
    error = kind.__new__(kind)
    error.document = document  # type: ignore[attr-defined]
    if "retry_after" in document:
        error.retry_after = document["retry_after"]  # type: ignore[attr-defined]
    return error


@contextmanager
def answered(server: str) -> Iterator[None]:
    """Translate the errors of a Flight call in this block.

    Raises:
        DeltaError: What the server reported.
        ServerConnectionError: There was no answer, or it is not from a server of lazydelta.
    """
    try:
        yield
    except (fl.FlightError, pa.ArrowException) as error:
        raise _translated(error, server) from None


def _translated(error: Exception, server: str) -> DeltaError:
    details = getattr(error, "extra_info", None)
    try:
        document = orjson.loads(details) if details else None
    except orjson.JSONDecodeError:
        document = None
    if isinstance(document, dict) and "error" in document:
        return rebuilt_error(document)
    reason = str(error).partition(". gRPC client debug context")[0]
    return ServerConnectionError(server, " ".join(reason.split()))
