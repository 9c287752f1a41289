"""Compiles the C library; results are kept under a hash of what they are made of."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.emulators.programs import CACHE

ROOT = Path(__file__).parents[2]
LIBRARY = sorted((ROOT / "capi").glob("*.c"))
HOST = {"LIBLAZYDELTA_PYTHON": sys.executable, "PYTHONPATH": str(ROOT / "src")}
"""The environment of a host of the library: its workers run this working tree."""

_COMPILE_SECONDS = 120


def shared_library():
    """Return `liblazydelta.so`."""
    return compiled("liblazydelta.so", LIBRARY, "-O2", "-fPIC", "-shared", "-fvisibility=hidden")


def compiled(name, sources, *flags):
    """Return a program or library; without a compiler the test is skipped."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler: install gcc to test the C library")
    headers = sorted((ROOT / "capi").glob("*.h"))
    parts = [*map(str.encode, flags), *(path.read_bytes() for path in [*sources, *headers])]
    made = CACHE / "capi" / hashlib.sha256(b"\0".join(parts)).hexdigest()[:32] / name
    if not made.exists():
        made.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=made.parent) as staging:
            output = Path(staging, name)
            command = [
                *(compiler, "-std=gnu11", "-g", "-pthread", "-Wall", "-Wextra", "-Werror"),
                *('-DLAZYDELTA_VERSION="test"', f"-I{ROOT / 'capi'}", *flags),
                *("-o", str(output), *map(str, sources)),
            ]
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_COMPILE_SECONDS, check=False
            )
            assert done.returncode == 0, done.stderr
            output.rename(made)
    return made
