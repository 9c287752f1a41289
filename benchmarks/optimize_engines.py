"""One measured OPTIMIZE in a process of its own: prints a JSON line.

The clock starts before the table is opened, after the same operation on a small table. Peak memory
is of the whole process; temporary bytes are sampled while it runs.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

__all__ = ["Sample", "run"]

_COLUMNS = ["x", "y"]
_WATCH_SECONDS = 0.1


@dataclass
class Sample:
    """What one run took."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_rss: int = 0
    rss_before: int = 0
    temporary_bytes: int = 0
    rewritten_bytes: int = 0
    depths: dict[str, float] = field(default_factory=dict)
    touched: dict[str, float] = field(default_factory=dict)
    """Share of files that a reader of 1 % of a column opens."""
    error: str = ""


def _lazydelta(operation: str, path: str, target: int) -> int:
    import lazydelta as ld

    table = ld.Table.open(path)
    if operation == "compact":
        result = table.optimize(target_size=target)
    elif operation == "z_order":
        result = table.optimize(z_order=_COLUMNS, target_size=target)
    else:
        if not table.snapshot().clustering_columns():
            table.alter.cluster_by(_COLUMNS)
        result = table.optimize(target_size=target, full=operation == "recluster")
    return result.metrics["numRemovedBytes"]


def _deltalake(operation: str, path: str, target: int) -> int:
    import deltalake

    snappy = deltalake.WriterProperties(compression="SNAPPY")
    optimizer = deltalake.DeltaTable(path).optimize
    if operation == "compact":
        optimizer.compact(target_size=target, writer_properties=snappy)
    else:
        optimizer.z_order(_COLUMNS, target_size=target, writer_properties=snappy)
    return 0


_ENGINES = {"lazydelta": _lazydelta, "deltalake": _deltalake}


def _watch(directory: Path, stop: threading.Event, peak: list[int]) -> None:
    while not stop.wait(_WATCH_SECONDS):
        sizes = []
        for path in directory.rglob("*"):
            try:
                sizes.append(path.stat().st_size if path.is_file() else 0)
            except OSError:  # deleted meanwhile
                continue
        peak[0] = max(peak[0], sum(sizes))


def _rss() -> int:
    """Return the peak memory of this process; `getrusage` has that of its parent at least."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def _warm_up(engine: str, operation: str) -> None:
    """Run the operation on a small table, so that imports and first calls are not measured."""
    import pyarrow as pa

    rows = pa.table({"x": [1, 2], "y": [3, 4]})
    with tempfile.TemporaryDirectory() as directory:
        for _ in range(2):
            if engine == "lazydelta":
                import lazydelta as ld

                ld.write(directory, rows)
            else:
                import deltalake

                deltalake.write_deltalake(directory, rows, mode="append")
        _ENGINES[engine](operation, directory, 1 << 20)


def run(engine: str, operation: str, path: str, target: int) -> Sample:
    """Run an operation on a table and measure it."""
    work = _ENGINES[engine]
    _warm_up(engine, operation)
    with tempfile.TemporaryDirectory() as directory:
        tempfile.tempdir = directory
        stop, peak = threading.Event(), [0]
        watcher = threading.Thread(target=_watch, args=(Path(directory), stop, peak), daemon=True)
        watcher.start()
        before, cpu, clock = _rss(), os.times(), time.perf_counter()
        rewritten = work(operation, path, target)
        seconds, after = time.perf_counter() - clock, os.times()
        stop.set()
        watcher.join()
        tempfile.tempdir = None
    return Sample(
        seconds=seconds,
        cpu_seconds=after.user + after.system - cpu.user - cpu.system,
        peak_rss=_rss(),
        rss_before=before,
        temporary_bytes=peak[0],
        rewritten_bytes=rewritten,
    )


if __name__ == "__main__":
    print(json.dumps(asdict(run(*sys.argv[1:4], int(sys.argv[4])))))
