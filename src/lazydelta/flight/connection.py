"""`connect`: a connection to a server of tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import orjson

from lazydelta.errors import ConfigError
from lazydelta.flight.flight_calls import FlightCalls
from lazydelta.flight.remote_table import RemoteTable

if TYPE_CHECKING:
    import os

    from lazydelta._stream import Stream
    from lazydelta.scan import Delivered

__all__ = ["FlightConnection", "connect"]

_SCHEMES = ("grpc://", "grpc+tcp://", "grpc+tls://")


def connect(
    uri: str,
    *,
    token: str | None = None,
    timeout: float | None = 60.0,
    root_certificates: str | os.PathLike[str] | None = None,
    client_certificate: tuple[str | os.PathLike[str], str | os.PathLike[str]] | None = None,
) -> FlightConnection:
    """Connect to the Flight server of `lazydelta serve`.

    Args:
        uri: The address, as in `grpc+tls://host:50051`.
        token: The bearer token. `grpc://` sends it unencrypted: use that on loopback only.
        timeout: Seconds for calls other than streams; None waits without a limit.
        root_certificates: PEM file of the authorities to trust; by default those of gRPC.
        client_certificate: PEM files of certificate and key, for servers that verify clients.

    Raises:
        ConfigError: The address is not one of Flight.
    """
    if not uri.startswith(_SCHEMES):
        raise ConfigError("uri", f"must start with {' or '.join(_SCHEMES)}, not {uri:.40}")
    options: dict[str, Any] = {}
    if root_certificates is not None:
        options["tls_root_certs"] = Path(root_certificates).read_bytes()
    if client_certificate is not None:
        certificate, key = client_certificate
        options["cert_chain"] = Path(certificate).read_bytes()
        options["private_key"] = Path(key).read_bytes()
    return FlightConnection(FlightCalls(uri, token, timeout, options))


class FlightConnection:
    """A connection to a server. Closing it cancels its streams."""

    def __init__(self, calls: FlightCalls) -> None:
        self._calls = calls

    def __repr__(self) -> str:
        return f"FlightConnection({self._calls.uri!r})"

    def tables(self) -> list[str]:
        """Return the names of the tables that the caller may read."""
        return self._calls.names()

    def table(self, name: str) -> RemoteTable:
        """Return a table; its first use fails if the server does not have it."""
        return RemoteTable(self._calls, name)

    def read(self, ticket: bytes) -> Stream[Delivered]:
        """Return the batches of a ticket of `RemoteScan.tickets`, made by any connection."""
        return self._calls.read(ticket)

    def health(self) -> dict[str, Any]:
        """Return whether the server accepts scans, and how many run and wait."""
        return dict(orjson.loads(self._calls.action("health")))

    def metrics(self) -> str:
        """Return the metrics of the server, in the text format of Prometheus."""
        return self._calls.action("metrics").decode()

    def close(self) -> None:
        """Cancel the streams, and close the connection."""
        self._calls.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
