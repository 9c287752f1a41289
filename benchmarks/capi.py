"""The cases of `benchmarks.serve` for hosts in other languages: the C library, and C# over it.

Both are compiled here. Rounds alternate with scans in this process, so that a busy minute of the
machine affects all of them.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import lazydelta as ld
from tests.capi.compiler import HOST, LIBRARY, compiled, shared_library
from tests.csharp import sdk

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.serve import Scale

__all__ = ["callback", "csharp"]

_ROOT = Path(__file__).resolve().parents[1]
_PROJECTS = (_ROOT / "clients" / "csharp" / "LazyDelta", _ROOT / "tests" / "csharp" / "Driver")
_ROUNDS = 3
_SCANS = 4  # of a process; the first one, in which the worker starts, is left out
_TIMEOUT_SECONDS = 300


def callback(scale: Scale) -> tuple[float, str]:
    """Compare all files through the callback of C with the batches in this process."""
    sources = [*LIBRARY, Path(__file__).with_name("callback.c")]
    program = str(compiled("callback", sources, "-O2"))
    command = [program, str(scale.large), str(_SCANS)]
    return _compared(scale.large, lambda: _seconds(command, os.environ | HOST))


def csharp(scale: Scale) -> tuple[float, str]:
    """Compare all files as objects of C# with the batches in this process."""
    built = sdk.build(*_PROJECTS)
    settings = [{"table": str(scale.large), "quiet": True}] * _SCANS
    command = [sdk.dotnet(), str(built / "Driver.dll"), json.dumps(settings)]
    environment = sdk.environment() | HOST
    environment["LD_LIBRARY_PATH"] += f":{shared_library().parent}"
    return _compared(scale.large, lambda: _seconds(command, environment))


def _compared(table: Path, host: Callable[[], list[float]]) -> tuple[float, str]:
    ours, theirs = [], []
    for _ in range(_ROUNDS):
        theirs += _in_process(table)
        ours += host()
    there, here = statistics.median(ours), statistics.median(theirs)
    return there / here, f"{there * 1e3:.0f} ms against {here * 1e3:.0f} ms"


def _in_process(path: Path) -> list[float]:
    seconds, table = [], ld.Table.open(path)
    for _ in range(_SCANS):
        started = time.perf_counter()
        for _ in table.scan().file_batches():
            pass
        seconds.append(time.perf_counter() - started)
    return seconds[1:]


def _seconds(command: Sequence[str], environment: dict[str, str]) -> list[float]:
    done = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, stderr=sys.stderr, text=True,
        timeout=_TIMEOUT_SECONDS, check=True,
    )  # fmt: skip
    return [float(line.split()[0]) for line in done.stdout.splitlines()][1:]
