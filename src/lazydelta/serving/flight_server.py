"""`FlightDoor`: the Arrow Flight server.

`GetFlightInfo` pins a version and returns tickets; `DoGet` streams batches while the log is being
read. Commands are JSON, or messages of Flight SQL. Every call is authenticated by middleware before
it is handled. Writing calls are refused there too: pyarrow would read the client's stream before
our code runs.
"""

from __future__ import annotations

import socket
import threading
import time
import uuid
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import orjson
import pyarrow as pa
import pyarrow.flight as fl

from lazydelta._cancellation import Cancellation
from lazydelta.errors import ConfigError, OverloadedError
from lazydelta.serving import tuning
from lazydelta.serving.flight_actions import ACTIONS, action_request, run_action
from lazydelta.serving.flight_delivery import Deliveries, Delivery
from lazydelta.serving.flight_errors import flight_error
from lazydelta.serving.flight_plan import FlightPlan, parse_command, plan_flight
from lazydelta.serving.flight_sql import SQL_ACTIONS, FlightSql
from lazydelta.serving.flight_sql_messages import SqlMessage, parse_message
from lazydelta.serving.flight_tickets import Tickets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lazydelta.serving.access import Access, Principal
    from lazydelta.serving.config import Endpoint, ServeConfig
    from lazydelta.serving.service import ScanService

__all__ = ["FlightDoor"]

_Method = TypeVar("_Method", bound="Callable[..., Any]")

_CALL = "lazydelta"
_BEARER = "bearer "
_WRITES = {fl.FlightMethod.DO_PUT, fl.FlightMethod.DO_EXCHANGE, fl.FlightMethod.HANDSHAKE}


class FlightDoor:
    """The Flight server of a service, at the address of its configuration.

    Args:
        service: What it serves, to which principals, within which limits.
    """

    def __init__(self, service: ScanService) -> None:
        self._service = service
        self._location = _location(service.config)
        self._server: _Server | None = None

    def start(self) -> None:
        """Listen; calls are answered in threads of gRPC.

        Raises:
            ConfigError: The address is in use or not of this machine, or a TLS file is invalid.
        """
        _check_address(self._service.config.flight)
        try:
            self._server = _Server(self._service, self._location)
        except (OSError, pa.ArrowException, fl.FlightError) as error:
            raise ConfigError("flight", f"cannot start: {error}") from error

    @property
    def port(self) -> int:
        """The port that it listens on."""
        if self._server is None:
            raise ConfigError("flight", "the server has not been started")
        return int(self._server.port)

    @property
    def uri(self) -> str:
        """The address for clients."""
        return f"{self._location.rpartition(':')[0]}:{self.port}"

    def shutdown(self, seconds: float | None = None) -> bool:
        """Stop: no new calls; running scans may end by themselves for a while.

        Args:
            seconds: How long they may continue; by default `limits.drain_seconds`.

        Returns:
            Whether all calls have ended. A call whose client does not read never does; its scan is
            closed.
        """
        server, self._server = self._server, None
        if server is None:
            return True
        seconds = self._service.config.limits.drain_seconds if seconds is None else seconds
        return server.drain(seconds)


def _location(config: ServeConfig) -> str:
    scheme = "grpc" if config.tls is None else "grpc+tls"
    host = f"[{config.flight.host}]" if ":" in config.flight.host else config.flight.host
    return f"{scheme}://{host}:{config.flight.port}"


def _check_address(endpoint: Endpoint) -> None:
    """Refuse a port in use: gRPC would share it, and clients would reach either server."""
    family = socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET
    try:
        with socket.create_server((endpoint.host, endpoint.port), family=family):
            pass
    except OSError as error:
        where = f"{endpoint.host}:{endpoint.port}"
        raise ConfigError("flight", f"cannot listen on {where}: {error.strerror}") from error


def _security(config: ServeConfig) -> dict[str, Any]:
    """Return the TLS arguments of pyarrow's server."""
    if config.tls is None:
        return {}
    certificate, key = Path(config.tls.certificate), Path(config.tls.key)
    security: dict[str, Any] = {"tls_certificates": [(certificate.read_bytes(), key.read_bytes())]}
    if config.tls.client_ca is not None:
        security["verify_client"] = True
        security["root_certificates"] = Path(config.tls.client_ca).read_bytes()
    return security


