"""The operation of each engine per workload: `python -m benchmarks.engines ENGINE WORKLOAD PATH`.

One process, one operation: imports are timed separately, then the clock starts. The result goes to
standard output as one line of JSON. This module lists files with lazydelta and its peers;
`row_engines` reads rows.
"""

from __future__ import annotations

import importlib
import json
import resource
import sys
import time
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.clock import Clock, Sample, count_batches, load_lazydelta, storage_options
from benchmarks.row_engines import ROW_OPERATIONS, lazydelta_scan

if TYPE_CHECKING:
    from benchmarks.clock import Operation

__all__ = ["LIMIT", "OPERATIONS", "memory_of_process", "run"]

LIMIT = 100
"""Of the workload `first`."""
_DAY = date(2026, 3, 1)  # `spec.FILTER_DAY`
_NO_DAY = date(2019, 3, 1)


# --- lazydelta ------------------------------------------------------------------------------------


def _lazydelta(*, limit: int | None = None, **scan: Any) -> Operation:
    def operation(path: str, clock: Clock) -> int:
        batches = lazydelta_scan(path, clock, **scan).file_batches(limit=limit)
        return count_batches(batches, clock)

    return operation


def _lazydelta_objects(path: str, clock: Clock) -> int:
    count = 0
    for _ in lazydelta_scan(path, clock).files():
        clock.first()
        count += 1
    return count


# --- deltalake ------------------------------------------------------------------------------------


def _deltalake_open(path: str, clock: Clock) -> int:
    from deltalake import DeltaTable

    DeltaTable(path, storage_options=storage_options())
    clock.first()
    return 0


def _deltalake_actions(path: str, clock: Clock) -> int:
    from deltalake import DeltaTable

    rows = int(DeltaTable(path, storage_options=storage_options()).get_add_actions().num_rows)
    clock.first()
    return rows


def _deltalake_uris(predicate: Any = None) -> Operation:
    def operation(path: str, clock: Clock) -> int:
        from deltalake import DeltaTable

        uris = DeltaTable(path, storage_options=storage_options()).file_uris(
            file_pruning_predicate=predicate
        )
        clock.first()
        return len(uris)

    return operation


def _deltalake_rows(path: str, clock: Clock) -> int:
    from deltalake import DeltaTable

    return count_batches(
        DeltaTable(path, storage_options=storage_options()).scan(
            columns=["id"], predicate="id < -1"
        ),
        clock,
    )


# --- Polars ---------------------------------------------------------------------------------------


def _polars_plan(path: str, clock: Clock) -> int:
    import polars as pl

    pl.scan_delta(path, storage_options=storage_options()).explain()
    clock.first()
    return 0


def _polars_partition_plan(path: str, clock: Clock) -> int:
    import polars as pl

    pl.scan_delta(path, storage_options=storage_options()).filter(pl.col("date") == _DAY).explain()
    clock.first()
    return 0


def _polars_rows(path: str, clock: Clock) -> int:
    import polars as pl

    height = (
        pl.scan_delta(path, storage_options=storage_options())
        .filter(pl.col("id") < -1)
        .collect()
        .height
    )
    clock.first()
    return height


# --- raw pyarrow: the same columns of the same checkpoint and nothing done with them --------------

_COLUMNS = [
    "add.path",
    "add.partitionValues",
    "add.size",
    "add.modificationTime",
    "add.deletionVector",
]


def _raw(path: str, clock: Clock) -> int:
    import pyarrow.parquet as pq

    log = Path(path) / "_delta_log"
    rows = 0
    for name in sorted([*log.glob("*.checkpoint*.parquet"), *log.glob("_sidecars/*.parquet")]):
        file = pq.ParquetFile(name, pre_buffer=False, buffer_size=1 << 20)
        for batch in file.iter_batches(65_536, columns=_COLUMNS):
            clock.first()
            adds = batch.column("add").field("path")
            rows += len(adds) - adds.null_count
    return rows


