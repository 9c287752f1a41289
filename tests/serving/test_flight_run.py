"""One process serves Flight beside HTTP, and drains both."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from urllib.request import urlopen

import pytest

import lazydelta as ld
import lazydelta.flight
from lazydelta.errors import DeltaError
from lazydelta.serving import RunningServer, ServeConfig
from lazydelta.serving.config import Endpoint
from lazydelta.serving.limits import Limits
from tests.serving.flight_servers import ROOT


@pytest.fixture
def server(tmp_path):
    for start in range(0, 40, 10):
        ld.write(tmp_path / "t", {"id": list(range(start, start + 10))})
    config = ServeConfig.for_tables(
        {"t": str(tmp_path / "t")},
        http=Endpoint(port=0),
        flight=Endpoint(port=0),
        limits=Limits(batch_rows=10, drain_seconds=10.0),
    )
    with RunningServer(config) as server:
        yield server


@pytest.fixture
def connection(server):
    (door,) = server._server._doors
    with lazydelta.flight.connect(door.uri) as connection:
        yield connection


def test_both_servers_answer(server, connection):
    assert connection.table("t").count() == 40
    with urlopen(f"{server.url}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    assert 'lazydelta_serve_rows_total{protocol="flight",mode="rows"} 40' in text


def test_a_resume_token_of_flight_continues_over_http(server, connection):
    with connection.table("t").scan().resumable_rows() as batches:
        first, token = next(batches)
    url = f"{server.url}/v1/tables/t/rows?resume={token}"
    with urlopen(url, timeout=10) as answer:
        rows = [line for line in answer.read().decode().splitlines() if line.startswith('{"id"')]
    assert first.num_rows + len(rows) == 40


def test_a_server_that_stopped_gives_no_clean_answer(server, connection):
    server.drain()
    server.join()
    with pytest.raises(DeltaError):
        connection.table("t").count()


_CONFIG = """
[[tables]]
name = "t"
url = "{url}"
[http]
port = 0
[flight]
port = {port}
[limits]
drain_seconds = 0.2
batch_rows = 1
"""


@pytest.mark.long
def test_a_client_that_does_not_read_cannot_keep_the_process_alive(tmp_path):
    ld.write(tmp_path / "t", {"blob": [os.urandom(1 << 20)] * 16})  # more than gRPC buffers
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = tmp_path / "serve.toml"
    config.write_text(_CONFIG.format(url=tmp_path / "t", port=port), encoding="utf-8")
    command = [sys.executable, "-m", "lazydelta", "serve", str(config)]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        try:
            assert process.stdout.readline()
            with lazydelta.flight.connect(f"grpc://127.0.0.1:{port}") as connection:
                batches = connection.table("t").scan().to_batches()
                next(batches)
                process.send_signal(signal.SIGTERM)
                assert process.wait(30) == 0
                with pytest.raises(DeltaError):
                    list(batches)
        finally:
            process.kill()
