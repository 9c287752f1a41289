"""Calls of one server: plans, streams and actions, with the caller's token and typed errors."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakSet

import orjson
import pyarrow.flight as fl

from lazydelta._stream import Stream
from lazydelta.flight.remote_errors import answered
from lazydelta.scan import Delivered
from lazydelta.schema import StructType, parse_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

__all__ = ["FlightCalls", "FlightPlan"]


class FlightPlan(NamedTuple):
    """The answer to a command: a pinned version, and tickets for its shares."""

    schema: pa.Schema
    """The schema of the batches."""
    facts: Mapping[str, Any]
    """`version`, `partition_columns`, `files` and more."""
    tickets: tuple[bytes, ...]
    expires: float
    """When the first ticket expires, on the clock of `time.time()`."""
    table_schema: StructType
    """All columns of the table, or of its change feed."""


class FlightCalls:
    """A connection to a server. Thread-safe.

    Args:
        uri: The address.
        token: The bearer token.
        timeout: Seconds for calls other than streams.
        options: TLS arguments of `pyarrow.flight.FlightClient`.
    """

    def __init__(
        self, uri: str, token: str | None, timeout: float | None, options: Mapping[str, Any]
    ) -> None:
        self.uri = uri
        headers = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
        self._options = fl.FlightCallOptions(timeout=timeout, headers=headers)
        self._stream_options = fl.FlightCallOptions(headers=headers)
        self._lock = threading.Lock()
        self._readers: WeakSet[Any] = WeakSet()
        with answered(uri):
            self._client = fl.FlightClient(uri, **options)

    def names(self) -> list[str]:
        """Return the names of the tables that the caller may read."""
        with answered(self.uri):
            found = list(self._client.list_flights(options=self._options))
        return [orjson.loads(info.app_metadata)["table"] for info in found]

    def plan(self, command: Mapping[str, Any]) -> FlightPlan:
        """Return the plan of a command.

        Raises:
            DeltaError: The server's answer.
        """
        descriptor = fl.FlightDescriptor.for_command(orjson.dumps(command))
        with answered(self.uri):
            info = self._client.get_flight_info(descriptor, self._options)
        facts = orjson.loads(info.app_metadata)
        expirations = [endpoint.expiration_time for endpoint in info.endpoints]
        known = [time.as_py().timestamp() for time in expirations if time is not None]
        return FlightPlan(
            schema=info.schema,
            facts=facts,
            tickets=tuple(endpoint.ticket.ticket for endpoint in info.endpoints),
            expires=min(known, default=float("inf")),
            table_schema=parse_schema(facts["schema"], where=self.uri),
        )

    def read(self, ticket: bytes) -> Stream[Delivered]:
        """Return the batches of a ticket. Closing the stream cancels the call."""
        return Stream(self._read(ticket))

    def action(self, name: str, body: Mapping[str, Any] | None = None) -> bytes:
        """Run an action, and return its answer."""
        action = fl.Action(name, b"" if body is None else orjson.dumps(body))
        with answered(self.uri):
            results = list(self._client.do_action(action, self._options))
        return b"".join(result.body.to_pybytes() for result in results)

    def close(self) -> None:
        """Cancel the streams, and close the connection."""
        with self._lock:
            readers = list(self._readers)
        for reader in readers:  # pyarrow's own close leaves them running
            reader.reader.cancel()
        with answered(self.uri):
            self._client.close()

    def _read(self, ticket: bytes) -> Iterator[Delivered]:
        with answered(self.uri):
            opened = _Reader(self._client.do_get(fl.Ticket(ticket), self._stream_options))
            with self._lock:
                self._readers.add(opened)
            try:
                while (delivered := opened.next()) is not None:
                    yield delivered
            finally:
                opened.reader.cancel()


class _Reader:
    """A reader that a weak set can hold."""

    def __init__(self, reader: fl.FlightStreamReader) -> None:
        self.reader = reader

    def next(self) -> Delivered | None:
        try:
            chunk = self.reader.read_chunk()
        except StopIteration:
            return None
        return Delivered(chunk.data, orjson.loads(chunk.app_metadata.to_pybytes())["resume"])
