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
        self._hosts: dict[str, subprocess.Popen[str]] = {}

    def run(self, *settings, **environment):
        """Run scans in a process that tests share: the files of each as mappings, and its last line."""
        name = repr(environment)
        if name not in self._hosts:
            self._hosts[name] = subprocess.Popen(
                self._command,
                env=self._environment | environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        host = self._hosts[name]
        host.stdin.write(json.dumps(settings, default=os.fspath) + "\n")
        host.stdin.flush()
        return [self._scan(host) for _ in settings]

    def _scan(self, host):
        files = []
        while (line := host.stdout.readline()).startswith("{"):
            files.append(json.loads(line))
        assert line, host.stderr.read()
        return files, line.rstrip("\n")

    def close(self):
        """End the processes."""
        for host in self._hosts.values():
            with host:
                _, errors = host.communicate(timeout=_RUN_SECONDS)
            assert host.returncode == 0, errors

    def lines(self, settings):
        """Run the program once, and return its lines."""
        done = subprocess.run(
            [*self._command, json.dumps(settings, default=os.fspath)],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=_RUN_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()


@pytest.fixture(scope="session")
def driver():
    driver = driver_of("Driver")
    yield driver
    driver.close()


def driver_of(project):
    try:
        return Driver(project)
    except Unavailable as reason:
        pytest.skip(str(reason))
