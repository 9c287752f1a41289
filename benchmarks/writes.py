"""`python -m benchmarks.writes`: appends, large and small, against deltalake and plain pyarrow.

Every measurement is a process of its own, and the engines take turns, so that a slow minute of the
machine hurts all of them. Prints medians and ratios; keeps nothing.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from benchmarks.rows import file_rows
from benchmarks.spec import RowsSpec

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["main"]

_ROWS_PER_FILE = 100_000
_SMALL_ROWS = 100
_EDGE = 50
"""Small appends are compared at number 50 and at the last, each with its neighbours."""


def _lazydelta(table: Path, rows: pa.Table, partitioned: bool) -> None:
    import lazydelta as ld

    ld.write(table, rows, "append", partition_by="day" if partitioned else None)


def _deltalake(table: Path, rows: pa.Table, partitioned: bool) -> None:
    import deltalake

    columns = ["day"] if partitioned else None
    deltalake.write_deltalake(table, rows, mode="append", partition_by=columns)


def _pyarrow(table: Path, rows: pa.Table, partitioned: bool) -> None:
    import pyarrow.dataset as pads

    layout = pads.partitioning(pa.schema([rows.schema.field("day")]), flavor="hive")
    pads.write_dataset(rows, table, format="parquet", partitioning=layout if partitioned else None)


_ENGINES: dict[str, Callable[[Path, pa.Table, bool], None]] = {
    "lazydelta": _lazydelta,
    "deltalake": _deltalake,
    "pyarrow": _pyarrow,
}
_WORKLOADS = ("large", "partitioned", "small")


def _rows(count: int) -> pa.Table:
    spec = RowsSpec(files=max(count // _ROWS_PER_FILE, 1), rows_per_file=min(count, _ROWS_PER_FILE))
    return pa.concat_tables([file_rows(spec, number) for number in range(spec.files)])


def _child(engine: str, workload: str, rows: int, appends: int, folder: Path) -> dict[str, Any]:
    """Measure one engine in this process."""
    append, table = _ENGINES[engine], folder / "table"
    data = _rows(_SMALL_ROWS if workload == "small" else rows)
    append(folder / "warm-up", data.slice(0, 10), False)  # imports are not what is measured
    seconds = []
    for _ in range(appends if workload == "small" else 1):
        began = time.perf_counter()
        append(table, data, workload == "partitioned")
        seconds.append(time.perf_counter() - began)
    found = {"total": sum(seconds)}
    if len(seconds) >= _EDGE + 10:
        found["at_50"] = statistics.median(seconds[_EDGE - 10 : _EDGE + 10])
        found["at_end"] = statistics.median(seconds[-20:])
    return found


def _measured(engine: str, workload: str, options: argparse.Namespace) -> dict[str, Any]:
    """Measure one engine in a child process."""
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    knobs = [str(options.rows), str(options.appends), str(folder)]
    try:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.writes", "--child", engine, workload, *knobs],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
    finally:
        shutil.rmtree(folder)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _report(workload: str, samples: dict[str, list[dict[str, Any]]]) -> None:
    def median(engine: str, key: str) -> float:
        return statistics.median(sample[key] for sample in samples[engine])

    ours = median("lazydelta", "total")
    for engine in samples:
        total = median(engine, "total")
        print(
            f"{workload:12} {engine:10} {total:8.2f} s   lazydelta / {engine}: {ours / total:.2f}"
        )
    if "at_end" in samples["lazydelta"][0]:
        growth = median("lazydelta", "at_end") / median("lazydelta", "at_50")
        print(f"{workload:12} the last append / append {_EDGE}: {growth:.2f}")


def main(arguments: list[str] | None = None) -> None:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000, help="of a large append")
    parser.add_argument("--appends", type=int, default=500, help="small ones")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workload", choices=_WORKLOADS, action="append")
    parser.add_argument("--folder", help="where tables are made; by default the temporary one")
    parser.add_argument("--quick", action="store_true", help="2 M rows, 100 appends, one round")
    options = parser.parse_args(arguments)
    if options.quick:
        options.rows, options.appends, options.rounds = 2_000_000, 100, 1
    for workload in options.workload or _WORKLOADS:
        engines = [name for name in _ENGINES if (name, workload) != ("pyarrow", "small")]
        samples: dict[str, list[dict[str, Any]]] = {engine: [] for engine in engines}
        for _, engine in product(range(options.rounds), engines):
            samples[engine].append(_measured(engine, workload, options))
        _report(workload, samples)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        name, kind, count, times, where = sys.argv[2:]
        print(json.dumps(_child(name, kind, int(count), int(times), Path(where))))
    else:
        main()
