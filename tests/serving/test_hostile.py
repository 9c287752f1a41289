"""Requests that must not reach data: unauthenticated, forged, expired, foreign, oversized."""

from __future__ import annotations

import hashlib
import http.client
import json
import random
import socket
import string
from urllib.parse import quote, urlsplit

import pyarrow as pa
import pyarrow.flight as fl
import pytest

from lazydelta.serving import tuning
from lazydelta.serving.principal import Principal
from lazydelta.serving.request import ScanRequest
from tests.serving.recording import TOKENS
from tests.serving.sql_messages import message

MODES = ("", "/files", "/rows", "/changes", "/history")
VALID = TOKENS["reader"]
LETTERS = string.ascii_letters + string.digits + "-._~+/= \\\"'%\x00\xff"
MANY = pytest.mark.parametrize("count", [500, pytest.param(10_000, marks=pytest.mark.long)])


@pytest.fixture
def untouched(guarded, stores):
    """Fail a test that reads anything of a table, or leaves a scan."""
    before = {name: store.requests for name, store in stores.items()}
    yield
    assert {name: store.requests for name, store in stores.items()} == before
    assert guarded.service.admission.running == 0


class Noise:
    """Random strings, the same in each run."""

    def __init__(self):
        self.random = random.Random(7)

    def text(self, most):
        return "".join(self.random.choices(LETTERS, k=self.random.randrange(1, most)))

    def token(self):
        """Return a value for an `Authorization` header that proves nothing; None for no header."""
        return self.random.choice(
            [
                lambda: None,
                lambda: f"Bearer {self.text(80)}",
                lambda: f"Bearer {TOKENS['late']}",
                lambda: f"Bearer {hashlib.sha256(VALID.encode()).hexdigest()}",
                lambda: f"Bearer {VALID[:-1]}",
                lambda: f"Bearer {VALID}{self.random.choice(LETTERS.replace(' ', ''))}",
                lambda: f"Bearer {VALID.upper()}",
                lambda: f"Basic {VALID}",
                lambda: VALID,
                lambda: f"Bearer {'a' * self.random.randrange(3000, 6000)}",
            ]
        )()


# --- HTTP


def http_requests(count):
    """Yield paths and headers."""
    noise = Noise()
    others = [
        {"x-authorization": f"Bearer {VALID}", "cookie": f"token={VALID}"},
        {"x-forwarded-for": "127.0.0.1", "x-real-user": "reader"},
        {"authorization": "Bearer " + "a" * 60_000},
    ]
    for number in range(count):
        mode = noise.random.choice(MODES)
        token = noise.token()
        forged = {} if token is None else {"authorization": token}
        if number % 10 == 0:
            forged = noise.random.choice(others)
        if number % 3 == 0:  # of another principal, or of no table
            names = ["theirs", "theirs/x", "mine%2f..%2ftheirs", quote(noise.text(20))]
            path = f"/v1/tables/{noise.random.choice(names)}{mode}"
            yield path, {"authorization": f"Bearer {VALID}"}
        elif number % 3 == 1:
            yield f"/v1/tables/mine{mode}?token={VALID}", forged
        else:
            yield f"/v1/tables/mine{mode}?where={quote(noise.text(200))}", forged


def send(server, requests):
    """Send requests over raw connections, as some are not valid HTTP; yield the statuses."""
    address = urlsplit(server.url)
    connection = None
    for path, headers in requests:
        if connection is None:
            connection = socket.create_connection((address.hostname, address.port), timeout=20)
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{lines}\r\n"
        try:
            connection.sendall(head.encode("latin-1"))
            answer = http.client.HTTPResponse(connection)
            answer.begin()
            answer.read()
            is_open = not answer.will_close
            yield answer.status
        except (OSError, http.client.HTTPException):
            is_open = False
            yield None  # closed unread
        if not is_open:
            connection.close()
            connection = None
    if connection is not None:
        connection.close()


