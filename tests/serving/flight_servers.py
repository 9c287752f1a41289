"""Servers for tests: Flight in this process, and both in another one that ends with its caller."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from lazydelta.scan import FileRecords
from lazydelta.serving import RunningServer, ScanService, ServeConfig
from lazydelta.serving.config import Endpoint
from lazydelta.serving.flight_server import FlightDoor
from lazydelta.serving.limits import Limits

ROOT = Path(__file__).parents[2]
CAPABLE = FileRecords(
    capabilities=frozenset({"deletionVectors", "columnMapping", "typeWidening", "variantType"})
)


@contextmanager
def flight_door(config, drain_seconds=5.0):
    """Run a server in threads of this process."""
    door = FlightDoor(ScanService(replace(config, flight=replace(config.flight, port=0))))
    door.start()
    try:
        yield door
    finally:
        door.shutdown(drain_seconds)


@contextmanager
def server_process(tables, *, resume_key="", **limits):
    """Run a server in another process; yields the process, with its addresses `url` and `uri`."""
    settings = {"tables": tables, "resume_key": resume_key, "limits": limits}
    command = [sys.executable, "-m", __name__, json.dumps(settings)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            addresses = process.stdout.readline().split()
            assert addresses, "the server did not start"
            process.url, process.uri = addresses
            yield process
        finally:
            process.stdin.close()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def until(condition, seconds=10.0):
    """Wait for a condition; return whether it became true."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def main(settings):
    """Serve HTTP and Flight until standard input is closed."""
    config = ServeConfig.for_tables(
        settings["tables"],
        resume_key=settings["resume_key"].encode(),
        limits=Limits(**settings["limits"]),
        http=Endpoint(port=0),
        flight=Endpoint(port=0),
    )
    with RunningServer(config) as server:
        (door,) = server._server._doors
        sys.stdout.write(f"{server.url} {door.uri}\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
