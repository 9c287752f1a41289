"""The Arrow Flight cases of `benchmarks.serve`; clients are plain pyarrow."""

from __future__ import annotations

import json
import statistics
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pyarrow.flight as fl

import lazydelta as ld
from benchmarks.serve_http import in_process_first, percentile
from benchmarks.serve_process import running
from lazydelta.scan import FileRecords

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from benchmarks.serve import Scale
    from benchmarks.serve_process import ServerProcess

__all__ = [
    "all_files",
    "cancelled",
    "first_batch",
    "limited_clients",
    "memory_of_sizes",
    "slow_consumers",
    "split_endpoints",
]

_MEBIBYTE = 2**20
_PAUSE = 0.005
_ROUNDS_OF_ALL = 5


def _connect(server: ServerProcess) -> fl.FlightClient:
    return fl.connect(f"grpc://127.0.0.1:{server.flight_port}")


def _readers(client: fl.FlightClient, **command: Any) -> Iterator[fl.FlightStreamReader]:
    """Yield a reader for each endpoint of a command."""
    descriptor = fl.FlightDescriptor.for_command(json.dumps({"table": "t", **command}))
    for endpoint in client.get_flight_info(descriptor).endpoints:
        yield client.do_get(endpoint.ticket)


def _count(reader: fl.FlightStreamReader) -> int:
    return sum(chunk.data.num_rows for chunk in reader)


def _all(client: fl.FlightClient, **command: Any) -> int:
    return sum(map(_count, _readers(client, **command)))


def first_batch(scale: Scale) -> tuple[float, str]:
    """Compare the time to the first batch, of a warm server, with the first file in process."""
    seconds = []
    with running({"t": scale.large}) as server, _connect(server) as client:
        for _ in range(scale.rounds + 2):
            started = time.perf_counter()
            for reader in _readers(client):
                reader.read_chunk()
                seconds.append(time.perf_counter() - started)
                reader.cancel()
            while server.scans():
                time.sleep(_PAUSE)
    ours, theirs = statistics.median(seconds[2:]), in_process_first(scale.large, scale.rounds)
    return ours / theirs, f"{ours * 1e3:.1f} ms against {theirs * 1e3:.1f} ms"


def all_files(scale: Scale) -> tuple[float, str]:
    """Compare reading all file records over Flight with reading them in process."""
    ours, theirs, table = [], [], ld.Table.open(scale.large)
    with running({"t": scale.large}) as server, _connect(server) as client:
        _all(client)
        for _ in range(_ROUNDS_OF_ALL):
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
        for _ in range(_ROUNDS_OF_ALL):
            started = time.perf_counter()
            total = _all(one)
            alone.append(time.perf_counter() - started)
            started = time.perf_counter()
            descriptor = fl.FlightDescriptor.for_command(b'{"table": "t", "endpoints": 2}')
            tickets = [end.ticket for end in one.get_flight_info(descriptor).endpoints]
            shares = pool.map(lambda c, t: _count(c.do_get(t)), (one, other), tickets)
            if (split := sum(shares)) != total:
                raise RuntimeError(f"{split} files in shares, {total} at once")
            together.append(time.perf_counter() - started)
    two, single = statistics.median(together), statistics.median(alone)
    return two / single, f"{two:.2f} s against {single:.2f} s"


def limited_clients(scale: Scale) -> tuple[float, str]:
    """Run 200 clients at the same time that read 100 files each."""
    seconds: list[float] = []
    errors: list[str] = []

    def read(server: ServerProcess) -> None:
        started = time.perf_counter()
        try:
            with _connect(server) as client:
                if (rows := _all(client, limit=100)) != 100:
                    errors.append(f"{rows} rows")
        except (fl.FlightError, OSError, ValueError) as error:
            errors.append(str(error))
        seconds.append(time.perf_counter() - started)

    with running({"t": scale.large}, "scans_per_principal = 500") as server:
        with _connect(server) as client:
            _all(client)
        idle = server.memory()
        threads = [threading.Thread(target=read, args=(server,)) for _ in range(200)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        peak = server.memory("VmHWM")
    figures = (
        f"{len(errors)} errors; p50 {percentile(seconds, 0.5):.2f} s, "
        f"p99 {percentile(seconds, 0.99):.2f} s; RSS {idle / _MEBIBYTE:.0f} -> "
        f"{peak / _MEBIBYTE:.0f} MiB"
    )
    return len(errors), figures + (f"; first error: {errors[0]:.80}" if errors else "")


def slow_consumers(scale: Scale) -> tuple[float, str]:
    """Run 50 clients that take a batch each 10 s; compare memory with what they may hold."""
    batch_bytes, group_bytes = _sizes(scale.large)
    with running({"t": scale.large}) as server:
        with _connect(server) as client:
            _all(client)
        idle = peak = server.memory()
        clients = [_connect(server) for _ in range(50)]
        readers = [reader for client in clients for reader in _readers(client)]
        end = next_batch = time.monotonic()
        end += scale.slow_seconds
        while time.monotonic() < end:
            if time.monotonic() >= next_batch:
                for reader in readers:
                    reader.read_chunk()
                next_batch += 10
            peak = max(peak, server.memory())
            time.sleep(0.2)
        for reader in readers:
            reader.cancel()
        for client in clients:
            client.close()
    allowed = 50 * (2 * batch_bytes + group_bytes)
    figures = (
        f"{(peak - idle) / _MEBIBYTE:.0f} MiB over idle ({idle / _MEBIBYTE:.0f} MiB); allowed "
        f"{allowed / _MEBIBYTE:.0f} MiB = 50 x (2 x {batch_bytes / _MEBIBYTE:.1f} + "
        f"{group_bytes / _MEBIBYTE:.1f})"
    )
    return (peak - idle) / allowed, figures


def cancelled(scale: Scale) -> tuple[float, str]:
    """Cancel running scans; measure until slot and open files are free."""
    seconds = []
    with running({"t": scale.large}) as server, _connect(server) as client:
        _all(client)
        server.scans()
        files = server.open_files()
        for _ in range(scale.cancels):
            for reader in _readers(client):
                reader.read_chunk()
                started = time.perf_counter()
                reader.cancel()
                while server.scans():
                    time.sleep(_PAUSE)
                while server.open_files() > files + 1:
                    time.sleep(_PAUSE)
                seconds.append(time.perf_counter() - started)
    p99 = percentile(seconds, 0.99)
    return p99, f"p50 {percentile(seconds, 0.5):.3f} s, p99 {p99:.3f} s, {len(seconds)} times"


def memory_of_sizes(scale: Scale) -> tuple[float, str]:
    """Compare the peak memory of a server that streams all files of a small and a large table."""
    peaks = []
    for path in (scale.small, scale.largest):
        with running({"t": path}) as server, _connect(server) as client:
            _all(client)
            _all(client)
            peaks.append(server.memory("VmHWM"))
    small, large = (peak / _MEBIBYTE for peak in peaks)
    return large / small, f"{large:.0f} MiB against {small:.0f} MiB"


def _sizes(path: Path) -> tuple[int, int]:
    """Return the bytes of the largest batch, and of what a row group of the checkpoint becomes."""
    with ld.Table.open(path).scan().resumable_files(records=FileRecords()) as delivered:
        sizes = [(batch.nbytes, batch.num_rows) for batch, _ in delivered]
    batch = max(size for size, _ in sizes)
    total, rows = sum(size for size, _ in sizes), sum(count for _, count in sizes)
    return batch, round(total / rows * 16_384)