_SETTLE_SECONDS = 0.1
"""After imports: threads that they start (numpy's for algebra) keep a core busy for some 20 ms."""

_IMPORTS = {
    "lazydelta": ["lazydelta"],
    "deltalake": ["deltalake"],
    "polars": ["polars", "deltalake"],
    "lazydelta_decoder": ["pyarrow", "lazydelta_decoder"],
    "pyarrow": ["pyarrow", "pyarrow.parquet"],
}
_VARIANT_IMPORTS = {
    "dataset": ["pyarrow.dataset"],
    "get_add_actions": ["pyarrow", "pyarrow.compute"],
    "to_pyarrow_table": ["pyarrow", "pyarrow.dataset"],
}

OPERATIONS: dict[str, dict[str, Operation]] = {
    "lazydelta": {
        "first": _lazydelta(limit=LIMIT),
        "all": _lazydelta(),
        "all: objects": _lazydelta_objects,
        "all: reverse": _lazydelta(strategy="reverse"),
        "all: forward": _lazydelta(strategy="forward"),
        "partition": _lazydelta(where=f"date = '{_DAY}'"),
        "nothing": _lazydelta(where="id < -1"),
        "nothing: partition": _lazydelta(where=f"date = '{_NO_DAY}'"),
    },
    "deltalake": {
        "open": _deltalake_open,
        "all": _deltalake_actions,
        "all: file_uris": _deltalake_uris(),
        "partition": _deltalake_uris([("date", "=", str(_DAY))]),
        "nothing": _deltalake_uris("id < -1"),
        "nothing: scan": _deltalake_rows,
        "nothing: partition": _deltalake_uris([("date", "=", str(_NO_DAY))]),
    },
    "polars": {
        "all": _polars_plan,
        "partition": _polars_partition_plan,
        "nothing": _polars_rows,
    },
    "lazydelta_decoder": {},
    "pyarrow": {"all": _raw},
}
"""Engine, workload, and the code a user of the engine would write. A variant follows `:`."""


def memory_of_process(key: str) -> int:
    """Return a memory figure of this process in bytes, from the kernel's own account."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:  # not Linux: the peak is all there is
        scale = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))


def _io() -> tuple[int, int]:
    """Return the bytes and calls of all reads of this process; mapped memory is not in it."""
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
    except OSError:
        return 0, 0
    account = {line.split(":")[0]: int(line.split(":")[1]) for line in lines}
    return account["rchar"], account["syscr"]


def run(engine: str, workload: str, path: str, *, accounting: bool = False) -> Sample:
    """Run one operation in this process and measure it.

    With `accounting`, lazydelta's requests are counted too; the time of such a run is not used.
    """
    sample = Sample()
    operation = (OPERATIONS[engine] | ROW_OPERATIONS[engine])[workload]
    before = time.perf_counter()
    variant = workload.partition(": ")[2]
    for module in [*_IMPORTS[engine], *_VARIANT_IMPORTS.get(variant, [])]:
        importlib.import_module(module)
    if engine == "lazydelta":
        load_lazydelta()
    sample.import_seconds = time.perf_counter() - before
    time.sleep(_SETTLE_SECONDS)
    sample.base_rss = memory_of_process("VmRSS")
    read_before = _io()
    clock = Clock(accounting=accounting)
    try:
        sample.count = operation(path, clock)
    except Exception as error:  # noqa: BLE001 - a peer that fails is a result, not an accident
        sample.error = f"{type(error).__name__}: {error}".split("\n")[0][:300]
    sample.total_seconds = clock.total_seconds
    sample.first_seconds = clock.first_seconds
    sample.read_bytes, sample.read_calls = (
        after - start for after, start in zip(_io(), read_before, strict=True)
    )
    sample.peak_rss = memory_of_process("VmHWM")
    sample.requests, sample.request_bytes = clock.account.requests, clock.account.bytes
    return sample


if __name__ == "__main__":
    print(json.dumps(asdict(run(*sys.argv[1:4], accounting="--account" in sys.argv[4:]))))
