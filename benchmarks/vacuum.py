"""`python -m benchmarks.vacuum`: measure VACUUM against deltalake, and the health of a table.

The store is versitygw on loopback behind `FaultProxy`, which delays every response. Every sample is
a separate process, and the engines alternate; what a VACUUM deleted is restored before the next
one. Prints a Markdown section; `--docs` writes it into a directory.
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
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import lazydelta
from benchmarks.actions import commit_lines, remove_column
from benchmarks.clock import OPTIONS_VARIABLE
from benchmarks.columns import FileColumns
from benchmarks.generate import table_for
from benchmarks.limits import Verdict, format_figure
from benchmarks.page import write_page
from benchmarks.plot import draw_bars
from benchmarks.report import machine, markdown_table, verdict_table
from benchmarks.spec import CACHE, CHECKPOINT_VERSION, DAYS, TableSpec
from benchmarks.vacuum_engines import OPERATIONS, VacuumSample
from lazydelta.store import open_store
from lazydelta.testing import FaultProxy
from tests.emulators import servers

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["main"]

_ROOT = Path(__file__).resolve().parent.parent
_PICTURE = Path("img/benchmarks-vacuum.svg")
_COMMITS = 10
"""Commits that remove files, since the last VACUUM."""
_DEAD_SHARE = 11
"""Every so many files one is dead."""
_TIMEOUT_SECONDS = 600
_JUDGED_FILES = 1_000_000
"""Live files of the table that the limits are for."""
_LOCAL = ("health", "plan")
_NAMES = {
    "full": "VACUUM full",
    "lite": "VACUUM lite",
    "search-full": "its search, full",
    "search-lite": "its search, lite",
    "plan": "plan, all files",
    "health": "health",
}


class _Table:
    """A table with empty data files, every eleventh of them removed.

    Args:
        files: Live files.
        store: A store with a directory.
    """

    def __init__(self, files: int, store: servers.Emulator) -> None:
        self._store = open_store(f"{store.url}/table", store.options)
        self.spec = TableSpec(files=files + files // (_DEAD_SHARE - 1))
        self.path = Path(str(store.directory), "table")
        self._log = self.path / "_delta_log"
        shutil.copytree(table_for(self.spec), self.path)
        (self.path / "expected.json").unlink()
        numbers = np.arange(self.spec.files, dtype=np.int64)
        self._dead = np.random.default_rng(3).permutation(numbers)[: files // (_DEAD_SHARE - 1)]
        for number, part in enumerate(np.array_split(self._dead, _COMMITS)):
            lines = commit_lines("remove", remove_column(FileColumns(self.spec, part)))
            info = json.dumps({"commitInfo": {"operation": "DELETE", "engineInfo": "benchmarks"}})
            name = f"{CHECKPOINT_VERSION + 1 + number:020d}.json"
            (self._log / name).write_text("\n".join([info, *lines]) + "\n")
        lazydelta.Table.open(self.path).checkpoint()
        self._log_files = {path.name for path in self._log.iterdir()}
        for day in np.unique(FileColumns(self.spec, numbers).day_text.to_numpy(False)):
            (self.path / f"date={day}").mkdir()
        self._write(numbers)
        self.dead = len(self._dead)

    def reset(self) -> None:
        """Restore the dead files, and the log of a table that was vacuumed before their removal."""
        # By the store, which has metadata of the files that it wrote.
        names = (path.name for path in self._log.iterdir())
        self._store.delete([f"_delta_log/{name}" for name in names if name not in self._log_files])
        last = {"latestCommitVersionOutsideOfRetentionWindow": CHECKPOINT_VERSION}
        body = json.dumps(last).encode()
        self._store.write("_delta_log/_last_vacuum_info", body, overwrite=True)
        self._write(self._dead)

    def problem(self) -> str:
        """Return what is wrong after a VACUUM: only the live files should be left."""
        left = sum(len(files) for _, _, files in os.walk(self.path))
        left -= sum(len(files) for _, _, files in os.walk(self._log))
        surplus = left - (self.spec.files - self.dead)
        gone = all((self.path / path).exists() for path in self._live_sample())
        return f"{surplus:+,} files" if surplus else "" if gone else "a live file is gone"

    def _live_sample(self) -> Iterator[str]:
        live = np.setdiff1d(np.arange(self.spec.files, dtype=np.int64), self._dead)
        yield from FileColumns(self.spec, live[::100]).path.to_pylist()

    def _write(self, numbers: np.ndarray) -> None:
        for path in FileColumns(self.spec, numbers).path.to_pylist():
            os.close(os.open(self.path / path, os.O_CREAT | os.O_WRONLY))


def _measured(
    engine: str, operation: str, table: _Table, store: servers.Emulator, proxy: FaultProxy
) -> VacuumSample:
    paths = [str(_ROOT), str(_ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    url = str(table.path)
    if operation not in _LOCAL:
        table.reset()
        environment[OPTIONS_VARIABLE] = json.dumps(store.at(proxy.endpoint).options)
        url = f"{store.url}/{table.path.name}"
    proxy.clear()
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.vacuum_engines", engine, operation, url],
        cwd=_ROOT, env=environment, capture_output=True, text=True, check=False,
        timeout=_TIMEOUT_SECONDS,
    )  # fmt: skip
    if done.returncode:
        return VacuumSample(error="".join(done.stderr.strip().splitlines()[-1:]))
    sample = VacuumSample(**json.loads(done.stdout.splitlines()[-1]))
    requests = proxy.requests()
    listings = sum("list-type=2" in r.target and "_delta_log" not in r.target for r in requests)
    sample = replace(sample, requests=len(requests), listings=listings)
    expected = table.spec.files - table.dead if operation in _LOCAL else table.dead
    problem = "" if sample.files == expected else f"{sample.files:,} files for {expected:,}"
    if operation in ("full", "lite"):
        problem = problem or table.problem()
    return replace(sample, error=problem)


_HEADER = [
    "operation", "engine", "seconds of each round", "CPU seconds", "peak RSS, MiB", "requests",
    "of these, listings of data", "problem",
]  # fmt: skip


def _row(operation: str, engine: str, found: list[VacuumSample]) -> list[str]:
    best = min(found, key=lambda sample: sample.seconds)
    return [
        operation, engine,
        " / ".join(f"{sample.seconds:.2f}" for sample in found),
        f"{best.cpu_seconds:.1f}",
        f"{max(sample.peak_rss for sample in found) / 2**20:.0f}",
        f"{best.requests:,}" if best.requests else "",
        f"{best.listings:,}" if best.requests else "",
        "; ".join(dict.fromkeys(sample.error for sample in found if sample.error)),
    ]  # fmt: skip


_RATIOS = (
    ("VACUUM full", ("full", "lazydelta"), ("full", "deltalake"), "1/3 of deltalake", 1 / 3),
    ("VACUUM lite", ("lite", "lazydelta"), ("full", "lazydelta"), "1/10 of full", 1 / 10),
    ("health", ("health", "lazydelta"), ("plan", "lazydelta"), "5 x a plan", 5.0),
)  # fmt: skip
_MOST_RSS = 256 * 2**20


def _verdicts(samples: dict[tuple[str, str], list[VacuumSample]]) -> list[Verdict]:
    """Return the verdicts on the limits of the operations that ran without an error."""
    found = []
    good = {key: runs for key, runs in samples.items() if not any(run.error for run in runs)}
    for what, ours, theirs, must, most in _RATIOS:
        if ours in good and theirs in good:
            mine, other = (min(run.seconds for run in good[key]) for key in (ours, theirs))
            shown = " / ".join(format_figure(value, is_bytes=False) for value in (mine, other))
            found.append(Verdict(what=what, must=must, ratio=mine / other, most=most, shown=shown))
    if full := good.get(("full", "lazydelta")):
        peak = max(run.peak_rss for run in full)
        found.append(
            Verdict(
                what="peak RSS of VACUUM full", must="256 MiB", ratio=peak / _MOST_RSS, most=1,
                shown=f"{peak / 2**20:.0f} MiB",
            )
        )  # fmt: skip
    return found


def _section(
    samples: dict[tuple[str, str], list[VacuumSample]], table: _Table, latency: int, when: str
) -> str:
    rows = [_row(_NAMES[name], engine, found) for (name, engine), found in samples.items()]
    about = (
        f"{table.spec.files - table.dead:,} live files and {table.dead:,} that {_COMMITS} commits "
        f"removed, in {DAYS} partitions. The store is versitygw on loopback behind a proxy that "
        f"delays every response by {latency} ms; store, proxy and engine share the cores. A "
        "search is a dry run: what VACUUM does before it deletes. Plan and health read the log "
        "from the local disk. Peak RSS is that of the whole process, imports included."
    )
    picture = f"![Seconds of VACUUM, a plan and health]({_PICTURE})"
    is_judged = table.spec.files - table.dead == _JUDGED_FILES
    parts = [
        "# VACUUM and health",
        f"{when}. {machine()}",
        verdict_table(_verdicts(samples), is_judged=is_judged),
        picture,
        markdown_table(_HEADER, rows),
        about,
    ]
    return "\n\n".join(parts) + "\n"


def _draw(samples: dict[tuple[str, str], list[VacuumSample]], path: Path) -> None:
    groups: dict[str, dict[str, float]] = {}
    for (operation, engine), found in samples.items():
        if good := [sample.seconds for sample in found if not sample.error]:
            groups.setdefault(_NAMES[operation], {})[engine] = min(good)
    draw_bars(groups, path)


def main(arguments: list[str] | None = None) -> int:
    """Run as a command; 1 if a result was wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.vacuum", description=__doc__)
    parser.add_argument("--files", type=int, default=_JUDGED_FILES, help="live files")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--latency", type=int, default=30, help="in ms")
    parser.add_argument("--quick", action="store_true", help="20,000 files")
    parser.add_argument("--operation", action="append", choices=list(OPERATIONS["lazydelta"]))
    parser.add_argument("--engine", action="append", choices=list(OPERATIONS))
    parser.add_argument("--docs", type=Path, help="write the page into this directory")
    options = parser.parse_args(arguments)
    CACHE.mkdir(exist_ok=True)
    when = f"{datetime.now(UTC).date()}, load average {os.getloadavg()[0]:.1f} at the start"
    samples: dict[tuple[str, str], list[VacuumSample]] = {}
    with ExitStack() as stack:
        tempfile.tempdir = str(CACHE)  # a million files do not belong into memory
        store = stack.enter_context(servers.versitygw())
        proxy = stack.enter_context(FaultProxy(store.endpoint, latency=options.latency / 1000))
        table = _Table(20_000 if options.quick else options.files, store)
        for _ in range(options.rounds):
            for operation in options.operation or OPERATIONS["lazydelta"]:
                for engine in options.engine or OPERATIONS:
                    if operation in OPERATIONS[engine]:
                        sample = _measured(engine, operation, table, store, proxy)
                        print(operation, engine, sample, file=sys.stderr, flush=True)
                        samples.setdefault((operation, engine), []).append(sample)
        section = _section(samples, table, options.latency, when)
    print(section)
    if options.docs is not None:
        write_page(options.docs, "vacuum", section)
        _draw(samples, options.docs / _PICTURE)
    return int(any(sample.error for found in samples.values() for sample in found))


if __name__ == "__main__":
    sys.exit(main())
