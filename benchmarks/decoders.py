"""What decoding alone costs: `python -m benchmarks.decoders`, the figures of docs/adr/0014.

Every Parquet decoder that Python can call reads the data files of the table of rows: no log, no
deletion vectors, all rows kept. Each run is a separate process, and rounds are interleaved. CPU
time is reported beside wall time: other work on the machine changes it less. lazydelta and
deltalake read the same files as a table.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.clock import Clock
from benchmarks.row_engines import ROW_OPERATIONS
from benchmarks.spec import RowsSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Read = Callable[[Path], int]

__all__ = ["DECODERS", "main", "measured"]

_BATCH_ROWS = 131_072
_THREADS = 2
_FIGURES = ("wall", "user", "system")


def _paths(table: Path) -> list[str]:
    return sorted(map(str, table.glob("*.parquet")))


def _pyarrow_files(table: Path) -> int:
    """As lazydelta does: files in parallel, into the system memory pool."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    batches: list[Any] = []
    left = iter(_paths(table))
    pulling = threading.Lock()

    def read() -> None:
        while True:
            with pulling:
                path = next(left, None)
            if path is None:
                return
            reader = pq.ParquetReader(pa.system_memory_pool())
            reader.open(path, buffer_size=1 << 20)
            groups = list(range(reader.metadata.num_row_groups))
            batches.extend(reader.iter_batches(_BATCH_ROWS, row_groups=groups))

    workers = [threading.Thread(target=read) for _ in range(_THREADS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return int(pa.Table.from_batches(batches).num_rows)


def _pyarrow_dataset(*, system_pool: bool) -> Read:
    def read(table: Path) -> int:
        import pyarrow as pa
        import pyarrow.dataset as ds

        pool = pa.system_memory_pool() if system_pool else pa.default_memory_pool()
        return int(ds.dataset(_paths(table), format="parquet").to_table(memory_pool=pool).num_rows)

    return read


def _polars(*, to_arrow: bool) -> Read:
    def read(table: Path) -> int:
        import polars as pl

        frame = pl.read_parquet(_paths(table))
        if to_arrow:  # with plain Arrow strings
            return int(frame.to_arrow(compat_level=pl.CompatLevel.oldest()).num_rows)
        return int(frame.height)

    return read


def _duckdb(table: Path) -> int:
    import duckdb

    return int(duckdb.connect().read_parquet(_paths(table)).to_arrow_table().num_rows)


def _datafusion(table: Path) -> int:
    from datafusion import SessionContext

    batches = SessionContext().read_parquet(str(table)).collect()
    return sum(int(batch.num_rows) for batch in batches)


def _arro3(table: Path) -> int:
    from arro3.io import read_parquet

    tables = [read_parquet(path).read_all() for path in _paths(table)]
    return sum(int(part.num_rows) for part in tables)


def _engine(name: str, workload: str) -> Read:
    def read(table: Path) -> int:
        return ROW_OPERATIONS[name][workload](str(table), Clock(accounting=False))

    return read


DECODERS: dict[str, tuple[str, Read]] = {
    "lazydelta": ("lazydelta", _engine("lazydelta", "read")),
    "lazydelta, views": ("lazydelta", _engine("lazydelta", "read: views")),
    "pyarrow, parallel files, system pool": ("pyarrow.parquet", _pyarrow_files),
    "pyarrow dataset, system pool": ("pyarrow.dataset", _pyarrow_dataset(system_pool=True)),
    "pyarrow dataset, default pool": ("pyarrow.dataset", _pyarrow_dataset(system_pool=False)),
    "deltalake QueryBuilder": ("deltalake", _engine("deltalake", "read: QueryBuilder")),
    "deltalake to_pyarrow_table": ("deltalake", _engine("deltalake", "read: to_pyarrow_table")),
    "datafusion": ("datafusion", _datafusion),
    "arro3.io": ("arro3.io", _arro3),
    "polars, its own strings": ("polars", _polars(to_arrow=False)),
    "polars, Arrow strings": ("polars", _polars(to_arrow=True)),
    "duckdb": ("duckdb", _duckdb),
}
"""Name, imports before the clock starts, and the function that reads all files."""


def measured(name: str, table: Path) -> dict[str, float]:
    """Read all files once in this process; return rows, seconds and page faults."""
    module, read = DECODERS[name]
    __import__(module)
    before, start = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    rows = read(table)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF)
    return {
        "rows": rows,
        "wall": wall,
        "user": after.ru_utime - before.ru_utime,
        "system": after.ru_stime - before.ru_stime,
        "faults": after.ru_minflt - before.ru_minflt,
    }


def _child(name: str, table: Path) -> dict[str, float] | None:
    command = [sys.executable, "-m", "benchmarks.decoders", "--only", name, "--table", str(table)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        print(f"{name}: not measured: {reason}", file=sys.stderr)
        return None
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _markdown(runs: dict[str, list[dict[str, float]]]) -> str:
    lines = ["| decoder | wall s | user s | system s | 1000 page faults |", "|---|---|---|---|---|"]
    for name, samples in runs.items():
        if not samples:
            continue
        best = [f"{min(sample[figure] for sample in samples):.2f}" for figure in _FIGURES]
        faults = min(sample["faults"] for sample in samples) / 1000
        lines.append(f"| {name} | {' | '.join(best)} | {faults:.0f} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure every decoder and print the best of each figure; 1 if a count is wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.decoders", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="runs of each; default 3")
    parser.add_argument("--table", type=Path, help="default: 200 files, 20 M rows")
    parser.add_argument("--only", choices=DECODERS, help="run this one here, print JSON")
    options = parser.parse_args(arguments)
    if options.only:
        print(json.dumps(measured(options.only, options.table)))
        return 0
    table = options.table or _default_table()
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in DECODERS}
    for _ in range(options.rounds):
        for name, samples in runs.items():
            sample = _child(name, table)
            if sample is not None:
                samples.append(sample)
    print(_markdown(runs))
    return int(len({sample["rows"] for samples in runs.values() for sample in samples}) > 1)


def _default_table() -> Path:
    from benchmarks.generate import table_for  # not in the children: slow to import

    return table_for(RowsSpec())


if __name__ == "__main__":
    sys.exit(main())
