"""Reads files with mutated footers and reports the outcome of each.

Run as a program, because a crash must not end the test process. It prints the name of a case before
reading it, and the outcome after.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from decimal import Decimal
from functools import partial
from pathlib import Path

import pyarrow as pa

from lazydelta import Config, Table
from lazydelta.errors import DeltaError
from lazydelta.store import MemoryStore
from tests.builders import TableBuilder
from tests.footers import changes, footer_of, with_footer
from tests.native.support import without_decoder
from tests.unit.scan.read.tables import Rows, field

REPOSITORY = Path(__file__).parents[2]
SECONDS = 600
COUNT = 40
QUICK = Config(retry_base_seconds=0.0001, retry_cap_seconds=0.0001)
FIELDS = [
    field("i", "integer"), field("l", "long"), field("g", "double"), field("b", "boolean"),
    field("s", "string"), field("raw", "binary"), field("d", "decimal(20,2)"),
    field("t", "timestamp"),
    field("li", {"type": "array", "elementType": "long", "containsNull": True}),
]  # fmt: skip
WHERE = (
    "i > 5", "l <= 20 and g >= 1.0", "s >= 'v3'", "d < 10.5", "t > timestamp '1969-01-01 00:00:00'",
    "b", "raw is null or i is null",
)  # fmt: skip


def rows():
    numbers = range(COUNT)
    return pa.table(
        {
            "i": pa.array([None if n % 9 == 0 else n for n in numbers], pa.int32()),
            "l": pa.array(numbers, pa.int64()),
            "g": [float(n) for n in numbers],
            "b": [n % 2 == 0 for n in numbers],
            "s": [f"v{n % 7}" for n in numbers],
            "raw": [b"\xff" * (n % 5) for n in numbers],
            "d": pa.array([Decimal(n) for n in numbers], pa.decimal128(20, 2)),
            "t": pa.array(numbers, pa.timestamp("us", "UTC")),
            "li": pa.array([[n, None] for n in numbers], pa.list_(pa.int64())),
        }
    )


def judged(kind, *, decoder, every, first=0):
    """Return the outcome of each case: `rows` or `refused`."""
    arguments = [kind, "compiled" if decoder else "plain", str(every), str(first)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.bad_input.footer_judge", *arguments],
        cwd=REPOSITORY, capture_output=True, text=True, check=False,
        timeout=SECONDS,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    assert done.returncode == 0, (lines[-1:], done.stderr[-3000:])
    return lines[1::2]


def _data_files(cases_of):
    """Read data files: all rows, and filtered ones with the statistics."""
    with tempfile.TemporaryDirectory() as place:
        made = Rows(Path(place) / "t", FIELDS)
        made.file("a.parquet", rows(), row_group_size=COUNT, use_dictionary=["s"]).commit()
        file = made.path / "a.parquet"
        whole = file.read_bytes()
        snapshot = made.open().snapshot()
        for at, (name, footer) in cases_of(footer_of(whole)):
            file.write_bytes(with_footer(whole, footer))
            where = WHERE[at % len(WHERE)]
            _try(f"{name}: {where}", snapshot.scan().to_arrow, snapshot.scan(where).to_arrow)


def _checkpoints(cases_of):
    """Read checkpoints of a table without commits."""
    store = MemoryStore(root="/memory")
    builder = TableBuilder(store)
    for line in ("+a +b +c", "-a +d", "+e -b +b#v1", "+f +g"):
        builder.commit(line)
    builder.checkpoint("classic", version=3)
    builder.clean_up(4)
    name = next(name for name in builder.names() if ".checkpoint" in name)
    whole = builder.read(name)
    for _, (what, footer) in cases_of(footer_of(whole)):
        builder.write(name, with_footer(whole, footer))
        _try(what, *(partial(_files, store, strategy) for strategy in ("reverse", "forward")))


def _files(store, strategy):
    with Table(store, QUICK).scan(strategy=strategy).file_batches() as batches:
        return list(batches)


def _try(name, *readings):
    sys.stdout.write(f"{name}\n")
    sys.stdout.flush()
    found = set()
    for reading in readings:
        try:
            reading()
            found.add("rows")
        except DeltaError as error:
            assert str(error)
            found.add("refused")
    sys.stdout.write(f"{'rows' if 'rows' in found else 'refused'}\n")


def main(kind, decoder, every, first):
    def cases_of(footer):
        return enumerate(changes(footer, every=int(every), first=int(first)))

    logging.disable(logging.WARNING)
    with nullcontext() if decoder == "compiled" else without_decoder():
        {"data": _data_files, "checkpoint": _checkpoints}[kind](cases_of)


if __name__ == "__main__":
    main(*sys.argv[1:])