@MANY
@pytest.mark.usefixtures("untouched")
def test_hostile_requests_reach_no_data_over_http(guarded, count):
    statuses = list(send(guarded, http_requests(count)))
    assert len(statuses) == count
    assert set(statuses) <= {400, 401, 404, None}, set(statuses)
    assert statuses.count(401) > count // 4


# --- Flight


@pytest.fixture
def tickets(door, monkeypatch):
    """Tickets of three kinds: of the reader, of another principal, and expired."""
    sign = door._server._tickets.sign
    mine = ScanRequest(table="mine")
    valid, _ = sign(mine, Principal(name="reader"))
    theirs, _ = sign(ScanRequest(table="theirs"), Principal(name="other"))
    monkeypatch.setattr(tuning, "TICKET_SECONDS", -1)
    return valid, theirs, sign(mine, Principal(name="reader"))[0]


def flight_calls(count, tickets):
    """Yield calls of a client."""
    noise = Noise()
    valid, theirs, expired = tickets
    reader, other = (f"Bearer {TOKENS[name]}" for name in ("reader", "other"))

    def altered():
        forged = bytearray(valid)
        for _ in range(noise.random.randrange(1, 4)):
            place = noise.random.randrange(len(forged))
            forged[place] ^= noise.random.randrange(1, 256)
        return bytes(forged)

    tickets_of_reader = [
        *(altered, altered, lambda: theirs, lambda: expired),
        lambda: noise.random.randbytes(noise.random.randrange(300)),
        lambda: valid + b"." * (tuning.MAX_TICKET_BYTES + 1),
        lambda: message("CommandStatementQuery", "SELECT * FROM theirs"),
        lambda: message("CommandStatementQuery", "SELECT * FROM '/nowhere/theirs'"),
    ]
    commands_of_reader = [
        lambda: b'{"table": "theirs"}',
        lambda: json.dumps({"table": "theirs", "mode": "rows", "endpoints": 3}).encode(),
        lambda: json.dumps({"table": noise.text(30)}).encode(),
        lambda: json.dumps({"table": "mine", "where": "id = " + "1" * 70_000}).encode(),
        lambda: json.dumps({"table": "mine", "url": "/etc"}).encode(),
        lambda: message("CommandStatementQuery", noise.text(50)),
        lambda: message("CommandStatementQuery", "SELECT 1" + " " * 70_000),
        lambda: message("CommandStatementUpdate", "DELETE FROM mine"),
        lambda: noise.random.randbytes(noise.random.randrange(1, 300)),
    ]
    requests = [get_info, get_schema, explain, refresh]
    for number in range(count):
        if number % 4 == 0:
            yield do_get, noise.random.choice(tickets_of_reader)(), reader
        elif number % 4 == 1:
            yield noise.random.choice(requests), noise.random.choice(commands_of_reader)(), reader
        elif number % 4 == 2:
            query = message("CommandStatementQuery", "SELECT * FROM mine")
            token = noise.random.choice([other, noise.token()])
            yield do_get, noise.random.choice([valid, query]), token
        else:
            yield noise.random.choice(requests), b'{"table": "mine"}', noise.token()


def do_get(client, ticket, options):
    client.do_get(fl.Ticket(ticket), options).read_all()


def get_info(client, command, options):
    client.get_flight_info(fl.FlightDescriptor.for_command(command), options)


def get_schema(client, command, options):
    client.get_schema(fl.FlightDescriptor.for_command(command), options)


def explain(client, command, options):
    list(client.do_action(("explain", command), options))


def refresh(client, command, options):
    list(client.do_action(("refresh", command), options))


@MANY
@pytest.mark.usefixtures("untouched")
def test_hostile_calls_reach_no_data_over_flight(door, tickets, count):
    refused = 0
    with fl.connect(door.uri) as client:
        for call, argument, token in flight_calls(count, tickets):
            headers = [] if token is None else [(b"authorization", token.encode("latin-1"))]
            options = fl.FlightCallOptions(headers=headers, timeout=10)
            with pytest.raises((fl.FlightError, pa.ArrowException, OSError)) as caught:
                call(client, argument, options)
            assert 'File "/' not in str(caught.value), "the server's directories are sent"
            refused += 1
    assert refused == count
