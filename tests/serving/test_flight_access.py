"""Over Flight, nothing reaches data without a valid token, a right, and a ticket of its own."""

from __future__ import annotations

import base64
import json
import pickle

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
from lazydelta.serving.config import Endpoint
from lazydelta.serving.flight_server import FlightDoor
from lazydelta.serving.principal import Principal
from lazydelta.serving.request import ScanRequest
from tests.serving.recording import TOKENS


@pytest.fixture
def client(door):
    with fl.connect(door.uri) as client:
        yield client


def bearing(name):
    token = TOKENS[name].encode()
    return fl.FlightCallOptions(headers=[(b"authorization", b"Bearer " + token)], timeout=10)


COMMAND = fl.FlightDescriptor.for_command(b'{"table": "mine"}')
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
        pytest.param(
            [(b"authorization", f"Bearer {TOKENS['late']}".encode())], id="an-expired-token"
        ),
        pytest.param(
            [(b"authorization", f"Basic {TOKENS['reader']}".encode())], id="another-scheme"
        ),
        pytest.param(
            [(b"authorization", f"Bearer {TOKENS['reader']}".encode()), (b"authorization", b"x")],
            id="two-values",
        ),
    ],
)
def test_every_call_needs_a_valid_token(client, call, headers):
    kind = OSError if call == "get-schema" else fl.FlightUnauthenticatedError  # pyarrow's choice
    with pytest.raises(kind, match="UNAUTHENTICATED: this server needs a valid bearer token"):
        CALLS[call](client, fl.FlightCallOptions(headers=headers, timeout=10))


def test_a_principal_lists_its_tables_only(door):
    with lazydelta.flight.connect(door.uri, token=TOKENS["reader"]) as connection:
        assert connection.tables() == ["mine"]


def test_a_forbidden_table_looks_like_one_that_does_not_exist(door):
    with lazydelta.flight.connect(door.uri, token=TOKENS["reader"]) as connection:
        messages = []
        for name in ("theirs", "absent"):
            with pytest.raises(ServedTableNotFoundError) as caught:
                connection.table(name).scan().plan()
            messages.append(str(caught.value).replace(name, "it"))
    assert messages[0] == messages[1]


def tampered(ticket):
    body = base64.urlsafe_b64decode(ticket.split(b".")[1]).replace(b'"mine"', b'"theirs"')
    return b".".join([b"1", base64.urlsafe_b64encode(body), ticket.split(b".")[2]])


@pytest.fixture
def ticket(client):
    return client.get_flight_info(COMMAND, bearing("reader")).endpoints[0].ticket.ticket


def test_a_ticket_is_of_its_principal(door, ticket):
    with lazydelta.flight.connect(door.uri, token=TOKENS["reader"]) as connection:
        assert sum(delivered.batch.num_rows for delivered in connection.read(ticket)) == 2
    with (
        lazydelta.flight.connect(door.uri, token=TOKENS["other"]) as connection,
        pytest.raises(TicketError, match="another client"),
    ):
        list(connection.read(ticket))


def test_a_ticket_cannot_be_altered(door, ticket):
    with (
        lazydelta.flight.connect(door.uri, token=TOKENS["reader"]) as connection,
        pytest.raises(TicketError, match="altered"),
    ):
        list(connection.read(tampered(ticket)))


def test_a_ticket_expires(door, monkeypatch):
    monkeypatch.setattr("lazydelta.serving.tuning.TICKET_SECONDS", -1)
    tickets = door._server._tickets
    expired, _ = tickets.sign(ScanRequest(table="mine"), Principal(name="reader"))
    with (
        lazydelta.flight.connect(door.uri, token=TOKENS["reader"]) as connection,
        pytest.raises(TicketError, match="expired"),
    ):
        list(connection.read(expired))


def test_a_signed_ticket_for_a_table_that_was_taken_away_reads_nothing(door):
    signed, _ = door._server._tickets.sign(ScanRequest(table="theirs"), Principal(name="reader"))
    with (
        lazydelta.flight.connect(door.uri, token=TOKENS["reader"]) as connection,
        pytest.raises(ServedTableNotFoundError),
    ):
        list(connection.read(signed))


@pytest.mark.parametrize(
    "command",
    [
        pytest.param({"table": "mine", "where": "id = " + "1" * 100_000}, id="too-long"),
        pytest.param({"table": "mine", "where": "(" * 5000 + "1" + ")" * 5000}, id="too-deep"),
        pytest.param({"table": "mine", "endpoints": 10**6}, id="too-many-endpoints"),
        pytest.param({"table": "mine", "endpoints": "2"}, id="a-wrong-type"),
        pytest.param({"table": "mine", "url": "/etc"}, id="an-unknown-field"),
        pytest.param(["mine"], id="not-an-object"),
    ],
)
def test_a_bad_command_is_refused(client, command):
    descriptor = fl.FlightDescriptor.for_command(json.dumps(command))
    with pytest.raises(fl.FlightServerError, match="INVALID_ARGUMENT") as caught:
        client.get_flight_info(descriptor, bearing("reader"))
    assert "Traceback" not in str(caught.value)


def test_writing_is_refused_before_anything_is_read(client, ticket):
    schema = client.do_get(fl.Ticket(ticket), bearing("reader")).schema
    writer, _ = client.do_put(fl.FlightDescriptor.for_path("mine"), schema, bearing("reader"))
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
