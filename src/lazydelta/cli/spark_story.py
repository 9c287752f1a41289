"""What can be told of Spark at work: tasks done so far, and the most memory its driver needed."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lazydelta.cli.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["TaskProgress", "peak_memory"]

_PROCESSES = Path("/proc")


class TaskProgress(Progress):
    """A line about the phase under way and the tasks of it that are done."""

    def __init__(self, *, enabled: bool) -> None:
        super().__init__(self._now, enabled=enabled)
        self.phase = ""
        self._spark: Any = None
        self._told = (0, 0)

    def follow(self, spark: Any, *, remote: bool = False) -> None:
        """Tell of this session from now on; of none if it is None."""
        self._spark = spark
        if remote:
            spark.registerProgressHandler(self._heard)

    def _heard(self, stages: Iterable[Any] | None, **_: Any) -> None:
        """Take what a server of Connect says of its stages."""
        told = [(stage.num_completed_tasks, stage.num_tasks) for stage in stages or ()]
        self._told = (sum(done for done, _ in told), sum(tasks for _, tasks in told))

    def _now(self) -> tuple[int, str]:
        done, started = self._told
        with suppress(Exception):  # a session that ends under our eyes has nothing to tell
            tracker = self._spark.sparkContext.statusTracker()
            for stage in tracker.getActiveStageIds():
                info = tracker.getStageInfo(stage)
                done, started = done + info.numCompletedTasks, started + info.numTasks
        return done, f"{self.phase}: {done} of {started} tasks" if started else self.phase

    def _line(self, seconds: float) -> str:
        _, phase = self._now()
        return f"{phase}, {seconds:.1f} s"


def peak_memory() -> dict[str, int | None]:
    """Return the most memory that this process and its JVM held so far, in bytes.

    The driver is both: this process, and a Java process that it started. None where the system
    does not tell.
    """
    return {"python": _peak(os.getpid()), "jvm": max(filter(None, _children()), default=None)}


def _children() -> list[int | None]:
    """Return the peaks of the Java processes that this process, or one it started, began."""
    found: list[int | None] = []
    with suppress(OSError):
        for status in _PROCESSES.glob("[0-9]*/status"):
            facts = _facts(status)
            if facts.get("Name") == "java" and _descends(facts.get("PPid", "0")):
                found.append(_peak(int(status.parent.name)))
    return found


def _descends(parent: str) -> bool:
    for _ in range(4):  # a shell or two start the JVM
        if parent == str(os.getpid()):
            return True
        parent = _facts(_PROCESSES / parent / "status").get("PPid", "0")
    return False


def _peak(process: int) -> int | None:
    text = _facts(_PROCESSES / str(process) / "status").get("VmHWM", "")
    return int(text.split()[0]) * 1024 if text else None


def _facts(status: Path) -> dict[str, str]:
    try:
        lines = status.read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