class _Call(fl.ServerMiddleware):  # type: ignore[misc]
    """One call: who made it, and its id."""

    def __init__(self, principal: Principal, request_id: str) -> None:
        super().__init__()
        self.principal = principal
        self.request_id = request_id
        self.table: str | None = None

    def sending_headers(self) -> dict[str, str]:
        return {"x-request-id": self.request_id}

    def translate(self, error: Exception) -> fl.FlightError:
        """Return the Flight error of an error of this call."""
        return flight_error(error, self.request_id, self.table)


class _Calls(fl.ServerMiddlewareFactory):  # type: ignore[misc]
    """Authenticates every call."""

    def __init__(self, access: Access) -> None:
        super().__init__()
        self._access = access

    def start_call(self, info: fl.CallInfo, headers: dict[str, list[Any]]) -> _Call:
        """Return the call.

        Raises:
            FlightUnauthenticatedError: It has no valid bearer token.
            FlightServerError: It would write.
        """
        request_id = uuid.uuid4().hex
        try:
            call = _Call(self._access.authenticate(_bearer(headers)), request_id)
            _check_method(info.method)
        except Exception as error:  # noqa: BLE001 - the entry point of gRPC's thread
            raise flight_error(error, request_id) from None
        return call


def _check_method(method: fl.FlightMethod) -> None:
    if method in _WRITES:
        raise ConfigError("method", f"{method.name} is not served: tables are only read here")


def _bearer(headers: dict[str, list[Any]]) -> str | None:
    """Return the bearer token of a call; a header may occur twice, which proves nothing."""
    values = headers.get("authorization", [])
    if len(values) != 1 or not isinstance(values[0], str):
        return None
    value = values[0]
    return value[len(_BEARER) :] if value.lower().startswith(_BEARER) else None


@contextmanager
def _answering(context: fl.ServerCallContext) -> Iterator[_Call]:
    call: _Call = context.get_middleware(_CALL)
    try:
        yield call
    except Exception as error:  # noqa: BLE001 - the entry point of gRPC's thread
        raise call.translate(error) from None


def _of_no_file(method: _Method) -> _Method:
    """Hide the file of a method: pyarrow sends the traceback of GetSchema to the client."""
    method.__code__ = method.__code__.replace(co_filename="lazydelta")
    return method


