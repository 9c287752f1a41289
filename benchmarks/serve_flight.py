"""The cases of `benchmarks.serve` about all files over Arrow Flight; clients are plain pyarrow."""

from __future__ import annotations

import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pyarrow.flight as fl

import lazydelta as ld
from benchmarks.serve_clients import flight_readers
from benchmarks.serve_process import running
from lazydelta.scan import FileRecords

if TYPE_CHECKING:
    from benchmarks.serve import Scale
    from benchmarks.serve_process import ServerProcess

__all__ = ["all_files", "split_endpoints"]

_ROUNDS = 5


def _connect(server: ServerProcess) -> fl.FlightClient:
    return fl.connect(f"grpc://127.0.0.1:{server.flight_port}")


def _count(reader: fl.FlightStreamReader) -> int:
    return sum(chunk.data.num_rows for chunk in reader)


def _all(client: fl.FlightClient, **command: Any) -> int:
    return sum(map(_count, flight_readers(client, **command)))


def all_files(scale: Scale) -> tuple[float, str]:
    """Compare reading all file records over Flight with reading them in process."""
    ours, theirs, table = [], [], ld.Table.open(scale.large)
    with running({"t": scale.large}) as server, _connect(server) as client:
        _all(client)
        for _ in range(_ROUNDS):
            started = time.perf_counter()
            remote = _all(client)
            ours.append(time.perf_counter() - started)
            started = time.perf_counter()
            with table.scan().resumable_files(records=FileRecords()) as delivered:
                local = sum(batch.num_rows for batch, _ in delivered)
            theirs.append(time.perf_counter() - started)
            if remote != local:
                raise RuntimeError(f"{remote} files over Flight, {local} in process")
    one, here = statistics.median(ours), statistics.median(theirs)
    return one / here, f"{one:.2f} s against {here:.2f} s"


def split_endpoints(scale: Scale) -> tuple[float, str]:
    """Compare two clients that read an endpoint each with one client that reads everything."""
    together, alone = [], []
    with (
        running({"t": scale.large}) as server,
        _connect(server) as one,
        _connect(server) as other,
        ThreadPoolExecutor(2) as pool,
    ):
        _all(one)
        busy = []
        for _ in range(_ROUNDS):
            started, work = time.perf_counter(), server.cpu_seconds() + time.process_time()
            total = _all(one)
            alone.append(time.perf_counter() - started)
            work = server.cpu_seconds() + time.process_time() - work
            busy.append(work / alone[-1])
            started = time.perf_counter()
            descriptor = fl.FlightDescriptor.for_command(b'{"table": "t", "endpoints": 2}')
            tickets = [end.ticket for end in one.get_flight_info(descriptor).endpoints]
            shares = pool.map(lambda c, t: _count(c.do_get(t)), (one, other), tickets)
            if (split := sum(shares)) != total:
                raise RuntimeError(f"{split} files in shares, {total} at once")
            together.append(time.perf_counter() - started)
    two, single = statistics.median(together), statistics.median(alone)
    cores = f"one client: {statistics.median(busy):.1f} cores busy"
    return two / single, f"{two:.2f} s against {single:.2f} s; {cores}"
