"""The results of sessions on Spark, and the run that keeps them: a later run replaces its own part.

Knows neither Spark nor the limits.
"""

from __future__ import annotations

import json
import statistics
from dataclasses import asdict, dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any, Self

from benchmarks.spark_cases import Session
from benchmarks.spark_engines import Memory, Timing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

__all__ = ["Result", "Run"]


@dataclass(slots=True, kw_only=True)
class Result:
    """What the rounds of one session measured."""

    session: Session
    day: date
    expected: dict[str, int]
    timings: dict[str, Timing] = field(default_factory=dict)
    memory: Memory | None = None
    error: str = ""

    def add_output(self, lines: Iterable[str]) -> None:
        """Add the lines that one process of the session printed."""
        for line in lines:
            entry = json.loads(line)
            if "timing" in entry:
                self._add_timing(Timing(**entry["timing"]))
            elif "memory" in entry:
                self.memory = Memory(**entry["memory"])
            else:
                self.error = entry["error"]

    def _add_timing(self, timing: Timing) -> None:
        known = self.timings.setdefault(timing.name, timing)
        if known is not timing:
            known.cold += timing.cold
            known.warm += timing.warm
            known.counts += timing.counts

    def seconds(self, operation: str, state: str) -> float | None:
        """Return the median of an operation, `cold` or `warm`; None if it has no valid figure."""
        timing = self.timings.get(operation)
        if timing is None or self._wrong_count(operation):
            return None
        values: list[float] = getattr(timing, state)
        return statistics.median(values) if values else None

    def _wrong_count(self, operation: str) -> bool:
        counts = set(self.timings[operation].counts)
        return operation in self.expected and counts != {self.expected[operation]}

    @property
    def problems(self) -> list[str]:
        """One line for the error of the session and each operation without a valid figure."""
        found = [self.error] if self.error else []
        for operation, expected in self.expected.items():
            if operation not in self.timings:
                found.append(f"{operation}: not measured")
            elif self._wrong_count(operation):
                counted = sorted(set(self.timings[operation].counts))
                found.append(f"{operation}: counted {counted}, expected {expected}")
        return [f"{self.session.label}, {self.session.master}: {line}" for line in found]


@dataclass(slots=True, kw_only=True)
class Run:
    """Results by session, with the load average before the newest of them."""

    suite: str
    busy: float = 0.0
    results: dict[Session, Result] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        """Keep the run as JSON."""
        results = [asdict(result) for result in self.results.values()]
        kept = {"suite": self.suite, "busy": self.busy, "results": results}
        path.write_text(json.dumps(kept, default=str))

    @classmethod
    def load(cls, path: Path, suite: str) -> Self:
        """Read what `save` wrote; an empty run if there is none."""
        if not path.exists():
            return cls(suite=suite)
        kept = json.loads(path.read_text())
        results = [_result(entry) for entry in kept["results"]]
        return cls(
            suite=kept["suite"],
            busy=kept["busy"],
            results={result.session: result for result in results},
        )


def _result(entry: Mapping[str, Any]) -> Result:
    memory = entry["memory"]
    return Result(
        session=Session.from_json(entry["session"]),
        day=date.fromisoformat(entry["day"]),
        expected=entry["expected"],
        timings={name: Timing(**timing) for name, timing in entry["timings"].items()},
        memory=Memory(**memory) if memory else None,
        error=entry["error"],
    )
