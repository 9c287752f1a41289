"""Runs the command in this process or in a subprocess, and builds the table of most tests."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

from lazydelta.cli import main
from tests.builders import TableBuilder, add

ROOT = Path(__file__).parent.parent.parent


def run(*args):
    """Run the command here; the result has `exit_code`, `stdout` and `stderr`."""
    apart = {"mix_stderr": False} if "mix_stderr" in inspect.signature(CliRunner).parameters else {}
    return CliRunner(**apart).invoke(main, [str(arg) for arg in args], prog_name="lazydelta")


def command(*args):
    return [sys.executable, "-m", "lazydelta", *map(str, args)]


def environment(**more):
    """Return the environment of a subprocess that imports the package of this tree."""
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    return os.environ | {"PYTHONPATH": path} | more


def start(*args, **how):
    return subprocess.Popen(
        command(*args), env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, **how
    )


def build(directory):
    """Build a table of five files over a checkpoint: partitioned, one removed, one vector."""
    table = TableBuilder(
        directory,
        schema={"id": "long", "day": "date"},
        partition_by=["day"],
        configuration={"delta.enableDeletionVectors": "true"},
    )
    table.commit("+day=2026-01-01/a +day=2026-01-01/b +day=2026-01-02/c", at_ms=1_700_000_000_000)
    table.commit("-day=2026-01-01/a", at_ms=1_700_000_060_000).checkpoint().hint()
    table.commit("+day=2026-01-03/d +day=2026-01-03/e#v1", at_ms=1_700_000_120_000)
    table.commit("+day=2026-01-04/f", at_ms=1_700_000_180_000)
    return table


def big(directory, files=20_000):
    """Build a table whose file list exceeds the buffer of a pipe."""
    table = TableBuilder(directory, schema={"id": "long"})
    table.commit(*(add(f"part-{number:08d}.parquet") for number in range(files)))
    return table
