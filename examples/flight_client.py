"""Serve a table over Arrow Flight, read it remotely, and continue after a break.

python examples/flight_client.py
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import lazydelta as ld
import lazydelta.flight
from lazydelta.serving import ScanService, ServeConfig
from lazydelta.serving.config import Endpoint
from lazydelta.serving.flight_server import FlightDoor
from lazydelta.serving.limits import Limits


def main() -> None:
    """Serve and read a small table."""
    with tempfile.TemporaryDirectory() as directory:
        path = str(Path(directory, "trips"))
        for day in range(4):
            rows = {"day": [day] * 100, "fare": [float(n) for n in range(100)]}
            ld.write(path, rows, partition_by=["day"] if day == 0 else None)

        config = ServeConfig.for_tables({"trips": path}, limits=Limits(batch_rows=100))
        door = FlightDoor(ScanService(replace(config, flight=Endpoint(port=0))))
        door.start()
        try:
            read(door.uri)
        finally:
            door.shutdown()


def read(uri: str) -> None:
    """Read the table as a client in another process would."""
    with lazydelta.flight.connect(uri) as server:
        print("tables:", server.tables())
        trips = server.table("trips")
        print("version", trips.version, "has", trips.count(), "rows")
        print("expensive:", trips.scan("fare >= 90 and day < 2").to_arrow().num_rows, "rows")
        for file in trips.scan().files(limit=1):
            print("newest file:", file.partition_values, file.size > 0)

        with trips.scan().resumable_rows() as batches:
            first, token = next(batches)
        rest = sum(batch.num_rows for batch, _ in trips.scan().resume(token))
        print("before the break", first.num_rows, "rows, after it", rest)


if __name__ == "__main__":
    main()
