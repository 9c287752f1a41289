"""Tables of small files, and the rows of their versions as two engines read them."""

from __future__ import annotations

import deltalake
import orjson
import pyarrow as pa

import lazydelta as ld

__all__ = ["VECTORS", "actions", "make", "numbered", "rows_of", "theirs"]

VECTORS = {"delta.enableDeletionVectors": "true"}
SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string()), ("v", pa.float64())])


def numbered(count, start=0):
    return [{"id": i, "p": "ab"[i % 2], "v": float(i)} for i in range(start, start + count)]


def make(directory, rows, properties=None, partition_by=(), files=4):
    """Return a table whose rows are in so many commits."""
    step = max(1, -(-len(rows) // files))
    for start in range(0, len(rows), step):
        part = pa.Table.from_pylist(rows[start : start + step], SCHEMA)
        first = {"properties": properties or {}, "partition_by": list(partition_by)}
        ld.write(directory, part, **({} if start else first))
    return ld.Table.open(directory)


def rows_of(table, version=None):
    """Return the rows of a version in a fixed order."""
    return sorted(map(repr, table.snapshot(version).to_arrow().to_pylist()))


def theirs(table):
    """Return the rows as deltalake reads them."""
    found = deltalake.DeltaTable(table.url)
    query = deltalake.QueryBuilder().register("t", found).execute("select * from t")
    return sorted(map(repr, pa.table(query.read_all()).to_pylist()))


def actions(table, version, kind):
    """Return the actions of one kind in a commit."""
    with open(f"{table.url}/_delta_log/{version:020d}.json", "rb") as lines:  # noqa: PTH123
        return [line[kind] for line in map(orjson.loads, lines) if kind in line]
