"""A writer for a test to kill, which prints its progress.

It prints `intent <id>` before a write and `ack <id> <version>` after it, or `found <id> <version>` if
the write was committed before; `rows <json>` has all ids, at the start and at the end.

As a program it imports the engine and forks a writer for each input line: like a new interpreter,
without its start-up time.
"""

from __future__ import annotations

import json
import os
import sys
import traceback

import numpy as np
import pyarrow as pa

from lazydelta import Config, Table
from lazydelta._arrow import from_numpy
from lazydelta._failpoints import arm_from_env
from lazydelta.operations import WriteRequest, write_rows
from lazydelta.store import open_store
from tests.crash import verbs

ROWS = 3


def report(*words):
    print(*words, flush=True)  # noqa: T201 - its output is the protocol with the test


def append(url, number, options=None, observer=None):
    report("intent", number)
    request = WriteRequest(mode="append", app_id=f"step-{number}", app_version=1)
    # pyarrow would import pandas for a Python list, which is slow.
    rows = pa.table({"id": from_numpy(np.full(ROWS, number))})
    result = write_rows(open_store(url, options), Config(), rows, request, observer=observer)
    report("found" if result.already_applied else "ack", number, result.version)


def with_rival(url, number, options=None):
    """Append, after losing a race to another append of this process."""
    rivals = iter([number + 1000])

    def observer(phase, version):
        if phase == "prepared" and (rival := next(rivals, None)) is not None:
            append(url, rival, options)

    append(url, number, options, observer)


def main(url, first, count, kind, options=None):
    table = Table.open(url, storage_options=options)
    if kind == "racing-verbs":
        verbs.run_racing(table, first, count, report)
        return
    if kind.startswith(verbs.KINDS):
        steps, rival = range(first, first + count), kind.endswith("-rival")
        verbs.run(table, steps, report, kind=kind.removesuffix("-rival"), rival=rival)
        return
    report("rows", json.dumps(table.to_arrow()["id"].to_pylist()))
    for number in range(first, first + count):
        (with_rival if kind == "rival" else append)(url, number, options)
    report("rows", json.dumps(table.to_arrow()["id"].to_pylist()))


def _start(*, output, errors, failpoint, arguments):
    """Fork a writer and return its process id."""
    if pid := os.fork():
        return pid
    code = 1
    try:
        for descriptor, path in ((1, output), (2, errors)):
            os.dup2(os.open(path, os.O_WRONLY | os.O_APPEND), descriptor)
        arm_from_env(failpoint)
        main(*arguments)
        code = 0
    except BaseException:  # noqa: BLE001 - the child must never continue as the parent
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _poll(pid):
    """Return the exit code: None while it runs, the negative signal if it was killed."""
    ended, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if ended else None


def serve():
    """Answer each line `[command, argument]` with one line."""
    for line in sys.stdin:
        command, argument = json.loads(line)
        report(json.dumps(_start(**argument) if command == "start" else _poll(argument)))


if __name__ == "__main__":
    serve()
