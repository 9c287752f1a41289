"""`python -m benchmarks.spark`: measure on Spark, and write its page.

Spark runs in local mode, or with separate executors. Peers are the reference connector
(delta-spark, from a Maven repository) and Spark's own Parquet reader. Results are kept: a run of
some workloads replaces those in the last run, and the page has all of them.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.generate import table_for
from benchmarks.page import PAGES, write_page
from benchmarks.spark_cases import (
    DELTA,
    LOCAL,
    WORKLOADS,
    Session,
    expected_counts,
    is_extra,
    spark_sessions,
)
from benchmarks.spark_report import draw_spark, spark_section
from benchmarks.spark_results import Result, Run
from benchmarks.spec import CACHE
from tests.spark.jars import JarsMissingError, delta_jars

if TYPE_CHECKING:
    from collections.abc import Sequence

_PICTURE = Path("img/benchmarks-spark.svg")
_ROOT = Path(__file__).resolve().parent.parent
_SECONDS = 420
"""The most that a session may take; what it has measured by then counts."""


def _log(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def _delta_is_there() -> bool:
    try:
        delta_jars()
    except JarsMissingError as error:
        _log(f"without {DELTA}: {error}")
        return False
    return True


def run_session(session: Session, result: Result, seconds: float = _SECONDS) -> None:
    """Run a session in a new process and add what it measures.

    Args:
        session: The session.
        result: Gets the figures, and the error if there is one.
        seconds: When the process is stopped, with its JVMs.
    """
    places = [str(_ROOT), str(_ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.spark_engines", json.dumps(session.to_json())],
        cwd=_ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, places))},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            output, errors = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            errors = ""
            result.error = f"stopped after {seconds:.0f} s"
    # A process that is stopped may leave half a line.
    lines = [line for line in output.splitlines() if line[:1] == "{" and line[-1:] == "}"]
    if process.returncode and not result.error:
        result.error = f"exit {process.returncode}: {errors.strip().splitlines()[-1:]}"
    result.add_output(lines)


def _measure(sessions: Sequence[Session], run: Run, *, rounds: int, kept: Path) -> None:
    """Run the sessions; every second round in reverse, so that none always follows the same one."""
    today = datetime.now(UTC).date()
    fresh: dict[Session, Result] = {}
    for session in sessions:
        if not session.spec.path.exists():
            _log(f"generating {session.spec.files:,} files ({session.spec.label})")
        facts = json.loads((table_for(session.spec) / "expected.json").read_text())
        expected = expected_counts(session, facts)
        fresh[session] = Result(session=session, day=today, expected=expected)
    run.busy = os.getloadavg()[0]
    for number in range(rounds):
        for session in sessions if number % 2 == 0 else reversed(sessions):
            result = fresh[session]
            if result.error:
                continue
            run_session(session, result)
            run.results[session] = result
            run.save(kept)
            _log(f"round {number + 1}: {_progress(result)}")


def _progress(result: Result) -> str:
    figures = [
        f"{name} {'/'.join(f'{value:.2f}' for value in (*timing.cold, *timing.warm))}"
        for name, timing in result.timings.items()
    ]
    return "; ".join([result.session.label, *figures, *([result.error] if result.error else [])])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small tables; prints, no page")
    parser.add_argument("--reuse", action="store_true", help="report on the last run again")
    parser.add_argument("--rounds", type=int, default=1, help="processes for each case; default 1")
    parser.add_argument(
        "--workload",
        action="append",
        choices=WORKLOADS,
        default=[],
        help="only this one; `deleted`, `merge`, `optimize`, `cluster` run only if named",
    )
    parser.add_argument("--engine", help="only this one")
    parser.add_argument("--files", type=int, action="append", help="only tables of this size")
    parser.add_argument(
        "--master", default=LOCAL, help="or local-cluster[2,1,1024]; default local[2]"
    )
    parser.add_argument(
        "--docs", type=Path, help="write the page there; default: docs/benchmarks/, unless quick"
    )
    return parser


def _chosen(options: argparse.Namespace, suite: str) -> list[Session]:
    with_delta = _delta_is_there()
    return [
        session
        for session in spark_sessions(suite, master=options.master)
        if (session.workload in options.workload if options.workload else not is_extra(session))
        and (options.engine is None or session.engine == options.engine)
        and (options.files is None or session.spec.files in options.files)
        and (with_delta or session.engine != DELTA)
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmarks; 1 if an engine failed or returned a wrong count."""
    options = _parser().parse_args(arguments)
    suite = "quick" if options.quick else "default"
    kept = CACHE / f"last-spark-run-{suite}.json"
    run = Run.load(kept, suite)
    if not options.reuse:
        _measure(_chosen(options, suite), run, rounds=options.rounds, kept=kept)
    section = spark_section(run, picture=_PICTURE)
    print(section)
    docs: Path | None = options.docs or (None if options.quick else PAGES)
    if docs is not None:
        write_page(docs, "spark", section)
        draw_spark(run, docs / _PICTURE)
    problems = [line for result in run.results.values() for line in result.problems]
    for line in problems:
        _log(f"failed: {line}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
