"""Tables of the tests of MERGE."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

import lazydelta as ld

VECTORS = {"delta.enableDeletionVectors": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}


def make(directory, count=6, properties=VECTORS, files=1, **options):
    step = count // files
    for start in range(0, count, step):
        ids = list(range(start, start + step))
        rows = {"id": ids, "name": [f"n{i}" for i in ids], "v": [float(i) for i in ids]}
        ld.write(directory, rows, properties=None if start else properties, **options)
    return ld.Table.open(directory)


def rows_of(table, key="id"):
    return sorted(table.to_arrow().to_pylist(), key=lambda row: (row[key] is None, row[key]))


def ids_of(table):
    return [row["id"] for row in rows_of(table)]


def files_of(table):
    return sorted(f for f in Path(table.url).rglob("*") if f.is_file() and f.suffix != ".crc")


NESTED = pa.schema([
    ("id", pa.int64()),
    ("a", pa.struct([("x", pa.int64()), ("y", pa.struct([("z", pa.string())]))])),
    ("l", pa.list_(pa.struct([("x", pa.int64()), ("y", pa.string())]))),
    ("m", pa.map_(pa.string(), pa.int64())),
])  # fmt: skip


def nested_table(directory):
    rows = [
        {"id": 1, "a": {"x": 1, "y": {"z": "q"}}, "l": [{"x": 1, "y": "b"}], "m": [("k", 1)]},
        {"id": 2, "a": None, "l": None, "m": None},
    ]
    ld.write(directory, pa.Table.from_pylist(rows, NESTED), properties=VECTORS)
    return ld.Table.open(directory)
