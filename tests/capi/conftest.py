"""A C program that uses the C library, and tables for it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.builders import TableBuilder, add
from tests.capi.compiler import HOST, LIBRARY, compiled

PLAIN = {"minReaderVersion": 1, "minWriterVersion": 2}
_RUN_SECONDS = 120


class Driver:
    """Runs the C program in the way that hosts run."""

    def __init__(self, program: Path) -> None:
        self.program = program
        self.environment = os.environ | HOST

    def start(self, *arguments, **environment):
        """Start it; the caller ends it."""
        return subprocess.Popen(
            [str(self.program), *map(str, arguments)],
            env=self.environment | environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments, **environment):
        """Run it to its end, and return the lines it prints."""
        with self.start(*arguments, **environment) as process:
            try:
                output, errors = process.communicate(timeout=_RUN_SECONDS)
            finally:
                process.kill()
        assert process.returncode == 0, errors
        *lines, children = output.splitlines()
        assert children == "children ", "worker processes are left after delta_shutdown"
        return lines


@pytest.fixture(scope="session")
def driver():
    """The program with AddressSanitizer, which also finds leaks."""
    return sanitized("address")


def sanitized(sanitizer):
    sources = [*LIBRARY, Path(__file__).with_name("driver.c")]
    return Driver(compiled("driver", sources, "-O1", f"-fsanitize={sanitizer}"))


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
