"""Over Flight, nothing reaches data without a valid token, a right, and a ticket of its own."""

from __future__ import annotations

import base64
import hashlib
import json
import pickle
import random
from datetime import UTC, datetime

import pyarrow.flight as fl
import pytest

import lazydelta.flight
from lazydelta.errors import (
    ConfigError,
    ServedTableNotFoundError,
    TicketError,
    UnauthenticatedError,
)
from lazydelta.serving import ScanService, ServeConfig
from lazydelta.serving.config import Endpoint, PrincipalEntry, TableEntry
from lazydelta.serving.flight_server import FlightDoor
from lazydelta.serving.principal import Principal
from lazydelta.serving.request import ScanRequest
from tests.builders import TableBuilder
from tests.serving.flight_servers import flight_door

PAST = datetime(2020, 1, 1, tzinfo=UTC)


def principal(name, **more):
    return PrincipalEntry(
        name=name, token_sha256=(hashlib.sha256(name.encode()).hexdigest(),), **more
    )


@pytest.fixture(scope="module")
def door(tmp_path_factory):
    """A server with a table of `ann` and one of `bob`; the token of a principal is its name."""
    paths = [tmp_path_factory.mktemp("access") / name for name in ("one", "two")]
    for path in paths:
        TableBuilder(path).commit("+a +b")
    config = ServeConfig(
        tables=(
            TableEntry(name="one", url=str(paths[0]), principals=("ann",)),
            TableEntry(name="two", url=str(paths[1]), principals=("bob",)),
        ),
        principals=(principal("ann"), principal("bob"), principal("old", expires=PAST)),
        resume_key=b"secret",
    )
    with flight_door(config) as door:
        yield door


@pytest.fixture
def client(door):
    with fl.connect(door.uri) as client:
        yield client


def bearing(token):
    return fl.FlightCallOptions(headers=[(b"authorization", b"Bearer " + token)], timeout=10)


COMMAND = fl.FlightDescriptor.for_command(b'{"table": "one", "capabilities": ["deletionVectors"]}')
CALLS = {
    "list-flights": lambda client, options: list(client.list_flights(b"", options)),
    "get-flight-info": lambda client, options: client.get_flight_info(COMMAND, options),
    "get-schema": lambda client, options: client.get_schema(COMMAND, options),
    "do-get": lambda client, options: client.do_get(fl.Ticket(b"x"), options).read_all(),
    "do-action": lambda client, options: list(client.do_action("health", options)),
    "list-actions": lambda client, options: client.list_actions(options),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    "headers",
    [
        pytest.param([], id="no-token"),
        pytest.param([(b"authorization", b"Bearer wrong")], id="a-wrong-token"),
        pytest.param([(b"authorization", b"Bearer old")], id="an-expired-token"),
        pytest.param([(b"authorization", b"Basic ann")], id="another-scheme"),
        pytest.param(
            [(b"authorization", b"Bearer ann"), (b"authorization", b"x")], id="two-values"
        ),
    ],
)
def test_every_call_needs_a_valid_token(client, call, headers):
    kind = OSError if call == "get-schema" else fl.FlightUnauthenticatedError  # pyarrow's choice
    with pytest.raises(kind, match="UNAUTHENTICATED: this server needs a valid bearer token"):
        CALLS[call](client, fl.FlightCallOptions(headers=headers, timeout=10))


def test_a_principal_lists_its_tables_only(door):
    with lazydelta.flight.connect(door.uri, token="ann") as connection:
        assert connection.tables() == ["one"]


def test_a_forbidden_table_looks_like_one_that_does_not_exist(door):
    with lazydelta.flight.connect(door.uri, token="ann") as connection:
        messages = []
        for name in ("two", "six"):
            with pytest.raises(ServedTableNotFoundError) as caught:
                connection.table(name).scan().plan()
            messages.append(str(caught.value).replace(name, "it"))
    assert messages[0] == messages[1]


def tampered(ticket):
    body = base64.urlsafe_b64decode(ticket.split(b".")[1]).replace(b'"one"', b'"two"')
    return b".".join([b"1", base64.urlsafe_b64encode(body), ticket.split(b".")[2]])


@pytest.fixture
def ticket(client):
    return client.get_flight_info(COMMAND, bearing(b"ann")).endpoints[0].ticket.ticket


