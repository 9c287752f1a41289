"""`python -m benchmarks.writes`: measure writing, and write its page.

Appends, large, small and concurrent, against deltalake and plain pyarrow; then checkpoints
(`benchmarks.checkpoints`). Every measurement is a separate process, and the engines alternate, so
that a busy minute of the machine affects all of them.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from benchmarks.checkpoints import checkpoint_verdicts
from benchmarks.page import PAGES, write_page
from benchmarks.rows import file_rows
from benchmarks.spec import RowsSpec
from benchmarks.suites import SPARK_LIKE
from benchmarks.write_report import draw_writes, write_section

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.write_report import Samples

__all__ = ["main"]

_ROWS_PER_FILE = 100_000
_SMALL_ROWS = 100
_EDGE = 50
"""Small appends are compared at number 50 and at the last, each as a mean of neighbours."""
_WRITERS = 8
_ATTEMPTS = 100
"""Attempts of one commit, for both engines; lazydelta's default."""
_PICTURE = Path("img/benchmarks-writes.svg")


def _lazydelta(table: Path, rows: pa.Table, partitioned: bool) -> None:
    import lazydelta as ld

    ld.write(table, rows, "append", partition_by="day" if partitioned else None)


def _deltalake(table: Path, rows: pa.Table, partitioned: bool) -> None:
    import deltalake

    columns = ["day"] if partitioned else None
    retries = deltalake.CommitProperties(max_commit_retries=_ATTEMPTS)
    deltalake.write_deltalake(
        table, rows, mode="append", partition_by=columns, commit_properties=retries
    )


def _pyarrow(table: Path, rows: pa.Table, partitioned: bool) -> None:
    import pyarrow.dataset as pads

    layout = pads.partitioning(pa.schema([rows.schema.field("day")]), flavor="hive")
    pads.write_dataset(rows, table, format="parquet", partitioning=layout if partitioned else None)


_ENGINES: dict[str, Callable[[Path, pa.Table, bool], None]] = {
    "lazydelta": _lazydelta,
    "deltalake": _deltalake,
    "pyarrow": _pyarrow,
}
_WORKLOADS = ("large", "partitioned", "small", "race")
_ONLY_TABLES = ("small", "race")
"""Workloads that need a log."""


def _rows(count: int) -> pa.Table:
    spec = RowsSpec(files=max(count // _ROWS_PER_FILE, 1), rows_per_file=min(count, _ROWS_PER_FILE))
    return pa.concat_tables([file_rows(spec, number) for number in range(spec.files)])


def _child(engine: str, workload: str, rows: int, appends: int, folder: Path) -> dict[str, Any]:
    """Measure one engine in this process."""
    append, table = _ENGINES[engine], folder / "table"
    if workload == "race":
        return _race(engine, appends, table)
    data = _rows(_SMALL_ROWS if workload == "small" else rows)
    append(folder / "warm-up", data.slice(0, 10), False)  # imports are not measured
    seconds = []
    for _ in range(appends if workload == "small" else 1):
        began = time.perf_counter()
        append(table, data, workload == "partitioned")
        seconds.append(time.perf_counter() - began)
    found: dict[str, Any] = {"total": sum(seconds), "appends": len(seconds)}
    if len(seconds) >= _EDGE + 10:
        found["at_50"] = statistics.median(seconds[_EDGE - 10 : _EDGE + 10])
        found["at_end"] = statistics.median(seconds[-20:])
    return found


def _race(engine: str, appends: int, table: Path) -> dict[str, Any]:
    """Append from several processes; every append that succeeded must be in the table once.

    Time is that of the requested appends, at the rate of the successful ones.
    """
    data = _rows(_SMALL_ROWS)
    _ENGINES[engine](table, data, False)
    spawned = multiprocessing.get_context("spawn")
    barrier, results = spawned.Barrier(_WRITERS), spawned.Queue()
    writers = [
        spawned.Process(target=_racer, args=(engine, appends, table, barrier, results))
        for _ in range(_WRITERS)
    ]
    for writer in writers:
        writer.start()
    spans = [results.get(timeout=3600) for _ in writers]
    for writer in writers:
        writer.join()
    requested, done = _WRITERS * appends, sum(done for *_, done in spans)
    expected = (done + 1) * _SMALL_ROWS
    import lazydelta as ld

    if (found := ld.Table.open(table).scan().count()) != expected:
        raise RuntimeError(f"{engine} has {found} rows, and {expected} were appended")
    seconds = max(end for _, end, _ in spans) - min(start for start, *_ in spans)
    return {"total": seconds * requested / done, "appends": requested, "failed": requested - done}


def _racer(engine: str, appends: int, table: Path, barrier: Any, results: Any) -> None:
    append, data = _ENGINES[engine], _rows(_SMALL_ROWS)
    append(Path(f"{table}-{os.getpid()}"), data, False)  # imports are not measured
    barrier.wait()
    start, done = time.monotonic(), 0
    for _ in range(appends):
        try:
            append(table, data, False)
            done += 1
        except Exception as error:  # noqa: BLE001 - a peer gives up now and then; it is counted
            print(f"{engine}: {error}", file=sys.stderr)
    results.put((start, time.monotonic(), done))


def _measured(engine: str, workload: str, options: argparse.Namespace) -> dict[str, Any]:
    """Measure one engine in a child process."""
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    appends = options.appends // 5 if workload == "race" else options.appends
    knobs = [str(options.rows), str(appends), str(folder)]
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
    print(f"{workload:12} {engine:10} {found['total']:8.2f} s", file=sys.stderr, flush=True)
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.writes", description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000, help="of a large append")
    parser.add_argument(
        "--appends", type=int, default=500, help="small ones; a fifth in each concurrent process"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workload", choices=(*_WORKLOADS, "checkpoint"), action="append")
    parser.add_argument("--folder", help="parent of the tables; default: the temporary one")
    parser.add_argument("--quick", action="store_true", help="a small run")
    parser.add_argument(
        "--docs",
        type=Path,
        help="write the page there; default: docs/benchmarks/, unless quick or partial",
    )
    return parser


def main(arguments: list[str] | None = None) -> None:
    """Run as a command."""
    options = _parser().parse_args(arguments)
    files = SPARK_LIKE.files
    if options.quick:
        options.rows, options.appends, options.rounds, files = 2_000_000, 100, 1, 100_000
    wanted = options.workload or (*_WORKLOADS, "checkpoint")
    when = f"{datetime.now(UTC).date()}, load average {os.getloadavg()[0]:.1f} at the start"
    samples: Samples = {}
    for workload in (name for name in _WORKLOADS if name in wanted):
        engines = [e for e in _ENGINES if e != "pyarrow" or workload not in _ONLY_TABLES]
        samples[workload] = {engine: [] for engine in engines}
        for _, engine in product(range(options.rounds), engines):
            samples[workload][engine].append(_measured(engine, workload, options))
    checkpoints = checkpoint_verdicts(files, options.rounds) if "checkpoint" in wanted else []
    section = write_section(samples, checkpoints, when=when, picture=_PICTURE)
    print(section)
    is_whole = not options.quick and options.workload is None
    docs: Path | None = options.docs or (PAGES if is_whole else None)
    if docs is not None:
        write_page(docs, "writing", section)
        draw_writes(samples, docs / _PICTURE)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        name, kind, count, times, where = sys.argv[2:]
        print(json.dumps(_child(name, kind, int(count), int(times), Path(where))))
    else:
        main()