class _Server(fl.FlightServerBase):  # type: ignore[misc]
    """pyarrow's server; its methods are called in threads of gRPC."""

    def __init__(self, service: ScanService, location: str) -> None:
        config = service.config
        self._service = service
        self._sql = FlightSql(service)
        self._tickets = Tickets(config.resume_key)
        self._deliveries = Deliveries(config.limits)
        calls = {_CALL: _Calls(service.access)}
        super().__init__(location, middleware=calls, **_security(config))
        self._deliveries.start()

    def list_flights(
        self, context: fl.ServerCallContext, criteria: bytes
    ) -> Iterator[fl.FlightInfo]:
        """List the tables of the principal; `GetFlightInfo` has version and schema of one."""
        with _answering(context) as call:
            names = self._service.tables.names(call.principal)
        wanted = criteria.decode("utf-8", "replace")
        infos = [
            fl.FlightInfo(
                None,
                fl.FlightDescriptor.for_path(name),
                [],
                app_metadata=orjson.dumps({"table": name}),
            )
            for name in names
            if name.startswith(wanted)
        ]
        return iter(infos)

    def get_flight_info(
        self, context: fl.ServerCallContext, descriptor: fl.FlightDescriptor
    ) -> fl.FlightInfo:
        """Return pinned version, schema, estimates, and a ticket for each share."""
        with _answering(context) as call:
            command = self._sql_command(descriptor)
            if command is not None:
                schema = self._sql_schema(context, call, command)
                endpoint = fl.FlightEndpoint(descriptor.command, [])
                return fl.FlightInfo(schema, descriptor, [endpoint], -1, -1)
            plan = self._plan(context, call, descriptor)
            endpoints = [
                fl.FlightEndpoint(ticket, [], expiration_time=expires)
                for request in plan.requests
                for ticket, expires in [self._tickets.sign(request, call.principal)]
            ]
            facts = orjson.dumps({"table": call.table, **plan.facts})
            ordered = len(endpoints) == 1
            return fl.FlightInfo(
                plan.schema, descriptor, endpoints, plan.records, -1, ordered, facts
            )

    @_of_no_file
    def get_schema(
        self, context: fl.ServerCallContext, descriptor: fl.FlightDescriptor
    ) -> fl.SchemaResult:
        """Return the schema of the batches of a command."""
        try:
            with _answering(context) as call:
                command = self._sql_command(descriptor)
                if command is not None:
                    return fl.SchemaResult(self._sql_schema(context, call, command))
                plan = self._plan(context, call, descriptor, split=False)
                return fl.SchemaResult(plan.schema)
        except fl.FlightError as error:
            raise error.with_traceback(None)  # noqa: B904 - the same error, without inner frames

    def do_get(self, context: fl.ServerCallContext, ticket: fl.Ticket) -> fl.FlightDataStream:
        """Stream the batches of a ticket, each with its resume token."""
        with _answering(context) as call:
            self._check_size(ticket.ticket, tuning.MAX_TICKET_BYTES)
            command = parse_message(ticket.ticket)
            work = Cancellation()
            watched = partial(self._deliveries.watched, context, work)
            mode = "sql"
            with watched():
                if command is not None:
                    stream = self._sql.open(command, call.principal, work)
                else:
                    request = self._tickets.verify(ticket.ticket, call.principal)
                    call.table, mode = request.table, request.mode
                    stream = self._service.streams.open(request, call.principal, work)
            if isinstance(stream, pa.Table):
                return fl.RecordBatchStream(stream)
            delivery = Delivery(
                stream,
                mode=mode,
                metrics=self._service.metrics,
                translate=call.translate,
                watched=watched,
            )
            self._deliveries.add(delivery)
            return fl.GeneratorStream(stream.schema, delivery)

    def list_actions(self, context: fl.ServerCallContext) -> list[tuple[str, str]]:
        """Return the names and descriptions of the actions."""
        del context
        return list({**ACTIONS, **SQL_ACTIONS}.items())

    def do_action(self, context: fl.ServerCallContext, action: fl.Action) -> Iterator[fl.Result]:
        """Run an action; the result is one JSON document, or text."""
        with _answering(context) as call:
            body = action.body.to_pybytes()
            self._check_size(body)
            if action.type in SQL_ACTIONS:
                work = Cancellation()
                with self._deliveries.watched(context, work):
                    results = self._sql.act(action.type, body, call.principal, work)
                return iter(list(map(fl.Result, results)))
            request = action_request(action.type, body)
            call.table = None if request is None else request.table
            with self._deliveries.watched(context, Cancellation()):
                answer = run_action(self._service, call.principal, action.type, request)
            return iter([fl.Result(answer)])

    def drain(self, seconds: float) -> bool:
        """End the server; see `FlightDoor.shutdown`."""
        self._service.admission.drain()
        end = time.monotonic() + seconds
        while self._deliveries.running() and time.monotonic() < end:
            time.sleep(tuning.DRAIN_POLL_SECONDS)
        self._deliveries.stop(OverloadedError("the server is shutting down", draining=True))
        stopping = threading.Thread(target=self.shutdown, name="lazydelta-flight", daemon=True)
        stopping.start()
        is_read = not self._deliveries.running()
        stopping.join(tuning.FORCED_STOP_SECONDS if is_read else tuning.WATCH_SECONDS)
        return not stopping.is_alive()

    def _plan(
        self,
        context: fl.ServerCallContext,
        call: _Call,
        descriptor: fl.FlightDescriptor,
        *,
        split: bool = True,
    ) -> FlightPlan:
        if descriptor.descriptor_type == fl.DescriptorType.PATH:
            name = b"/".join(descriptor.path).decode("utf-8", "replace")
            command = orjson.dumps({"table": name, "mode": "rows"})
        else:
            command = descriptor.command
        self._check_size(command)
        request, endpoints = parse_command(command)
        call.table = request.table
        service = self._service
        table = service.tables.open(call.principal, request.table)
        watched = self._deliveries.watched(context, Cancellation())
        with service.admission.slot(call.principal), watched:
            return plan_flight(table, request, endpoints if split else 1)

    def _sql_command(self, descriptor: fl.FlightDescriptor) -> SqlMessage | None:
        """Return the message of Flight SQL in a descriptor; None if it has another command."""
        if descriptor.descriptor_type == fl.DescriptorType.PATH:
            return None
        self._check_size(descriptor.command)
        return parse_message(descriptor.command)

    def _sql_schema(
        self, context: fl.ServerCallContext, call: _Call, command: SqlMessage
    ) -> pa.Schema:
        work = Cancellation()
        with self._deliveries.watched(context, work):
            return self._sql.schema(command, call.principal, work)

    def _check_size(self, command: bytes, limit: int | None = None) -> None:
        limit = self._service.config.limits.request_bytes if limit is None else limit
        if len(command) > limit:
            raise ConfigError("command", f"is longer than {limit} bytes, the server's limit")
