"""Progress of a Spark session by tasks, and the peak memory of its driver."""

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
    """Progress line with the current phase and its completed tasks."""

    def __init__(self, *, enabled: bool) -> None:
        super().__init__(self._now, enabled=enabled)
        self.phase = ""
        self._spark: Any = None
        self._remote = (0, 0)

    def follow(self, spark: Any, *, remote: bool = False) -> None:
        """Show the tasks of this session from now on; None shows none."""
        self._spark = spark
        if remote:
            spark.registerProgressHandler(self._on_progress)

    def _on_progress(self, stages: Iterable[Any] | None, **_: Any) -> None:
        """Receive the stages from a Spark Connect server."""
        counts = [(stage.num_completed_tasks, stage.num_tasks) for stage in stages or ()]
        self._remote = (sum(done for done, _ in counts), sum(tasks for _, tasks in counts))

    def _now(self) -> tuple[int, str]:
        done, started = self._remote
        with suppress(Exception):  # the session may stop meanwhile
            tracker = self._spark.sparkContext.statusTracker()
            for stage in tracker.getActiveStageIds():
                info = tracker.getStageInfo(stage)
                done, started = done + info.numCompletedTasks, started + info.numTasks
        return done, f"{self.phase}: {done} of {started} tasks" if started else self.phase

    def _line(self, seconds: float) -> str:
        _, phase = self._now()
        return f"{phase}, {seconds:.1f} s"


def peak_memory() -> dict[str, int | None]:
    """Return the peak memory of the driver's Python process and its JVM, in bytes.

    None where the system does not report it.
    """
    return {"python": _peak(os.getpid()), "jvm": max(filter(None, _children()), default=None)}


def _children() -> list[int | None]:
    """Return the peaks of the Java processes that descend from this process."""
    peaks: list[int | None] = []
    with suppress(OSError):
        for status in _PROCESSES.glob("[0-9]*/status"):
            fields = _status_fields(status)
            if fields.get("Name") == "java" and _descends(fields.get("PPid", "0")):
                peaks.append(_peak(int(status.parent.name)))
    return peaks


def _descends(parent: str) -> bool:
    for _ in range(4):  # shell scripts start the JVM
        if parent == str(os.getpid()):
            return True
        parent = _status_fields(_PROCESSES / parent / "status").get("PPid", "0")
    return False


def _peak(process: int) -> int | None:
    peak = _status_fields(_PROCESSES / str(process) / "status").get("VmHWM", "")
    return int(peak.split()[0]) * 1024 if peak else None


def _status_fields(status: Path) -> dict[str, str]:
    try:
        lines = status.read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
