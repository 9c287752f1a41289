"""One measured VACUUM, health or plan in a process of its own: prints a JSON line.

The clock starts before the table is opened, after the imports. Peak memory is of the whole process.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.clock import load_lazydelta, storage_options
from benchmarks.engines import memory_of_process

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["OPERATIONS", "VacuumSample", "run"]


@dataclass
class VacuumSample:
    """What one run took."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_rss: int = 0
    files: int = 0
    """Files that were deleted, or found."""
    requests: int = 0
    listings: int = 0
    """Requests that list data files."""
    error: str = ""


def _lazydelta_vacuum(mode: Any, *, dry_run: bool = False) -> Callable[[str], int]:
    def vacuum(url: str) -> int:
        import lazydelta as ld

        table = ld.Table.open(url, storage_options())
        result = table.vacuum(retention=0, mode=mode, force=True, dry_run=dry_run)
        return result.files_to_delete if dry_run else result.files_deleted

    return vacuum


def _lazydelta_health(url: str) -> int:
    import lazydelta as ld

    return int(ld.Table.open(url).health().facts["files"]["count"])


def _lazydelta_plan(url: str) -> int:
    import lazydelta as ld

    return sum(batch.num_rows for batch in ld.Table.open(url).scan().file_batches())


def _deltalake_vacuum(mode: str) -> Callable[[str], int]:
    def vacuum(url: str) -> int:
        import deltalake

        table = deltalake.DeltaTable(url, storage_options=storage_options())
        return len(
            table.vacuum(
                retention_hours=0,
                dry_run=False,
                enforce_retention_duration=False,
                full=mode == "full",
            )
        )

    return vacuum


OPERATIONS: dict[str, dict[str, Callable[[str], int]]] = {
    "lazydelta": {
        "full": _lazydelta_vacuum("full"),
        "lite": _lazydelta_vacuum("lite"),
        "search-full": _lazydelta_vacuum("full", dry_run=True),
        "search-lite": _lazydelta_vacuum("lite", dry_run=True),
        "health": _lazydelta_health,
        "plan": _lazydelta_plan,
    },
    "deltalake": {"full": _deltalake_vacuum("full")},
}


def run(engine: str, operation: str, url: str) -> VacuumSample:
    """Run an operation on a table and measure it."""
    load_lazydelta() if engine == "lazydelta" else __import__(engine)
    work = OPERATIONS[engine][operation]
    cpu, clock = os.times(), time.perf_counter()
    files = work(url)
    seconds, after = time.perf_counter() - clock, os.times()
    return VacuumSample(
        seconds=seconds,
        cpu_seconds=after.user + after.system - cpu.user - cpu.system,
        peak_rss=memory_of_process("VmHWM:"),
        files=files,
    )


if __name__ == "__main__":
    print(json.dumps(asdict(run(*sys.argv[1:4]))))
