"""A client that leaves while the store does not answer frees its slot; the store's deadline is far."""

from __future__ import annotations

import json
import socket
import threading
import time

import pyarrow.flight as fl
import pytest

from lazydelta.serving import ServeConfig
from tests.serving.flight_servers import flight_door, until
from tests.serving.support import connect, serving

SECONDS = 600.0  # of a request to the store


@pytest.fixture
def config():
    """A table in a store that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as silent:
        options = {
            "endpoint": f"http://127.0.0.1:{silent.getsockname()[1]}",
            "allow_http": "true", "region": "x", "access_key_id": "k", "secret_access_key": "s",
            "timeout": f"{SECONDS:.0f}s",
        }  # fmt: skip
        yield ServeConfig.for_tables({"t": "s3://bucket/t"}, options)


def test_http(config):
    with serving(config) as server:
        admission = server.service.admission
        with connect(server) as client:
            client.request("GET", "/v1/tables/t/files")
            assert until(lambda: admission.running == 1)
            time.sleep(0.1)
            assert admission.running == 1
        assert until(lambda: admission.running == 0)


CALLS = {
    "GetFlightInfo": lambda client, options: client.get_flight_info(
        fl.FlightDescriptor.for_command(json.dumps({"table": "t"})), options
    ),
    "DoAction": lambda client, options: list(
        client.do_action(fl.Action("refresh", json.dumps({"table": "t"}).encode()), options)
    ),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_flight(config, call):
    with flight_door(config) as door, fl.connect(door.uri) as client:
        admission = door._service.admission
        outcome = []

        def run():
            try:
                call(client, fl.FlightCallOptions(timeout=0.5))
            except fl.FlightError as error:
                outcome.append(error)

        calling = threading.Thread(target=run)
        calling.start()
        assert until(lambda: admission.running == 1)
        calling.join(20)
        assert isinstance(outcome[0], fl.FlightTimedOutError)
        assert until(lambda: admission.running == 0)
