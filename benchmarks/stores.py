"""`python -m benchmarks.stores`: measure an object store, and write its page.

The store is versitygw on loopback behind `FaultProxy`, which delays every response and records the
requests. Every sample is a separate process, and the engines alternate.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import IO, Any, Self, cast

import deltalake
import pyarrow as pa

import lazydelta
from benchmarks.clock import OPTIONS_VARIABLE
from benchmarks.generate import table_for
from benchmarks.measure import Case
from benchmarks.page import PAGES, write_page
from benchmarks.spec import RowsSpec, TableSpec
from benchmarks.store_report import Results, StoreSample, draw_stores, store_section
from benchmarks.store_writes import append_ids
from lazydelta.testing import FaultProxy
from tests.emulators import servers

__all__ = ["main"]

_ROOT = Path(__file__).resolve().parent.parent
_PICTURE = Path("img/benchmarks-stores.svg")
_TIMEOUT_SECONDS = 600
_LONG_SECONDS = 4.0
"""What takes longer is run once: its noise is relatively small."""
_CHECKPOINT = 190
"""Version of the checkpoint of the table of rows, which has a commit per file."""

_LOG = TableSpec(files=100_000, tail=10)
_LARGE_LOG = replace(_LOG, files=1_000_000)
_ROWS = RowsSpec(files=200, rows_per_file=50_000)
_READS: list[tuple[str, TableSpec | RowsSpec, dict[str, list[str]]]] = [
    ("first", _LOG, {"lazydelta": ["first"], "deltalake": ["all: file_uris"]}),
    ("first of 1 M", _LARGE_LOG, {"lazydelta": ["first"], "deltalake": ["all: file_uris"]}),
    ("cached", _LARGE_LOG, {"lazydelta": ["first"]}),
    ("all", _LOG, {"lazydelta": ["all"], "deltalake": ["all", "all: file_uris"]}),
    ("partition", _LOG, {"lazydelta": ["partition"], "deltalake": ["partition"]}),
    (
        "filter",
        _ROWS,
        {
            "lazydelta": ["filter"],
            "deltalake": ["filter: QueryBuilder", "filter: scan", "filter: to_pyarrow_table"],
            "polars": ["filter"],
        },
    ),
    (
        "point",
        _ROWS,
        {
            "lazydelta": ["point"],
            "deltalake": ["point: QueryBuilder", "point: scan"],
            "polars": ["point"],
        },
    ),
    ("limit", _ROWS, {"lazydelta": ["limit"], "deltalake": ["limit"], "polars": ["limit"]}),
    (
        "read",
        _ROWS,
        {
            "lazydelta": ["read", "read: views"],
            "deltalake": ["read: QueryBuilder", "read: to_pyarrow_table"],
            "polars": ["read"],
        },
    ),
    ("count", _ROWS, {"lazydelta": ["count"], "deltalake": ["count", "count: get_add_actions"]}),
]
_WRITES = {"append": (1, 1), "checkpoint": (1, 1), "appends": (1, 50), "race": (4, 25)}
"""Writers, and the appends of each."""
_WORKLOADS = (*(name for name, *_ in _READS), *_WRITES)


@dataclass(kw_only=True)
class _Store:
    """The running store, directly and behind the proxy."""

    direct: servers.Emulator
    proxy: FaultProxy
    scratch: Path
    numbers: count[int]

    @classmethod
    def start(cls, stack: ExitStack) -> Self:
        direct = stack.enter_context(servers.versitygw())
        proxy = stack.enter_context(FaultProxy(direct.endpoint))
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        return cls(direct=direct, proxy=proxy, scratch=scratch, numbers=count())

    def copy(self, spec: TableSpec | RowsSpec) -> None:
        """Copy a table into the directory of the bucket."""
        where = Path(self.direct.directory, spec.key)
        shutil.copytree(table_for(spec), where)
        if isinstance(spec, RowsSpec):
            _split_commit(where)

    def environment(self) -> dict[str, str]:
        """Return the variables of a child process that uses the proxy."""
        options = self.direct.at(self.proxy.endpoint).options
        paths = [str(_ROOT), str(_ROOT / "src"), os.environ.get("PYTHONPATH", "")]
        return (
            {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
            | {OPTIONS_VARIABLE: json.dumps(options)}
            | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
        )

    def sample(self, seconds: float, problem: str = "") -> StoreSample:
        """Return a sample with the requests since the proxy was cleared."""
        found = self.proxy.summary()
        return StoreSample(
            seconds=seconds,
            requests=found.requests,
            sent=found.sent,
            depth=found.depth,
            problem=problem,
        )


def _split_commit(table: Path) -> None:
    """Give each data file of a table its own commit, and write a checkpoint."""
    log = table / "_delta_log"
    lines = (log / f"{0:020d}.json").read_text().splitlines(keepends=True)
    header = [line for line in lines if not line.startswith('{"add"')]
    adds = [line for line in lines if line.startswith('{"add"')]
    for version, add in enumerate(adds):
        content = "".join([*header, add]) if version == 0 else add
        (log / f"{version:020d}.json").write_text(content)
    deltalake.DeltaTable(table, version=_CHECKPOINT).create_checkpoint()


# --- reads ----------------------------------------------------------------------------------------


def _read(store: _Store, case: Case, cache: Path | None) -> StoreSample:
    """Run one operation in a new process; a failure is a sample with a problem."""
    environment = store.environment()
    if cache is not None:
        environment["LAZYDELTA_CACHE_DIRECTORY"] = str(cache)
    url = f"{store.direct.url}/{case.spec.key}"
    store.proxy.clear()
    done = subprocess.run(
        [sys.executable, "-m", case.module, case.engine, case.workload, url],
        cwd=_ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_SECONDS,
        check=False,
    )
    lines = done.stdout.splitlines()
    if not lines:
        return store.sample(0.0, f"exit {done.returncode}: {done.stderr[-300:]}")
    result = json.loads(lines[-1])
    expected = case.expected_count(json.loads((case.spec.path / "expected.json").read_text()))
    problem = result["error"]
    if not problem and expected not in (None, result["count"]):
        problem = f"counted {result['count']}, expected {expected}"
    return store.sample(result["total_seconds"], problem)


def _measure_read(store: _Store, name: str, case: Case) -> StoreSample:
    if name != "cached":
        return _read(store, case, None)
    with tempfile.TemporaryDirectory(dir=store.scratch) as cache:
        _read(store, case, Path(cache))
        return _read(store, case, Path(cache))


# --- writes ---------------------------------------------------------------------------------------


def _measure_write(store: _Store, name: str, engine: str, appends: int) -> StoreSample:
    """Append from one or several processes; every append must be in the table exactly once."""
    writers = _WRITES[name][0]
    url = f"{store.direct.url}/appends-{next(store.numbers)}"
    properties = {"delta.checkpointInterval": "10"} if name == "checkpoint" else None
    table = lazydelta.Table.create(
        url, "id bigint", properties=properties, storage_options=store.direct.options
    )
    for _ in range(8 if name == "checkpoint" else 0):  # the measured append is the tenth version
        table.write(pa.table({"id": [-1]}))
    command = [sys.executable, "-m", "benchmarks.store_writes", engine, url]
    children = [
        subprocess.Popen(
            [*command, str(1000 * writer), str(appends)],
            cwd=_ROOT,
            env=store.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for writer in range(writers)
    ]
    results = _run_together(store, children)
    seconds = max(r["end"] for r in results) - min(r["start"] for r in results)
    sample = store.sample(seconds)
    done = [number for result in results for number in result["done"]]
    return replace(
        sample,
        failed=writers * (appends + 1) - len(done),
        problem=_compare_ids(store, url, done),
    )


def _run_together(store: _Store, children: list[subprocess.Popen[str]]) -> list[dict[str, Any]]:
    """Start all writers when the last one is ready, and return their results."""
    for child in children:
        cast("IO[str]", child.stdout).readline()
    store.proxy.clear()
    for child in children:
        pipe = cast("IO[str]", child.stdin)
        pipe.write("go\n")
        pipe.flush()
    return [json.loads(child.communicate(timeout=_TIMEOUT_SECONDS)[0]) for child in children]


def _compare_ids(store: _Store, url: str, done: list[int]) -> str:
    """Return what is lost or duplicated; an empty string if nothing is."""
    rows = lazydelta.Table.open(url, store.direct.options).scan(where="id >= 0").to_arrow()
    found = sorted(rows["id"].to_pylist())
    expected = sorted(identity for number in done for identity in append_ids(number))
    if found == expected:
        return ""
    lost = len(set(expected) - set(found))
    return f"{lost} rows lost, {len(found) - len(set(found))} duplicated"


# --- the run --------------------------------------------------------------------------------------


def _measure(store: _Store, options: argparse.Namespace, latency: int) -> Results:
    """Measure every workload at one latency, in milliseconds."""
    store.proxy.latency = latency / 1000
    results: Results = {name: {} for name in options.workload}
    for number in range(options.rounds):
        for name in options.workload:
            for key in _variants(name):
                engine, workload = key
                samples = results[name].setdefault(f"{engine} {workload}".strip(), [])
                if samples and (samples[-1].problem or samples[-1].seconds > _LONG_SECONDS):
                    continue
                if name in _WRITES:
                    appends = min(_WRITES[name][1], options.appends)
                    sample = _measure_write(store, name, engine, appends)
                else:
                    case = Case(engine=engine, workload=workload, spec=_spec(name))
                    sample = _measure_read(store, name, case)
                samples.append(sample)
                shown = sample.problem or (
                    f"{sample.seconds:7.3f} s  depth {sample.depth:3}  {sample.requests:4} "
                    f"requests  {sample.sent / 1e6:7.2f} MB"
                )
                label = f"{latency:3} ms, round {number + 1}: {name:12} {engine} {workload}"
                print(f"{label:60} {shown}", file=sys.stderr, flush=True)
    return results


def _variants(name: str) -> list[tuple[str, str]]:
    """Return the engines of a workload, and what each of them runs."""
    if name == "checkpoint":  # deltalake writes its checkpoint after another version
        return [("lazydelta", "")]
    if name in _WRITES:
        return [("lazydelta", ""), ("deltalake", "")]
    engines = next(engines for read, _, engines in _READS if read == name)
    return [(engine, workload) for engine, some in engines.items() for workload in some]


def _spec(name: str) -> TableSpec | RowsSpec:
    return next(spec for read, spec, _ in _READS if read == name)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stores", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--latency", type=int, action="append", help="in ms; default: 30 and 100")
    parser.add_argument("--workload", choices=_WORKLOADS, action="append")
    parser.add_argument("--appends", type=int, default=50, help="of one writer, at most")
    parser.add_argument(
        "--quick", action="store_true", help="one round at 30 ms, 10 appends, no 1 M files"
    )
    parser.add_argument(
        "--docs",
        type=Path,
        help="write the page there; default: docs/benchmarks/, unless quick or partial",
    )
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run as a command."""
    options = _parser().parse_args(arguments)
    is_whole = not (options.quick or options.workload or options.latency)
    if options.quick:
        options.rounds, options.appends = 1, 10
        options.latency = options.latency or [30]
        options.workload = options.workload or [
            name for name in _WORKLOADS if name in _WRITES or _spec(name) != _LARGE_LOG
        ]
    options.workload = options.workload or list(_WORKLOADS)
    when = f"{datetime.now(UTC).date()}, load average {os.getloadavg()[0]:.1f} at the start"
    with ExitStack() as stack:
        store = _Store.start(stack)
        for spec in dict.fromkeys(_spec(name) for name in options.workload if name not in _WRITES):
            store.copy(spec)
        results = {
            latency: _measure(store, options, latency) for latency in options.latency or [30, 100]
        }
    section = store_section(results, when=when, picture=_PICTURE)
    print(section)
    docs: Path | None = options.docs or (PAGES if is_whole else None)
    if docs is not None:
        write_page(docs, "object-stores", section)
        draw_stores(results, docs / _PICTURE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
