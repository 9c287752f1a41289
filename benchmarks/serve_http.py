"""The HTTP cases of `benchmarks.serve`: latency, many and slow clients, cancellation, memory."""

from __future__ import annotations

import http.client
import socket
import statistics
import threading
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import lazydelta as ld
from benchmarks.serve_process import running
from lazydelta.serving.limits import Limits

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.serve import Scale
    from benchmarks.serve_process import ServerProcess

__all__ = [
    "cancelled",
    "first_batch",
    "limited_clients",
    "memory_of_sizes",
    "slow_consumers",
]

_MEBIBYTE = 2**20
_PAUSE = 0.005
_ARROW = "application/vnd.apache.arrow.stream"


def percentile(seconds: list[float], share: float) -> float:
    """Return the value below which this share of the values is."""
    return sorted(seconds)[min(len(seconds) - 1, round(share * (len(seconds) - 1)))]


def connect(server: ServerProcess) -> http.client.HTTPConnection:
    """Return a connection to the HTTP server."""
    address = urlsplit(server.url)
    return http.client.HTTPConnection(address.hostname or "", address.port, timeout=120)


def _stream(connection: http.client.HTTPConnection, path: str) -> http.client.HTTPResponse:
    connection.request("GET", path, headers={"Accept": _ARROW})
    answer = connection.getresponse()
    if answer.status != 200:
        raise RuntimeError(f"{path}: {answer.status} {answer.read(300)!r}")
    return answer


def in_process_first(path: Path, rounds: int) -> float:
    """Return the median time to the first batch of files of a warm table in this process."""
    seconds, table = [], ld.Table.open(path)
    for _ in range(rounds + 2):
        started = time.perf_counter()
        with table.scan(strategy="reverse").file_batches() as batches:
            next(batches)
            seconds.append(time.perf_counter() - started)
    return statistics.median(seconds[2:])


def first_batch(scale: Scale) -> tuple[float, str]:
    """Compare the time to the first batch, of a warm server, with the first file in process."""
    seconds = []
    with running({"t": scale.large}) as server:
        for _ in range(scale.rounds + 2):
            connection = connect(server)
            started = time.perf_counter()
            answer = _stream(connection, "/v1/tables/t/files")
            answer.read(4096)
            seconds.append(time.perf_counter() - started)
            connection.close()
    ours, theirs = statistics.median(seconds[2:]), in_process_first(scale.large, scale.rounds)
    return ours / theirs, f"{ours * 1e3:.1f} ms against {theirs * 1e3:.1f} ms"


def limited_clients(scale: Scale) -> tuple[float, str]:
    """Run 200 clients at the same time that read 100 files each."""
    seconds: list[float] = []
    errors: list[str] = []

    def client(server: ServerProcess) -> None:
        started = time.perf_counter()
        try:
            connection = connect(server)
            body = _stream(connection, "/v1/tables/t/files?limit=100").read()
            connection.close()
            if b"end" not in body[-2000:]:
                errors.append("no end")
        except (OSError, RuntimeError, http.client.HTTPException) as error:
            errors.append(str(error))
        seconds.append(time.perf_counter() - started)

    with running({"t": scale.large}, "scans_per_principal = 400") as server:
        _drained(server)
        idle = server.memory()
        threads = [threading.Thread(target=client, args=(server,)) for _ in range(200)]
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
        _drained(server)
        idle = server.memory()
        sockets = [_slow_connection(server) for _ in range(50)]
        peak, end = idle, time.monotonic() + scale.slow_seconds
        next_batch = time.monotonic()
        while time.monotonic() < end:
            if time.monotonic() >= next_batch:
                for sock in sockets:
                    _take(sock, batch_bytes)
                next_batch += 10
            peak = max(peak, server.memory())
            time.sleep(0.2)
        for sock in sockets:
            sock.close()
    allowed = 50 * (2 * batch_bytes + group_bytes)
    figures = (
        f"{(peak - idle) / _MEBIBYTE:.0f} MiB over idle ({idle / _MEBIBYTE:.0f} MiB); allowed "
        f"{allowed / _MEBIBYTE:.0f} MiB = 50 x (2 x {batch_bytes / _MEBIBYTE:.1f} + "
        f"{group_bytes / _MEBIBYTE:.1f})"
    )
    return (peak - idle) / allowed, figures


def cancelled(scale: Scale) -> tuple[float, str]:
    """Disconnect from running scans; measure until slot and open files are free."""
    seconds = []
    with running({"t": scale.large}) as server:
        _drained(server)
        files = server.open_files()
        for _ in range(scale.cancels):
            connection = connect(server)
            _stream(connection, "/v1/tables/t/files").read(4096)
            started = time.perf_counter()
            connection.close()
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
        with running({"t": path}) as server:
            _drained(server)
            _drained(server)
            peaks.append(server.memory("VmHWM"))
    small, large = (peak / _MEBIBYTE for peak in peaks)
    return large / small, f"{large:.0f} MiB against {small:.0f} MiB"


def _drained(server: ServerProcess) -> None:
    """Read a whole stream of files."""
    connection = connect(server)
    answer = _stream(connection, "/v1/tables/t/files")
    while answer.read(_MEBIBYTE):
        pass
    connection.close()


def _sizes(path: Path) -> tuple[int, int]:
    """Return the bytes of the largest batch, and of what a row group of the checkpoint becomes."""
    config = ld.Config(batch_rows=Limits().batch_files)
    with ld.Table.open(path, config=config).scan().resumable_files() as delivered:
        sizes = [(batch.nbytes, batch.num_rows) for batch, _ in delivered]
    batch = max(size for size, _ in sizes)
    total, rows = sum(size for size, _ in sizes), sum(count for _, count in sizes)
    return batch, round(total / rows * 16_384)


def _slow_connection(server: ServerProcess) -> socket.socket:
    address = urlsplit(server.url)
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
    sock.connect((address.hostname, address.port))
    sock.sendall(
        f"GET /v1/tables/t/files HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: {_ARROW}\r\n\r\n".encode()
    )
    if b" 200 " not in sock.recv(64, socket.MSG_WAITALL):
        raise RuntimeError("a slow client was refused")
    return sock


def _take(sock: socket.socket, count: int) -> None:
    while count > 0:
        data = sock.recv(min(count, 65_536))
        if not data:
            return
        count -= len(data)
