"""A writer that a test may kill: run as a program, it says what it is about to do and what it did.

`intent <id>` comes before a write, `ack <id> <version>` after it returned; `rows <json>` are all the
ids that a fresh process reads, before anything is written.
"""

from __future__ import annotations

import json
import sys

from lazydelta import Config, Table
from lazydelta.ops import WriteRequest, write_rows
from lazydelta.store import open_store

ROWS = 3


def say(*words):
    print(*words, flush=True)  # noqa: T201 - this is how it talks to the test


def append(url, number, observer=None):
    say("intent", number)
    request = WriteRequest(mode="append", app_id=f"step-{number}", app_version=1)
    rows = {"id": [number] * ROWS}
    result = write_rows(open_store(url), Config(), rows, request, observer=observer)
    say("ack", number, result.version)


def with_rival(url, number):
    """Append, losing the first race to another append of this process."""
    rivals = iter([number + 1000])

    def observer(phase, version):
        if phase == "prepared" and (rival := next(rivals, None)) is not None:
            append(url, rival)

    append(url, number, observer)


def main(url, first, count, kind):
    say("rows", json.dumps(Table.open(url).to_arrow()["id"].to_pylist()))
    for number in range(int(first), int(first) + int(count)):
        (with_rival if kind == "rival" else append)(url, number)
    say("rows", json.dumps(Table.open(url).to_arrow()["id"].to_pylist()))


if __name__ == "__main__":
    main(*sys.argv[1:])
