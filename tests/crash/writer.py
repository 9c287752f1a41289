"""A writer that a test may kill: it says what it is about to do and what it did.

`intent <id>` comes before a write, `ack <id> <version>` after it returned, or `found <id> <version>`
where it had been done before; `rows <json>` are all the ids that it reads, first and last.

As a program this loads the engine, uses nothing of it, and forks a writer for each line of its input:
as fresh as a new interpreter, without the second that one takes to start.
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

ROWS = 3


def say(*words):
    print(*words, flush=True)  # noqa: T201 - this is how it talks to the test


def append(url, number, observer=None):
    say("intent", number)
    request = WriteRequest(mode="append", app_id=f"step-{number}", app_version=1)
    # Of Python's own lists pyarrow would make an array with the help of pandas, which takes long.
    rows = pa.table({"id": from_numpy(np.full(ROWS, number))})
    result = write_rows(open_store(url), Config(), rows, request, observer=observer)
    say("found" if result.already_applied else "ack", number, result.version)


def with_rival(url, number):
    """Append, losing the first race to another append of this process."""
    rivals = iter([number + 1000])

    def observer(phase, version):
        if phase == "prepared" and (rival := next(rivals, None)) is not None:
            append(url, rival)

    append(url, number, observer)


def main(url, first, count, kind):
    say("rows", json.dumps(Table.open(url).to_arrow()["id"].to_pylist()))
    for number in range(first, first + count):
        (with_rival if kind == "rival" else append)(url, number)
    say("rows", json.dumps(Table.open(url).to_arrow()["id"].to_pylist()))


def _start(*, output, errors, failpoint, arguments):
    """Fork a writer, and return its process id."""
    if pid := os.fork():
        return pid
    code = 1
    try:
        for descriptor, path in ((1, output), (2, errors)):
            os.dup2(os.open(path, os.O_WRONLY | os.O_APPEND), descriptor)
        arm_from_env(failpoint)
        main(*arguments)
        code = 0
    except BaseException:  # noqa: BLE001 - nothing may go on as if this were the parent
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _poll(pid):
    """Return how a writer ended: None while it runs, the negative number of what killed it."""
    ended, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if ended else None


def serve():
    """Answer each line `[command, argument]` with one line."""
    for line in sys.stdin:
        command, argument = json.loads(line)
        say(json.dumps(_start(**argument) if command == "start" else _poll(argument)))


if __name__ == "__main__":
    serve()
