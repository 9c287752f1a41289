"""`python -m benchmarks.serve`: measure the servers, and write its page.

The server is a process of its own, on the same machine. Figures of one process are of the same run.
A run of some cases replaces their rows of the page and leaves the others.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import capi, serve_cases, serve_flight
from benchmarks.generate import table_for
from benchmarks.page import PAGES, write_page
from benchmarks.plot import new_figure, save_figure
from benchmarks.report import machine
from benchmarks.serve_clients import FlightScan, HttpScan
from benchmarks.spec import TableSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["CASES", "Case", "Scale", "main"]

_PICTURE = Path("img/benchmarks-serve.svg")
_PAGE = """\
# Serving

Written by `make bench-serve`: {machine}.

The server is a process of its own on the same machine; clients read the Arrow stream. Tables are on
the local disk and in the page cache. The large table has 1 M files, the one of the rows about peak
memory 5 M. *Load* is the load average before the row was measured: other work on the machine.
`--only TEXT` repeats the rows whose name contains a text.

{table}

![Measured values as shares of their limits](img/benchmarks-serve.svg)

*Slow consumers* take a batch every 10 s, for a minute. They may hold two batches and a row group
each.

*Two clients on split endpoints* read from one process. A scan holds Python's interpreter lock for
about half of its time: for the JSON of the tail, which every share decodes, and for some dozens of
short calls for each batch. On two cores the clients take their part of the processors, too.

*C* and *C#* are compared with the batches of `file_batches()`. The callback receives URIs, and
objects of C# all of a file record: that takes a quarter and more than half of the processor time of
those batches in addition, before the host does anything. On idle cores, where two threads decode,
the ratios are larger than where the host and its worker wait for cores.
"""


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
        rounds=5 if quick else 20,
        cancels=20 if quick else 100,
        slow_seconds=25 if quick else 60,
        small=table_for(small),
        large=table_for(large),
        largest=table_for(largest),
    )


def _measured(case: Case, scale: Scale) -> str:
    """Run a case, and return its row of the page."""
    load = os.getloadavg()[0]
    value, shown = case.run(scale)
    is_met = "yes" if value <= case.most else "**no**"
    when = f"{datetime.now(UTC):%Y-%m-%d}, {load:.1f}"
    row = f"| {case.what} | ≤ {case.must} | {value:.3g} | {shown} | {is_met} | {when} |"
    print(row, file=sys.stderr, flush=True)
    return row


def _rows(page: Path) -> dict[str, str]:
    """Return the rows of a page by what they measure."""
    lines = page.read_text("utf-8").splitlines() if page.exists() else []
    return {line.split(" | ")[0][2:]: line for line in lines if line.startswith("| ")}


def _page(rows: Mapping[str, str]) -> str:
    """Return the page; cases that were never measured have no row."""
    table = [rows[case.what] for case in CASES if case.what in rows]
    header = "| what | must be | measured | figures | met | date, load before |"
    return _PAGE.format(machine=machine(), table="\n".join([header, "|" + "---|" * 6, *table]))


def _draw(rows: Mapping[str, str], path: Path) -> None:
    """Draw each measured value as a share of its limit."""
    values = {
        case.what: float(rows[case.what].split(" | ")[2]) / case.most
        for case in CASES
        if case.what in rows and case.most
    }
    figure, axis = new_figure(1)
    colors = ["#0b6e4f" if value <= 1 else "#c8553d" for value in values.values()]
    bars = axis.barh([*values], [*values.values()], color=colors)
    axis.bar_label(bars, fmt="%.2f", padding=3, fontsize=8)
    axis.axvline(1, color="#333333", linewidth=1)
    axis.set(xlabel="measured / limit")
    axis.tick_params(axis="y", labelsize=7)
    axis.invert_yaxis()
    axis.margins(x=0.1)
    axis.spines[["top", "right"]].set_visible(False)
    save_figure(figure, path)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the page, and write it for a run of full length."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serve", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="shorter; does not write the page")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    options = parser.parse_args(arguments)
    cases = [case for case in CASES if options.only in case.what]
    scale = _scale(quick=options.quick)
    rows = {case.what: _measured(case, scale) for case in cases}
    if not options.quick:
        rows = _rows(PAGES / "serving.md") | rows
        write_page(PAGES, "serving", _page(rows))
        _draw(rows, PAGES / _PICTURE)
    print(_page(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
