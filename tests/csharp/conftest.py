"""A C# program that uses the client, built by a real SDK."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.capi.compiler import HOST, shared_library
from tests.csharp import sdk
from tests.emulators.programs import Unavailable

ROOT = Path(__file__).parents[2]
CLIENT = ROOT / "clients" / "csharp" / "LazyDelta"
_RUN_SECONDS = 120


class Driver:
    """Runs the program with settings, and parses the lines that it prints."""

    def __init__(self, project: str) -> None:
        built = sdk.build(CLIENT, Path(__file__).parent / project)
        self._command = [sdk.dotnet(), str(built / f"{project}.dll")]
        self._environment = sdk.environment() | HOST
        library = shared_library().parent
        self._environment["LD_LIBRARY_PATH"] += f":{library}"

    def run(self, *settings, **environment):
        """Run scans in one process: the files of each as mappings, and its last line."""
        scans, files = [], []
        for line in self.lines([*settings], **environment):
            if line.startswith("{"):
                files.append(json.loads(line))
            else:
                scans.append((files, line))
                files = []
        assert len(scans) == len(settings)
        return scans

    def lines(self, settings, **environment):
        """Return all lines."""
        done = subprocess.run(
            [*self._command, json.dumps(settings, default=os.fspath)],
            env=self._environment | environment,
            capture_output=True,
            text=True,
            timeout=_RUN_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()


@pytest.fixture(scope="session")
def driver():
    return driver_of("Driver")


def driver_of(project):
    try:
        return Driver(project)
    except Unavailable as reason:
        pytest.skip(str(reason))
