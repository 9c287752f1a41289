"""`python -m benchmarks.serve`: measure the servers, and write its page.

The server is a process of its own, on the same machine. Figures of one process are of the same run.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from benchmarks import capi, serve_cases, serve_flight
from benchmarks.generate import table_for
from benchmarks.limits import Verdict
from benchmarks.page import PAGES, write_page
from benchmarks.report import machine, verdict_table
from benchmarks.serve_clients import FlightScan, HttpScan
from benchmarks.spec import TableSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

__all__ = ["CASES", "Case", "Scale", "main"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much is measured."""

    rounds: int
    cancels: int
    slow_seconds: float
    small: Path
    large: Path
    largest: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A figure with a limit: `run` returns what `most` limits, and the measured values."""

    what: str
    must: str
    most: float
    run: Callable[[Scale], tuple[float, str]]


CASES = [
    Case(
        what="HTTP: first batch of 1 M files, warm server, against the first file in process",
        must="3 x",
        most=3.0,
        run=partial(serve_cases.first_batch, HttpScan),
    ),
    Case(
        what="HTTP: 200 concurrent clients, `limit=100`: errors",
        must="0",
        most=0,
        run=partial(serve_cases.limited_clients, HttpScan),
    ),
    Case(
        what="HTTP: 50 slow consumers: memory over idle against what they may hold",
        must="1 x",
        most=1.0,
        run=partial(serve_cases.slow_consumers, HttpScan),
    ),
    Case(
        what="HTTP: disconnect until slot and files are free: p99",
        must="1 s",
        most=1.0,
        run=partial(serve_cases.cancelled, HttpScan),
    ),
    Case(
        what="HTTP: peak memory of the server, all files of a large table against 10 k",
        must="1.2 x",
        most=1.2,
        run=partial(serve_cases.memory_of_sizes, HttpScan),
    ),
    Case(
        what="Flight: first batch of 1 M files, warm server, against the first file in process",
        must="2 x",
        most=2.0,
        run=partial(serve_cases.first_batch, FlightScan),
    ),
    Case(
        what="Flight: all files, one client, against file records in process",
        must="1.3 x",
        most=1.3,
        run=serve_flight.all_files,
    ),
    Case(
        what="Flight: two clients on split endpoints, against one client",
        must="0.7 x",
        most=0.7,
        run=serve_flight.split_endpoints,
    ),
    Case(
        what="Flight: 200 concurrent clients, `limit=100`: errors",
        must="0",
        most=0,
        run=partial(serve_cases.limited_clients, FlightScan),
    ),
    Case(
        what="Flight: 50 slow consumers: memory over idle against what they may hold",
        must="1 x",
        most=1.0,
        run=partial(serve_cases.slow_consumers, FlightScan),
    ),
    Case(
        what="Flight: cancel until slot and files are free: p99",
        must="1 s",
        most=1.0,
        run=partial(serve_cases.cancelled, FlightScan),
    ),
    Case(
        what="Flight: peak memory of the server, all files of a large table against 10 k",
        must="1.2 x",
        most=1.2,
        run=partial(serve_cases.memory_of_sizes, FlightScan),
    ),
    Case(
        what="C: all of 1 M files through the callback, against the batches in process",
        must="1.5 x",
        most=1.5,
        run=capi.callback,
    ),
    Case(
        what="C#: all of 1 M files as objects, against the batches in process",
        must="2 x",
        most=2.0,
        run=capi.csharp,
    ),
]
"""The cases of both servers."""


def _scale(*, quick: bool) -> Scale:
    small, large = TableSpec(files=10_000, tail=10), TableSpec(files=1_000_000, tail=10)
    largest = large if quick else TableSpec(files=5_000_000, tail=10)
    return Scale(
        rounds=15 if quick else 50,
        cancels=50 if quick else 300,
        slow_seconds=25 if quick else 120,
        small=table_for(small),
        large=table_for(large),
        largest=table_for(largest),
    )


def _measured(case: Case, scale: Scale) -> Verdict:
    value, shown = case.run(scale)
    print(f"{case.what}: {value:.3g}: {shown}", file=sys.stderr, flush=True)
    return Verdict(what=case.what, must=case.must, ratio=value, most=case.most, shown=shown)


def _section(verdicts: Sequence[Verdict], *, quick: bool) -> str:
    now = datetime.now(UTC)
    size = "a short run: the large table of the last row has 1 M files" if quick else "5 M files"
    return (
        f"# Serving\n\n`make bench-serve` ({size}), {now:%Y-%m-%d}, {machine()}, load average "
        f"{os.getloadavg()[0]:.0f} at the end. The server is a "
        "process of its own on the same machine; clients read the Arrow stream. Tables are on the "
        f"local disk and in the page cache.\n\n{verdict_table(verdicts, is_judged=True)}\n"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the section, and with `--docs` write it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serve", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller and shorter")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--docs", action="store_true", help="write the page")
    options = parser.parse_args(arguments)
    scale = _scale(quick=options.quick)
    verdicts = [_measured(case, scale) for case in CASES if options.only in case.what]
    section = _section(verdicts, quick=options.quick)
    print(section)
    if options.docs:
        write_page(PAGES, "serving", section)
    return 0


if __name__ == "__main__":
    sys.exit(main())
