"""A C program that uses the C library, and tables for it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.builders import TableBuilder, add
from tests.capi.compiler import HOST, LIBRARY, compiled

PLAIN = {"minReaderVersion": 1, "minWriterVersion": 2}
_RUN_SECONDS = 120


class Driver:
    """Runs the C program in the way that hosts run."""

    def __init__(self, *command: str | Path) -> None:
        self._command = command
        self._hosts: dict[str, subprocess.Popen[str]] = {}

    def start(self, *arguments, **environment):
        """Start it; the caller ends it."""
        return subprocess.Popen(
            [*map(str, (*self._command, *arguments))],
            env=os.environ | HOST | environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="surrogateescape",
        )

    def run(self, *arguments, **environment):
        """Run a command in a host that other tests share, and return the lines it prints."""
        name = repr(environment)
        if name not in self._hosts:
            self._hosts[name] = self.start(**environment)
        host = self._hosts[name]
        host.stdin.write("\t".join(map(str, arguments)) + "\n")
        host.stdin.flush()
        lines = []
        while (line := host.stdout.readline()) != "end of command\n":
            assert line, host.stderr.read()
            lines.append(line.rstrip("\n"))
        return lines

    def close(self):
        """End the hosts: with no error, and no worker left."""
        for host in self._hosts.values():
            with host:
                output, errors = host.communicate(timeout=_RUN_SECONDS)
            assert (host.returncode, output) == (0, "children \n"), errors


@pytest.fixture(scope="session")
def driver():
    """The program with AddressSanitizer, which also finds leaks, and checks of behaviour."""
    driver = sanitized("address,undefined")
    yield driver
    driver.close()


def sanitized(sanitizer):
    return Driver(_program(f"-fsanitize={sanitizer}", "-fno-sanitize-recover"))


def checked_by_valgrind():
    """Return the program with every access to memory checked; close() fails if it found anything."""
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        pytest.skip("valgrind is not installed")
    return Driver(valgrind, "--leak-check=full", "--error-exitcode=9", _program())


def _program(*flags):
    return compiled("driver", [*LIBRARY, Path(__file__).with_name("driver.c")], "-O1", *flags)


@pytest.fixture(scope="session")
def files_table(tmp_path_factory):
    """A table of ten files, of different sizes, in a checkpoint and a commit after it."""
    directory = tmp_path_factory.mktemp("files") / "a table"
    table = TableBuilder(directory, protocol=PLAIN)
    added = [add(f"file-{number}", size=1 << number) for number in range(12)]
    table.commit(*added[:4])
    table.commit(*added[4:8], "-file-1")
    table.checkpoint()
    table.commit(*added[8:], "-file-6")
    return directory


@pytest.fixture(scope="session")
def many_files_table(tmp_path_factory):
    """A table with more files than a socket's buffer holds in batches of one."""
    directory = tmp_path_factory.mktemp("many")
    names = " ".join(f"+file-{number}" for number in range(3000))
    TableBuilder(directory, protocol=PLAIN).commit(names)
    return directory


@pytest.fixture(scope="session")
def partitioned_table(tmp_path_factory):
    directory = tmp_path_factory.mktemp("partitioned")
    table = TableBuilder(
        directory,
        schema={"id": "long", "day": "date", "hour": "integer"},
        partition_by=["day", "hour"],
        protocol=PLAIN,
    )
    files = ("day=2026-05-01/hour=1/early", "day=2026-05-02/hour=1/late", "day=2026-05-02/hour=3/x")
    table.commit(" ".join(f"+{file}" for file in files))
    return directory


@pytest.fixture(scope="session")
def table_with_vectors(tmp_path_factory):
    directory = tmp_path_factory.mktemp("vectors")
    TableBuilder(directory).commit("+a +b#dv1")
    return directory
