"""Runs operations, each in a separate process, and keeps their samples.

Knows engines by name only: `engines` is the child process. Rounds are interleaved, so that a busy
minute of the machine affects all engines.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from benchmarks.clock import Sample
from benchmarks.engines import LIMIT
from benchmarks.generate import table_for
from benchmarks.row_engines import ROW_LIMIT
from benchmarks.spec import RowsSpec, Spec, spec_from

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["Case", "Result", "Run", "measure"]

_ROOT = Path(__file__).resolve().parent.parent
_TIMEOUT_SECONDS = 600
_ROW_KINDS = {"read", "filter", "count", "stream", "point", "file", "limit"}
_SHORT_SECONDS = 0.5
_LONG_SECONDS = 30.0  # what takes longer is run once: its noise is relatively small
_SHORT_RUNS = 3  # a short operation is run this often per round: its noise is relatively larger


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One engine, one workload, one table."""

    engine: str
    workload: str
    spec: Spec
    module: str = "benchmarks.engines"
    """The module to run, with engine, workload and path as arguments."""

    @property
    def kind(self) -> str:
        """The workload without its variant."""
        return self.workload.split(":")[0]

    @property
    def variant(self) -> str:
        """The variant of the workload; empty for the default one."""
        return self.workload.partition(": ")[2]

    @property
    def reads_rows(self) -> bool:
        """Whether it reads rows, not files."""
        return self.kind in _ROW_KINDS

    def expected_count(self, facts: dict[str, int]) -> int | None:
        """Return the expected count of the operation; None if it only plans."""
        kind = self.kind
        if self.reads_rows:
            return self._expected_rows(facts)
        if kind == "open" or (self.engine == "polars" and kind != "nothing"):
            return None
        if self.engine == "pyarrow":
            return self.spec.files  # the checkpoint's adds: it ignores the tail
        live = facts["live_files"]
        counts = {"first": min(LIMIT, live), "all": live, "nothing": 0}
        return counts.get(kind, facts["files_on_filter_day"])

    def _expected_rows(self, facts: dict[str, int]) -> int:
        live = facts["live_rows"]
        if isinstance(self.spec, RowsSpec) and self.engine == "pyarrow":
            return self.spec.rows  # the data files as they are: it ignores deletion vectors
        if self.kind == "filter":
            return facts["rows_in_filter"]
        if self.kind == "point":
            return 1
        if self.kind == "file":
            return facts["last_file_rows"]
        return min(ROW_LIMIT, live) if self.kind == "limit" else live


@dataclass(slots=True, kw_only=True)
class Result:
    """The runs of one case."""

    case: Case
    expected: int | None
    samples: list[Sample] = field(default_factory=list)
    account: Sample | None = None
    """One more run, not timed, that counted the requests to the store (lazydelta only)."""

    @property
    def good(self) -> list[Sample]:
        """The successful runs."""
        return [sample for sample in self.samples if not sample.error]

    @property
    def problem(self) -> str:
        """Why this result is unusable; empty if it is usable."""
        errors = [sample.error for sample in self.samples if sample.error]
        if errors or not self.samples:
            return errors[0] if errors else "did not run"
        counts = {sample.count for sample in self.samples}
        if self.expected is not None and counts != {self.expected}:
            return f"counted {sorted(counts)}, expected {self.expected}"
        if self.account is not None and self.account.error:
            return f"counting its requests: {self.account.error}"
        return ""

    def best(self, figure: str) -> float:
        """Return the minimum of a figure over the runs."""
        return min(getattr(sample, figure) for sample in self.good)

    def median(self, figure: str) -> float:
        """Return the median of a figure over the runs."""
        return statistics.median(getattr(sample, figure) for sample in self.good)

    def worst(self, figure: str) -> float:
        """Return the maximum of a figure over the runs."""
        return max(getattr(sample, figure) for sample in self.good)


def _run_once(case: Case, path: Path, *extra: str) -> Sample:
    """Run one operation in a new process; a crash or a timeout is a sample with an error."""
    places = [str(_ROOT), str(_ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, places))}
    command = [sys.executable, "-m", case.module, case.engine, case.workload, str(path)]
    command += extra
    try:
        done = subprocess.run(
            command,
            cwd=_ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Sample(error=f"no result after {_TIMEOUT_SECONDS} s")
    lines = done.stdout.splitlines()
    # A peer that returns a result and then crashes at exit, as deltalake's datasets do, has a
    # valid sample; for lazydelta it is a failure.
    if not lines or (done.returncode and case.engine == "lazydelta"):
        return Sample(error=f"exit {done.returncode}: {done.stderr.strip().splitlines()[-1:]}")
    return Sample(**json.loads(lines[-1]))


def measure(
    cases: Iterable[Case], *, rounds: int, log: Callable[[str], None] = lambda _: None
) -> list[Result]:
    """Run every case `rounds` times, short ones more often, and return the results in order.

    A case that fails is not run again: its result has the reason. Nor is a very long one.
    """
    results = []
    for case in cases:
        facts = json.loads((table_for(case.spec) / "expected.json").read_text())
        results.append(Result(case=case, expected=case.expected_count(facts)))
    for number in range(rounds):
        # Every second round runs in reverse: idle memory is slow for the first process that takes
        # it, and that must not always be the same one.
        for result in results if number % 2 == 0 else reversed(results):
            last = result.samples[-1] if result.samples else None
            if last and (last.error or last.total_seconds > _LONG_SECONDS):
                continue
            short = last is not None and last.total_seconds < _SHORT_SECONDS
            for _ in range(_SHORT_RUNS if short else 1):
                result.samples.append(_run_once(result.case, table_for(result.case.spec)))
            log(_progress(number, result))
    for result in results:
        if result.case.engine == "lazydelta" and not result.problem:
            result.account = _run_once(result.case, table_for(result.case.spec), "--account")
    return results


def _progress(number: int, result: Result) -> str:
    case, sample = result.case, result.samples[-1]
    shown = sample.error or f"{sample.total_seconds:.3f} s, {sample.peak_rss / 1e6:.0f} MB"
    where = f"{case.spec.files:>9,} files ({case.spec.label})"
    return f"round {number + 1}: {case.engine:>9} {case.workload:<18} {where}: {shown}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The results of one run, with its name, date and the load average before it."""

    suite: str
    day: date
    busy: float
    results: list[Result]

    def save(self, path: Path) -> None:
        """Keep the run as JSON."""
        path.write_text(json.dumps(asdict(self), default=str))

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote."""
        kept = json.loads(path.read_text())
        results = [_result(entry) for entry in kept["results"]]
        day = date.fromisoformat(kept["day"])
        return cls(suite=kept["suite"], day=day, busy=kept["busy"], results=results)


def _result(entry: dict[str, Any]) -> Result:
    case = Case(**entry["case"] | {"spec": spec_from(entry["case"]["spec"])})
    samples = [Sample(**sample) for sample in entry["samples"]]
    account = Sample(**entry["account"]) if entry["account"] else None
    return Result(case=case, expected=entry["expected"], samples=samples, account=account)
