"""Errors of a server: who may read what, and how much at a time."""

from __future__ import annotations

from dataclasses import dataclass

from lazydelta.errors.base import DeltaError, redact

__all__ = [
    "OverloadedError",
    "ScanCancelledError",
    "ScanDeadlineError",
    "ServedTableNotFoundError",
    "ServerConnectionError",
    "TicketError",
    "UnauthenticatedError",
]


@dataclass(eq=False)
class UnauthenticatedError(DeltaError, PermissionError):
    """A request without a valid credential; the message does not say what is wrong with it."""

    def __str__(self) -> str:
        return (
            "this server needs a valid bearer token or client certificate: send "
            "`Authorization: Bearer <token>`, or ask the server's operator for a token."
        )


@dataclass(eq=False)
class ServedTableNotFoundError(DeltaError, LookupError):
    """The server has no such table, or the principal must not read it: the answer is the same."""

    table: str

    def __str__(self) -> str:
        name = redact(self.table)
        return (
            f"no table {name!r} is served to you. List the tables, or ask the server's operator "
            "for access."
        )


@dataclass(eq=False)
class OverloadedError(DeltaError, RuntimeError):
    """The server accepts no more scans at the moment."""

    reason: str
    retry_after: float = 1.0
    """Seconds after which a retry may succeed."""
    draining: bool = False
    """Whether the server is shutting down: another one can answer."""

    def __str__(self) -> str:
        return f"{self.reason}. Retry after {self.retry_after:g} s."


@dataclass(eq=False)
class ScanDeadlineError(DeltaError, TimeoutError):
    """A scan took longer than the server allows."""

    seconds: float

    def __str__(self) -> str:
        return (
            f"the scan took longer than {self.seconds:g} s, the server's limit. Continue it with "
            "the resume token of the last batch, or narrow it."
        )


@dataclass(eq=False)
class ScanCancelledError(DeltaError, RuntimeError):
    """The client, or the server's shutdown, ended a scan before its end."""

    reason: str = "the client ended the scan"

    def __str__(self) -> str:
        return f"{self.reason}. Continue it with the resume token of the last batch."


@dataclass(eq=False)
class TicketError(DeltaError, PermissionError):
    """A Flight ticket that does not entitle its bearer to anything."""

    reason: str

    def __str__(self) -> str:
        return f"the ticket is not valid: {self.reason}. Request a new one with GetFlightInfo."


@dataclass(eq=False)
class ServerConnectionError(DeltaError, ConnectionError):
    """A server cannot be reached, or the connection broke before the end of its answer."""

    server: str
    reason: str

    def __str__(self) -> str:
        return (
            f"no complete answer from {redact(self.server)}: {redact(self.reason)}. Check address, "
            "TLS and network; continue a scan with the resume token of the last batch."
        )
