"""Servers of test tables, and a plain client that sees every byte."""

from __future__ import annotations

import contextlib
import http.client
import json
import time
from urllib.parse import quote, urlencode, urlsplit

import pyarrow as pa

from lazydelta import Table
from lazydelta.serving import RunningServer, ServeConfig
from lazydelta.serving.config import Endpoint
from lazydelta.serving.limits import Limits
from lazydelta.serving.tables import engine_config

ARROW = "application/vnd.apache.arrow.stream"
NDJSON = "application/x-ndjson"
WAIT_SECONDS = 20


@contextlib.contextmanager
def running(tables, stores=None, *, limits=None, **settings):
    """Run a server of tables by name; `stores` replace the stores of some of them."""
    config = ServeConfig.for_tables(
        tables, http=Endpoint(port=0), flight=Endpoint(enabled=False),
        limits=Limits(**(limits or {})), **settings,
    )  # fmt: skip
    with serving(config, stores) as server:
        yield server


@contextlib.contextmanager
def serving(config, stores=None):
    with RunningServer(config) as server:
        for name, store in (stores or {}).items():
            server.service.tables._open[name] = Table(store, engine_config(config))
        yield server


def connect(server, timeout=WAIT_SECONDS):
    address = urlsplit(server.url)
    return contextlib.closing(
        http.client.HTTPConnection(address.hostname, address.port, timeout=timeout)
    )


def get(server, path, *, headers=None, **parameters):
    """Return status, headers and whole body."""
    with connect(server) as connection:
        answer = send(connection, path, headers=headers, **parameters)
        return answer.status, dict(answer.headers.items()), answer.read()


def send(connection, path, *, headers=None, **parameters):
    query = f"?{urlencode(parameters, quote_via=quote)}" if parameters else ""
    connection.request("GET", path + query, headers=headers or {})
    return connection.getresponse()


def error_of(answer):
    status, _, body = answer
    document = json.loads(body)
    assert document["status"] == status
    return document["error"]


def arrow_batches(body):
    """Return batches and their tokens of a whole body, and the metadata of its end."""
    reader, batches = pa.ipc.open_stream(body), []
    while True:
        try:
            batch, metadata = reader.read_next_batch_with_custom_metadata()
        except (StopIteration, OSError):  # without our end, or cut off
            return batches, None
        found = {key.decode(): value.decode() for key, value in dict(metadata).items()}
        if "end" in found:
            return batches, found
        batches.append((batch, found["resume"]))


def json_batches(body):
    """Return the lines of each batch with its token, and the last control line if it is no batch."""
    lines, rows, batches = body.decode().splitlines(), [], []
    for line in map(json.loads, lines):
        if line.keys() == {"resume"}:
            batches.append((rows, line["resume"]))
            rows = []
        elif "end" in line or "error" in line:
            return batches, line
        else:
            rows.append(line)
    return batches, None


def wait_until(condition, seconds=WAIT_SECONDS):
    """Wait until a condition holds; whether it did."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True
