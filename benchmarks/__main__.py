"""`python -m benchmarks`: measure, print the limits, write `docs/benchmarks.md` and its plot."""

from __future__ import annotations

import argparse
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.generate import table_for
from benchmarks.measure import Run, measure
from benchmarks.plot import draw
from benchmarks.report import markdown, problems
from benchmarks.spec import CACHE
from benchmarks.suites import HEADLINE, Suite, cases_of

if TYPE_CHECKING:
    from collections.abc import Sequence

_DOCS = Path(__file__).resolve().parent.parent / "docs"
_PICTURE = Path("img/benchmarks.svg")
_LAST_RUN = CACHE / "last-run.json"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="10 k and 100 k files only")
    size.add_argument("--full", action="store_true", help="also peers on 3 M and 5 M, every knob")
    size.add_argument("--reuse", action="store_true", help="report on the last run once more")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each case; default 3")
    parser.add_argument("--engine", action="append", help="only this one; may be repeated")
    parser.add_argument("--workload", action="append", help="only this one; may be repeated")
    parser.add_argument(
        "--docs",
        type=Path,
        help="write the report there; default: docs/, but nowhere for a quick or partial run",
    )
    return parser


def _measured(options: argparse.Namespace, suite: Suite) -> Run:
    cases = [
        case
        for case in cases_of(suite)
        if (not options.engine or case.engine in options.engine)
        and (not options.workload or case.workload in options.workload)
    ]
    for spec in dict.fromkeys(case.spec for case in cases):
        if not spec.path.exists():
            _say(f"generating {spec.files:,} files ({spec.label})")
        table_for(spec)
    busy = os.getloadavg()[0]
    results = measure(cases, rounds=options.rounds, say=_say)
    partial = ", partial" if options.engine or options.workload else ""
    run = Run(suite=suite + partial, day=datetime.now(UTC).date(), busy=busy, results=results)
    run.save(_LAST_RUN)
    return run


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmarks; 1 if an engine failed or counted wrongly."""
    options = _parser().parse_args(arguments)
    suite: Suite = "quick" if options.quick else "full" if options.full else "default"
    run = Run.load(_LAST_RUN) if options.reuse else _measured(options, suite)
    text = markdown(run, picture=_PICTURE)
    print(text)
    docs: Path | None = options.docs or (_DOCS if run.suite in {"default", "full"} else None)
    if docs is not None:
        (docs / "benchmarks.md").write_text(text)
        draw(run.results, HEADLINE, docs / _PICTURE)
    failed = problems(run.results)
    for line in failed:
        _say(f"failed: {line}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
