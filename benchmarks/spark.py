"""`python -m benchmarks.spark`: measure on Spark, and write its page.

Spark runs in local mode. Peers are the reference connector (delta-spark, from a Maven repository),
Spark's own Parquet reader, and lazydelta without Spark.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.generate import table_for
from benchmarks.measure import Case, Run, measure
from benchmarks.page import PAGES, write_page
from benchmarks.report import problems
from benchmarks.spark_engines import DELTA, FORMAT, IN_PROCESS, OPERATIONS, PARQUET, QUERIES
from benchmarks.spark_report import draw_spark, spark_section
from benchmarks.spec import CACHE
from benchmarks.suites import HEADLINE, RowTables
from tests.spark.jars import JarsMissingError, delta_jars

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.spec import Spec

_PICTURE = Path("img/benchmarks-spark.svg")
_LAST_RUN = CACHE / "last-spark-run.json"
_CHILD = "benchmarks.spark_engines"
_SIZES = {"default": (100_000, 1_000_000, 4_000_000), "quick": (10_000, 100_000)}
_ROWS = {"default": 20_000_000, "quick": 2_000_000}
_MOST_DELTA_FILES = 1_000_000


def _log(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def _on(spec: Spec, workload: str, *, without: Sequence[str]) -> list[Case]:
    engines = [name for name, workloads in OPERATIONS.items() if workload in workloads]
    return [
        Case(engine=engine, workload=workload, spec=spec, module=_CHILD)
        for engine in engines
        if engine not in without
    ]


def spark_cases(suite: str, *, with_delta: bool) -> list[Case]:
    """Return the cases of a suite, small tables first.

    Args:
        suite: `default` or `quick`.
        with_delta: Whether the reference connector is available.
    """
    missing = () if with_delta else (DELTA,)
    cases = []
    for files in _SIZES[suite]:
        spec = replace(HEADLINE, files=files)
        without = missing if files <= _MOST_DELTA_FILES else (DELTA,)
        for workload in ("partition", "all"):
            cases += _on(spec, workload, without=without)
            cases.append(Case(engine=IN_PROCESS, workload=workload, spec=spec))
    tables = RowTables(rows=_ROWS[suite])
    for workload in (*QUERIES, "append", "append: partitioned"):
        cases += _on(tables.plain, workload, without=missing)
    # Spark's own reader ignores deletion vectors.
    cases += _on(tables.deleted, "read", without=(*missing, PARQUET, FORMAT))
    cases += _on(tables.deleted, "merge", without=missing)
    return [
        *cases,
        *_on(tables.plain, "optimize", without=missing),
        *_on(tables.plain, "cluster", without=missing),
    ]


def _delta_is_there() -> bool:
    try:
        delta_jars()
    except JarsMissingError as error:
        _log(f"without {DELTA}: {error}")
        return False
    return True


def _measured(suite: str, rounds: int, workloads: Sequence[str]) -> Run:
    cases = spark_cases(suite, with_delta=_delta_is_there())
    cases = [case for case in cases if not workloads or case.workload in workloads]
    for spec in dict.fromkeys(case.spec for case in cases):
        if not spec.path.exists():
            _log(f"generating {spec.files:,} files ({spec.label})")
        table_for(spec)
    busy = os.getloadavg()[0]
    results = measure(cases, rounds=rounds, log=_log)
    name = f"{suite}, partial" if workloads else suite
    run = Run(suite=name, day=datetime.now(UTC).date(), busy=busy, results=results)
    run.save(_LAST_RUN)
    return run


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark", description=__doc__)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="10 k and 100 k files, 2 M rows only")
    size.add_argument("--reuse", action="store_true", help="report on the last run again")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each case; default 3")
    parser.add_argument("--workload", action="append", default=[], help="only this one")
    parser.add_argument(
        "--docs",
        type=Path,
        help="write the page there; default: docs/benchmarks/, unless quick or partial",
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmarks; 1 if an engine failed or returned a wrong count."""
    options = _parser().parse_args(arguments)
    suite = "quick" if options.quick else "default"
    run = (
        Run.load(_LAST_RUN) if options.reuse else _measured(suite, options.rounds, options.workload)
    )
    section = spark_section(run, picture=_PICTURE)
    print(section)
    docs: Path | None = options.docs or (PAGES if run.suite == "default" else None)
    if docs is not None:
        write_page(docs, "spark", section)
        draw_spark(run.results, docs / _PICTURE)
    failed = problems(run.results)
    for line in failed:
        _log(f"failed: {line}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