def test_a_ticket_is_of_its_principal(door, ticket):
    with lazydelta.flight.connect(door.uri, token="ann") as connection:
        assert sum(delivered.batch.num_rows for delivered in connection.read(ticket)) == 2
    with (
        lazydelta.flight.connect(door.uri, token="bob") as connection,
        pytest.raises(TicketError, match="another client"),
    ):
        list(connection.read(ticket))


def test_a_ticket_cannot_be_altered(door, ticket):
    with (
        lazydelta.flight.connect(door.uri, token="ann") as connection,
        pytest.raises(TicketError, match="altered"),
    ):
        list(connection.read(tampered(ticket)))


def test_a_ticket_expires(door, monkeypatch):
    monkeypatch.setattr("lazydelta.serving.tuning.TICKET_SECONDS", -1)
    tickets = door._server._tickets
    expired, _ = tickets.sign(
        ScanRequest(table="one", capabilities=frozenset({"deletionVectors"})), Principal(name="ann")
    )
    with (
        lazydelta.flight.connect(door.uri, token="ann") as connection,
        pytest.raises(TicketError, match="expired"),
    ):
        list(connection.read(expired))


def test_a_signed_ticket_for_a_table_that_was_taken_away_reads_nothing(door):
    signed, _ = door._server._tickets.sign(ScanRequest(table="two"), Principal(name="ann"))
    with (
        lazydelta.flight.connect(door.uri, token="ann") as connection,
        pytest.raises(ServedTableNotFoundError),
    ):
        list(connection.read(signed))


def test_random_tickets_and_commands_reach_nothing(client, ticket):
    random_bytes = random.Random(22)
    options = bearing(b"ann")
    for number in range(300):
        forged = bytearray(ticket)
        for _ in range(1 + number % 3):
            forged[random_bytes.randrange(len(forged))] = random_bytes.randrange(256)
        if bytes(forged) == ticket:
            continue
        with pytest.raises(fl.FlightUnauthorizedError):
            client.do_get(fl.Ticket(bytes(forged)), options).read_all()
        garbage = random_bytes.randbytes(number)
        with pytest.raises(fl.FlightServerError, match="INVALID_ARGUMENT"):
            client.get_flight_info(fl.FlightDescriptor.for_command(garbage), options)


@pytest.mark.parametrize(
    "command",
    [
        pytest.param({"table": "one", "where": "id = " + "1" * 100_000}, id="too-long"),
        pytest.param({"table": "one", "where": "(" * 5000 + "1" + ")" * 5000}, id="too-deep"),
        pytest.param({"table": "one", "endpoints": 10**6}, id="too-many-endpoints"),
        pytest.param({"table": "one", "endpoints": "2"}, id="a-wrong-type"),
        pytest.param({"table": "one", "url": "/etc"}, id="an-unknown-field"),
        pytest.param(["one"], id="not-an-object"),
    ],
)
def test_a_bad_command_is_refused(client, command):
    descriptor = fl.FlightDescriptor.for_command(json.dumps(command))
    with pytest.raises(fl.FlightServerError, match="INVALID_ARGUMENT") as caught:
        client.get_flight_info(descriptor, bearing(b"ann"))
    assert "Traceback" not in str(caught.value)


def test_writing_is_refused_before_anything_is_read(client, ticket):
    schema = client.do_get(fl.Ticket(ticket), bearing(b"ann")).schema
    writer, _ = client.do_put(fl.FlightDescriptor.for_path("one"), schema, bearing(b"ann"))
    with pytest.raises(fl.FlightServerError, match="DO_PUT is not served"):
        writer.close()


def test_our_errors_name_the_request_and_pickle(door):
    with (
        lazydelta.flight.connect(door.uri, token="unknown") as connection,
        pytest.raises(UnauthenticatedError) as caught,
    ):
        connection.tables()
    copy = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(copy, UnauthenticatedError)
    assert copy.request_id == caught.value.request_id
    assert str(copy) == str(caught.value)


def test_a_port_in_use_is_refused(door):
    config = ServeConfig.for_tables({"t": "/t"}, flight=Endpoint(port=door.port))
    with pytest.raises(ConfigError, match="cannot listen"):
        FlightDoor(ScanService(config)).start()


def test_an_address_of_another_scheme_is_refused():
    with pytest.raises(ConfigError, match="grpc"):
        lazydelta.flight.connect("http://127.0.0.1:1")
