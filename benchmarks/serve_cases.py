"""The cases of `benchmarks.serve` for either server: latency, clients, cancellation, memory."""

from __future__ import annotations

import statistics
import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

import lazydelta as ld
from benchmarks.serve_process import running
from lazydelta.scan import FileRecords
from lazydelta.serving.limits import Limits

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from benchmarks.serve import Scale
    from benchmarks.serve_clients import RunningScan
    from benchmarks.serve_process import ServerProcess

    Client: TypeAlias = Callable[..., RunningScan]

__all__ = ["cancelled", "first_batch", "limited_clients", "memory_of_sizes", "slow_consumers"]

_MEBIBYTE = 2**20
_PAUSE = 0.005
_FIRST_BYTES = 4096
_CLIENTS = 200
_SLOW_CLIENTS = 50
_ROW_GROUP = 16_384


def _percentile(seconds: list[float], share: float) -> float:
    """Return the value below which this share of the values is."""
    return sorted(seconds)[min(len(seconds) - 1, round(share * (len(seconds) - 1)))]


def _first_in_process(path: Path, rounds: int) -> float:
    """Return the median time to the first batch of files of a warm table in this process."""
    seconds, table = [], ld.Table.open(path)
    for _ in range(rounds + 2):
        started = time.perf_counter()
        with table.scan(strategy="reverse").file_batches() as batches:
            next(batches)
            seconds.append(time.perf_counter() - started)
    return statistics.median(seconds[2:])


def first_batch(client: Client, scale: Scale) -> tuple[float, str]:
    """Compare the time to the first batch, of a warm server, with the first file in process."""
    seconds = []
    with running({"t": scale.large}) as server:
        for _ in range(scale.rounds + 2):
            started = time.perf_counter()
            with closing(client(server)) as scan:
                scan.batch(_FIRST_BYTES)
                seconds.append(time.perf_counter() - started)
            _wait_until_free(server)
    ours, theirs = statistics.median(seconds[2:]), _first_in_process(scale.large, scale.rounds)
    return ours / theirs, f"{ours * 1e3:.1f} ms against {theirs * 1e3:.1f} ms"


def limited_clients(client: Client, scale: Scale) -> tuple[float, str]:
    """Run many clients at the same time that read 100 files each."""
    seconds: list[float] = []
    errors: list[str] = []

    def read(server: ServerProcess) -> None:
        started = time.perf_counter()
        try:
            with closing(client(server, limit=100)) as scan:
                scan.rest()
        except (OSError, RuntimeError, ValueError, pa.ArrowException) as error:
            errors.append(str(error))
        seconds.append(time.perf_counter() - started)

    with running({"t": scale.large}, f"scans_per_principal = {2 * _CLIENTS}") as server:
        _read_all(client, server)
        idle = server.memory()
        threads = [threading.Thread(target=read, args=(server,)) for _ in range(_CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        peak = server.memory("VmHWM")
    figures = (
        f"{len(errors)} errors; p50 {_percentile(seconds, 0.5):.2f} s, "
        f"p99 {_percentile(seconds, 0.99):.2f} s; RSS {idle / _MEBIBYTE:.0f} -> "
        f"{peak / _MEBIBYTE:.0f} MiB"
    )
    return len(errors), figures + (f"; first error: {errors[0]:.80}" if errors else "")


def slow_consumers(client: Client, scale: Scale) -> tuple[float, str]:
    """Run clients that take a batch each 10 s; compare memory with what they may hold."""
    batch_bytes, group_bytes = _sizes(scale.large)
    with running({"t": scale.large}) as server:
        _read_all(client, server)
        idle = peak = server.memory()
        scans = [client(server) for _ in range(_SLOW_CLIENTS)]
        next_batch = time.monotonic()
        end = next_batch + scale.slow_seconds
        while time.monotonic() < end:
            if time.monotonic() >= next_batch:
                for scan in scans:
                    scan.batch(batch_bytes)
                next_batch += 10
            peak = max(peak, server.memory())
            time.sleep(0.2)
        for scan in scans:
            scan.close()
    allowed = _SLOW_CLIENTS * (2 * batch_bytes + group_bytes)
    figures = (
        f"{(peak - idle) / _MEBIBYTE:.0f} MiB over idle ({idle / _MEBIBYTE:.0f} MiB); allowed "
        f"{allowed / _MEBIBYTE:.0f} MiB = {_SLOW_CLIENTS} x (2 x {batch_bytes / _MEBIBYTE:.1f} + "
        f"{group_bytes / _MEBIBYTE:.1f})"
    )
    return (peak - idle) / allowed, figures


def cancelled(client: Client, scale: Scale) -> tuple[float, str]:
    """Cancel running scans; measure until slot and open files are free."""
    seconds = []
    with running({"t": scale.large}) as server:
        _read_all(client, server)
        _wait_until_free(server)
        files = server.open_files()
        for _ in range(scale.cancels):
            scan = client(server)
            scan.batch(_FIRST_BYTES)
            started = time.perf_counter()
            scan.close()
            _wait_until_free(server)
            while server.open_files() > files + 1:
                time.sleep(_PAUSE)
            seconds.append(time.perf_counter() - started)
    p99 = _percentile(seconds, 0.99)
    return p99, f"p50 {_percentile(seconds, 0.5):.3f} s, p99 {p99:.3f} s, {len(seconds)} times"


def memory_of_sizes(client: Client, scale: Scale) -> tuple[float, str]:
    """Compare the peak memory of a server that streams all files of a small and a large table."""
    peaks = []
    for path in (scale.small, scale.largest):
        with running({"t": path}) as server:
            _read_all(client, server)
            peaks.append(server.memory("VmHWM"))
    small, large = (peak / _MEBIBYTE for peak in peaks)
    return large / small, f"{large:.0f} MiB against {small:.0f} MiB"


def _read_all(client: Client, server: ServerProcess) -> None:
    with closing(client(server)) as scan:
        scan.rest()


def _wait_until_free(server: ServerProcess) -> None:
    while server.scans():
        time.sleep(_PAUSE)


def _sizes(path: Path) -> tuple[int, int]:
    """Return the bytes of the largest batch, and of what a row group of the checkpoint becomes."""
    table = ld.Table.open(path, config=ld.Config(batch_rows=Limits().batch_files))
    with table.scan().resumable_files(records=FileRecords()) as delivered:
        sizes = [(batch.nbytes, batch.num_rows) for batch, _ in delivered]
    batch = max(size for size, _ in sizes)
    total, rows = sum(size for size, _ in sizes), sum(count for _, count in sizes)
    return batch, round(total / rows * _ROW_GROUP)
