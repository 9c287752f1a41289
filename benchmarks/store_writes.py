"""Small appends to a table of an object store: `python -m benchmarks.store_writes ENGINE ...`.

A child process of `benchmarks.stores`. It opens the table and appends once before it reports that
it is ready, so that imports and the first load of the log are not measured. Then it waits for a
line on standard input.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING

import pyarrow as pa

from benchmarks.clock import load_lazydelta, storage_options

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["APPENDED_ROWS", "append_ids"]

APPENDED_ROWS = 100
_ATTEMPTS = 100
"""Attempts of one commit, for both engines; lazydelta's default."""


def append_ids(number: int) -> range:
    """Return the ids of one append; no other append has them."""
    return range(number * APPENDED_ROWS, (number + 1) * APPENDED_ROWS)


def _lazydelta(url: str) -> Callable[[pa.Table], object]:
    import lazydelta

    load_lazydelta()
    return lazydelta.Table.open(url, storage_options()).write


def _deltalake(url: str) -> Callable[[pa.Table], object]:
    import deltalake

    table = deltalake.DeltaTable(url, storage_options=storage_options())
    retries = deltalake.CommitProperties(max_commit_retries=_ATTEMPTS)
    return lambda rows: deltalake.write_deltalake(
        table, rows, mode="append", commit_properties=retries
    )


_ENGINES = {"lazydelta": _lazydelta, "deltalake": _deltalake}


def _run(engine: str, url: str, first: int, appends: int) -> None:
    """Append `1 + appends` times; standard output gets the result as JSON."""
    append, done = _ENGINES[engine](url), []

    def append_one(number: int) -> None:
        rows = pa.table({"id": pa.array(append_ids(number), pa.int64())})
        try:
            append(rows)
            done.append(number)
        except Exception as error:  # noqa: BLE001 - a peer gives up now and then; it is counted
            print(f"{engine}: {error}", file=sys.stderr)

    append_one(first)
    print("ready", flush=True)
    sys.stdin.readline()
    start = time.monotonic()
    for number in range(first + 1, first + 1 + appends):
        append_one(number)
    print(json.dumps({"start": start, "end": time.monotonic(), "done": done}), flush=True)


if __name__ == "__main__":
    _run(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
