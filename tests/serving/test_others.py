"""Clients that are silent, slow or too many do not hold up others."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from contextlib import ExitStack
from dataclasses import replace
from urllib.parse import urlsplit

import pyarrow.flight as fl
import pytest

from lazydelta.serving.limits import Limits
from tests.builders import TableBuilder
from tests.serving.recording import PLAIN, TOKENS, guarded_config
from tests.serving.support import connect, get, json_batches, send, serving, wait_until

FILES, NAME_LENGTH = 12_000, 800  # more than the network buffers for a client that does not read
FEW = 100
QUOTA = 3
BEARER = {name: {"authorization": f"Bearer {token}"} for name, token in TOKENS.items()}


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    """The tables of two principals: one of a large list of files, one of a few."""
    directory = tmp_path_factory.mktemp("others")
    large = " ".join(f"+{number:0{NAME_LENGTH}}" for number in range(FILES))
    few = " ".join(f"+{number}" for number in range(FEW))
    for name, files in (("mine", large), ("theirs", few)):
        TableBuilder(directory / name, protocol=PLAIN).commit(files)
    return directory


@pytest.fixture
def server(paths):
    """A server that reads with two threads."""
    config = guarded_config()
    limits = Limits(threads=2, scans=3 * QUOTA, scans_per_principal=QUOTA, batch_files=200)
    tables = tuple(replace(entry, url=str(paths / entry.name)) for entry in config.tables)
    with serving(replace(config, tables=tables, limits=limits)) as running:
        yield running


class OverHttp:
    """A client of the HTTP door."""

    def __init__(self, server):
        self._server = server
        address = urlsplit(server.url)
        self.address = (address.hostname, address.port)

    def stalled(self, stack):
        """Start a scan, and read its first batch only."""
        client = stack.enter_context(connect(self._server))
        answer = send(client, "/v1/tables/mine/files", headers=BEARER["reader"])
        stack.callback(answer.close)
        assert answer.status == 200
        answer.readline()

    def few(self, name, table):
        """Return the files of a small scan; None if it was refused."""
        path = f"/v1/tables/{table}/files"
        status, _, body = get(self._server, path, headers=BEARER[name], limit=FEW)
        if status == 429:
            return None
        assert status == 200
        return json_batches(body)[1]["rows"]


class OverFlight:
    """A client of the Flight door."""

    def __init__(self, server):
        (self._door,) = server._server._doors
        self.address = ("127.0.0.1", self._door.port)

    def _reader(self, stack, name, table, **more):
        client = stack.enter_context(fl.connect(self._door.uri))
        token = BEARER[name]["authorization"].encode()
        options = fl.FlightCallOptions(headers=[(b"authorization", token)], timeout=30)
        command = json.dumps({"table": table, **more})
        info = client.get_flight_info(fl.FlightDescriptor.for_command(command), options)
        reader = client.do_get(info.endpoints[0].ticket, options)
        stack.callback(reader.cancel)
        return reader

    def stalled(self, stack):
        """Start a scan, and read its first batch only."""
        self._reader(stack, "reader", "mine").read_chunk()

    def few(self, name, table):
        """Return the files of a small scan; None if it was refused."""
        with ExitStack() as stack, contextlib.suppress(fl.FlightUnavailableError):
            return self._reader(stack, name, table, limit=FEW).read_all().num_rows
        return None


@pytest.fixture(params=[OverHttp, OverFlight], ids=["http", "flight"])
def client(request, server):
    return request.param(server)


def test_silent_and_stalled_clients_do_not_hold_up_others(client, server):
    with ExitStack() as stack:
        for sent in (
            b"",
            b"GET /v1/tables HTTP/1.1\r\nHost: 127",
            b"PRI * HTTP/2.0\r\n\r\nSM",
        ) * 20:
            silent = stack.enter_context(socket.create_connection(client.address, timeout=20))
            silent.sendall(sent)
        for _ in range(QUOTA):  # more than there are threads
            client.stalled(stack)
        assert server.service.admission.running == QUOTA
        assert [client.few("other", "theirs") for _ in range(10)] == [FEW] * 10
        is_stalled = wait_until(lambda: server.service.admission.running == QUOTA)
        assert is_stalled, "the stalled clients were not there"
    assert wait_until(lambda: server.service.admission.running == 0)


def test_a_principal_that_sends_ten_times_its_quota_does_not_hold_up_another(client, server):
    found, is_over = [], threading.Event()

    def flood():
        while not is_over.is_set():
            found.append(client.few("reader", "mine"))

    threads = [threading.Thread(target=flood) for _ in range(10 * QUOTA)]
    for thread in threads:
        thread.start()
    try:
        others = [client.few("other", "theirs") for _ in range(3)]
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    assert others == [FEW] * 3
    assert {None, FEW} == set(found), "the flood was no overload"
    assert wait_until(lambda: server.service.admission.running == 0)
