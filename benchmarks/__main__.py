"""`python -m benchmarks`: measure, print the limits, write the page and its plots."""

from __future__ import annotations

import argparse
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.generate import table_for
from benchmarks.measure import Run, measure
from benchmarks.page import PAGES, write_page
from benchmarks.plot import draw, draw_rows
from benchmarks.report import markdown, problems
from benchmarks.spec import CACHE
from benchmarks.suites import HEADLINE, RowTables, Suite, cases_of, row_cases

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.measure import Case

_PICTURE = Path("img/benchmarks.svg")
_ROWS_PICTURE = Path("img/benchmarks-rows.svg")
_LAST_RUN = CACHE / "last-run.json"


def _log(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="10 k and 100 k files, 2 M rows only")
    size.add_argument("--full", action="store_true", help="also peers on 3 M and 5 M, every option")
    size.add_argument("--reuse", action="store_true", help="report on the last run again")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--rows-only", action="store_true", help="skip listing files")
    what.add_argument("--files-only", action="store_true", help="skip reading rows")
    parser.add_argument(
        "--rows", type=int, help="rows of the table to read; default 20 M, 2 M for a quick run"
    )
    parser.add_argument("--rounds", type=int, default=3, help="runs of each case; default 3")
    parser.add_argument("--engine", action="append", help="only this one; may be repeated")
    parser.add_argument("--workload", action="append", help="only this one; may be repeated")
    parser.add_argument(
        "--docs",
        type=Path,
        help="write the page there; default: docs/benchmarks/, unless quick or partial",
    )
    return parser


def _cases(options: argparse.Namespace, suite: Suite) -> list[Case]:
    usual = RowTables(rows=2_000_000, log_files=100_000) if suite == "quick" else RowTables()
    tables = RowTables(rows=options.rows or usual.rows, log_files=usual.log_files)
    files = [] if options.rows_only else cases_of(suite)
    rows = [] if options.files_only else row_cases(tables)
    return [
        case
        for case in files + rows
        if (not options.engine or case.engine in options.engine)
        and (not options.workload or case.workload in options.workload)
    ]


def _measured(options: argparse.Namespace, suite: Suite) -> Run:
    cases = _cases(options, suite)
    for spec in dict.fromkeys(case.spec for case in cases):
        if not spec.path.exists():
            _log(f"generating {spec.files:,} files ({spec.label})")
        table_for(spec)
    busy = os.getloadavg()[0]
    results = measure(cases, rounds=options.rounds, log=_log)
    narrowed = ("engine", "workload", "rows", "rows_only", "files_only")
    partial = ", partial" if any(getattr(options, name) for name in narrowed) else ""
    run = Run(suite=suite + partial, day=datetime.now(UTC).date(), busy=busy, results=results)
    run.save(_LAST_RUN)
    return run


def _draw(run: Run, docs: Path) -> None:
    """Write the plots of a run."""
    if any(not result.case.reads_rows for result in run.results):
        draw(run.results, HEADLINE, docs / _PICTURE)
    tables = RowTables.among(r.case.spec for r in run.results if r.case.reads_rows)
    if tables is not None:
        draw_rows(run.results, tables, docs / _ROWS_PICTURE)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmarks; 1 if an engine failed or returned a wrong count."""
    options = _parser().parse_args(arguments)
    suite: Suite = "quick" if options.quick else "full" if options.full else "default"
    run = Run.load(_LAST_RUN) if options.reuse else _measured(options, suite)
    report = markdown(run, picture=_PICTURE, rows_picture=_ROWS_PICTURE)
    print(report)
    docs: Path | None = options.docs or (PAGES if run.suite in {"default", "full"} else None)
    if docs is not None:
        write_page(docs, "files-and-rows", report)
        _draw(run, docs)
    failed = problems(run.results)
    for line in failed:
        _log(f"failed: {line}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
