"""Worker processes: threads, cancellation, and workers that die."""

from __future__ import annotations

import os
import signal
import time
from errno import ECANCELED
from pathlib import Path

import pytest

from tests.capi.conftest import checked_by_valgrind, sanitized

ONE_FILE = {"LAZYDELTA_BATCH_ROWS": "1"}


class Paused:
    """A driver that waits after its first line of children."""

    def __init__(self, process):
        self.process = process
        self.lines = []
        for line in process.stdout:
            if line.startswith("children"):
                (self.worker,) = map(int, line.split()[1:])
                break
            self.lines.append(line.rstrip("\n"))

    def finish(self):
        """Let it continue, and return the rest of its lines."""
        output, errors = self.process.communicate("\n", timeout=60)
        assert self.process.returncode == 0, errors
        return output.splitlines()


@pytest.fixture
def paused(driver, many_files_table):
    """A function that starts the driver, and returns it when it waits."""
    started = []

    def start(*arguments):
        command, *others = arguments
        process = driver.start(command, many_files_table, *others, **ONE_FILE)
        started.append(process)
        return Paused(process)

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_threads_scan_side_by_side(driver, files_table):
    assert driver.run("threads", files_table) == ["thread 10 0"] * 12


@pytest.mark.long
@pytest.mark.parametrize(
    "checked",
    [
        pytest.param(lambda: sanitized("thread"), id="no-memory-is-shared-without-a-lock"),
        pytest.param(checked_by_valgrind, id="no-memory-is-lost-or-read-uninitialized"),
    ],
)
def test_a_checker_finds_nothing(checked, files_table, tmp_path):
    driver = checked()
    assert driver.run("threads", files_table) == ["thread 10 0"] * 12
    assert driver.run("lazy", tmp_path, "7", 0, 0)[-1].startswith("status -3 PredicateError|")
    assert driver.run("lazy", files_table, "NULL", 0, 3)[-1] == "status 1 |"
    assert driver.run("stream", files_table, "", "", 0, 1)[-1] == "status 0 |"
    assert len(driver.run("outlive", files_table)) == 1
    driver.close()


def test_a_worker_that_is_killed_fails_its_scan_only(paused):
    host = paused("stream", "", "", 1, 0)
    os.kill(host.worker, signal.SIGKILL)
    *_, errno, status, children = host.finish()
    assert errno.startswith("errno 5 the worker process ended")
    assert status.startswith("status -14 WorkerDiedError|")
    assert children == "children ", "a zombie is left"


@pytest.mark.parametrize("microseconds", [1000, 0], ids=["slow", "waiting for the worker"])
def test_another_thread_cancels_a_reader_that_is(paused, microseconds):
    host = paused("cancel", microseconds)
    errno, status, children, _ = host.finish()
    assert errno == f"errno {ECANCELED}"
    assert status.startswith("status -1 CancelledError|")
    assert children in {"children ", f"children {host.worker} "}


def test_a_worker_that_hangs_does_not_hold_up_a_cancelled_scan(paused):
    host = paused("cancel", 1000)
    os.kill(host.worker, signal.SIGSTOP)
    _, status, children, _ = host.finish()
    assert status.startswith("status -1 CancelledError|")
    assert children == "children ", "the stopped worker is left"


def test_workers_end_with_a_host_that_is_killed(paused):
    host = paused("stream", "", "", 1, 0)
    host.process.kill()
    deadline = time.monotonic() + 30
    while Path(f"/proc/{host.worker}").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not Path(f"/proc/{host.worker}").exists()


def test_a_forked_child_has_workers_of_its_own(driver, files_table):
    lines = driver.run("forks", files_table)
    assert lines == [*["thread 10 0"] * 3, *["thread 10 0"] * 3, "child 0", *["thread 10 0"] * 3]
