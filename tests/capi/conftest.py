"""The C library, and a C program that uses it, compiled with AddressSanitizer."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


from tests.builders import TableBuilder, add

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "capi"
PLAIN = {"minReaderVersion": 1, "minWriterVersion": 2}
_COMPILE_SECONDS = 120
_RUN_SECONDS = 120


class Driver:
    """Runs the C program in the way that hosts run."""

    def __init__(self, program: Path) -> None:
        self.program = program
        self.environment = os.environ | {
            "LIBLAZYDELTA_PYTHON": sys.executable,
            "PYTHONPATH": str(ROOT / "src"),
        }

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
def compiled(tmp_path_factory):
    """A function that compiles the driver with a sanitizer."""
    directory = tmp_path_factory.mktemp("capi")

    def compiled(sanitizer):
        return Driver(compile_program(directory / sanitizer, f"-fsanitize={sanitizer}"))

    return compiled


@pytest.fixture(scope="session")
def driver(compiled):
    return compiled("address")


def compile_program(program, *flags):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler: install gcc to test the C library")
    command = [
        *(compiler, "-std=gnu11", "-g", "-O1", "-pthread", "-Wall", "-Wextra", "-Werror", *flags),
        *('-DLAZYDELTA_VERSION="test"', f"-I{SOURCES}", "-o", str(program)),
        *map(str, [*SOURCES.glob("*.c"), Path(__file__).with_name("driver.c")]),
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=_COMPILE_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    return program


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
