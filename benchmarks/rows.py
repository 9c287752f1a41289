"""Tables with all their data files, to read rows from: eight columns, clustered on `id`.

File `i` always has the same rows under one seed, so the expected result of a query needs no read.
Tables of one seed and size share their data files as hard links. There is no checkpoint: the log is
one commit.
"""

from __future__ import annotations

import json
import shutil
import uuid
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.columns import Template, mix
from benchmarks.spec import FILTER_IDS
from benchmarks.vectors import write_vectors

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.columns import Integers
    from benchmarks.spec import RowsSpec

__all__ = ["file_rows", "generate_rows"]

_COMMIT = f"{0:020d}.json"
_VECTORS_PER_FILE = 50
_KINDS = Template("category-<n:3>").render(n=np.arange(40))  # twelve characters
_NAME = Template("customer-<n:11>")  # twenty
_TYPES = {
    "id": "long",
    "value": "double",
    "kind": "string",
    "name": "string",
    "ts": "timestamp",
    "day": "date",
    "price": "decimal(12,2)",
    "qty": "integer",
}
_EPOCH_MS = 1_767_225_600_000  # 2026-01-01
_YEAR_MS = 365 * 86_400_000
_MILLISECONDS_PER_DAY = 86_400_000


def _draw(spec: RowsSpec, rows: Integers, salt: int, high: int) -> Integers:
    bits = mix(rows, spec.seed * 1000 + salt)
    return ((bits >> np.uint64(11)) % np.uint64(high)).astype(np.int64)


def _row_numbers(spec: RowsSpec, number: int) -> Integers:
    first = number % spec.originals * spec.rows_per_file
    return np.arange(first, first + spec.rows_per_file, dtype=np.int64)


def _decimals(cents: Integers) -> pa.Array:
    """Return cents as `decimal(12,2)`; they are not negative, so the high word is zero."""
    words = np.zeros((len(cents), 2), np.int64)
    words[:, 0] = cents
    return pa.Array.from_buffers(pa.decimal128(12, 2), len(cents), [None, pa.py_buffer(words)])


def file_rows(spec: RowsSpec, number: int) -> pa.Table:
    """Return the rows of one data file, including the deleted ones."""
    rows = _row_numbers(spec, number)
    moment = _EPOCH_MS + _draw(spec, rows, 4, _YEAR_MS)
    some = (_draw(spec, rows, salt, 50) == 0 for salt in (10, 11))  # 2 % nulls in two columns
    return pa.table(
        {
            "id": pa.array(rows * spec.id_step),
            "value": pa.array(_draw(spec, rows, 1, 10**12) / 977, mask=next(some)),
            "kind": _KINDS.take(pa.array(_draw(spec, rows, 2, len(_KINDS)))),
            "name": _NAME.render(n=_draw(spec, rows, 3, 10**11)),
            "ts": pa.array(moment * 1000).cast(pa.timestamp("us", "UTC")),
            "day": pa.array((moment // _MILLISECONDS_PER_DAY).astype(np.int32)).cast(pa.date32()),
            "price": _decimals(_draw(spec, rows, 5, 10**8)),
            "qty": pa.array(_draw(spec, rows, 6, 1000).astype(np.int32), mask=next(some)),
        }
    )


def _deleted(spec: RowsSpec, number: int) -> Integers:
    """Return the positions of the deleted rows of a file."""
    return np.flatnonzero(_draw(spec, _row_numbers(spec, number), 20, 100) < spec.deleted_percent)


def _in_filter(spec: RowsSpec, number: int) -> Integers:
    """Return the positions of a file's rows that `FILTER_IDS` selects."""
    ids = _row_numbers(spec, number) * spec.id_step
    return np.flatnonzero((ids >= FILTER_IDS[0]) & (ids <= FILTER_IDS[1]))


def _as_json(value: Any, kind: str) -> Any:
    if kind == "timestamp":
        return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return float(value) if kind.startswith("decimal") else str(value) if kind == "date" else value


def _stats(rows: pa.Table) -> dict[str, Any]:
    least, greatest = {}, {}
    for name, kind in _TYPES.items():
        bounds = pc.min_max(rows[name]).as_py()
        least[name], greatest[name] = (_as_json(bounds[end], kind) for end in ("min", "max"))
    return {
        "numRecords": rows.num_rows,
        "minValues": least,
        "maxValues": greatest,
        "nullCount": {name: rows[name].null_count for name in _TYPES},
    }


def _header(spec: RowsSpec) -> list[dict[str, Any]]:
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in _TYPES.items()
    ]
    protocol: dict[str, Any] = {"minReaderVersion": 1, "minWriterVersion": 2}
    if spec.deleted_percent:
        features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
        protocol = {"minReaderVersion": 3, "minWriterVersion": 7, **features}
    settings = {"delta.enableDeletionVectors": "true"} if spec.deleted_percent else {}
    metadata = {
        "id": "5c1f4d0e-2b7a-4c7d-9a51-6d0e3f8b9c24",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": [],
        "configuration": settings,
        "createdTime": _EPOCH_MS,
    }
    info = {"operation": "WRITE", "engineInfo": "benchmarks", "timestamp": _EPOCH_MS}
    return [{"commitInfo": info}, {"protocol": protocol}, {"metaData": metadata}]


def _data_file(number: int) -> str:
    return f"part-{number:05d}-c000.snappy.parquet"


def _link(source: Path, target: Path) -> None:
    try:
        target.hardlink_to(source)
    except OSError:  # the file system has no hard links, or this file has too many
        shutil.copyfile(source, target)


def _write_data(spec: RowsSpec, where: Path, number: int) -> dict[str, Any]:
    """Write one data file and return its `add`."""
    path, rows = where / _data_file(number), file_rows(spec, number)
    pq.write_table(  # as Spark writes it: decimals as integers, no Arrow schema in the footer
        rows, path, compression="snappy", store_schema=False, store_decimal_as_integer=True
    )
    return {
        "path": path.name,
        "partitionValues": {},
        "size": path.stat().st_size,
        "modificationTime": _EPOCH_MS,
        "dataChange": True,
        "stats": json.dumps(_stats(rows)),
    }


def _adds_of(table: Path) -> list[dict[str, Any]]:
    """Return the adds of a table that `generate_rows` made."""
    lines = (table / "_delta_log" / _COMMIT).read_text().splitlines()
    return [action["add"] for action in map(json.loads, lines) if "add" in action]


def _data_files(spec: RowsSpec, where: Path, share: Path | None) -> list[dict[str, Any]]:
    """Write or link all data files into the directory and return their adds."""
    if share is None:
        originals = [_write_data(spec, where, number) for number in range(spec.originals)]
    else:
        originals = _adds_of(share)
    adds = []
    for number in range(spec.files):
        add = originals[number % spec.originals]
        name = _data_file(number)
        if not (where / name).exists():
            _link((share or where) / add["path"], where / name)
        adds.append(add | {"path": name})
    return adds


def _add_vectors(spec: RowsSpec, where: Path, adds: list[dict[str, Any]]) -> None:
    for start in range(0, len(adds), _VECTORS_PER_FILE):
        some = adds[start : start + _VECTORS_PER_FILE]
        deleted = [_deleted(spec, start + n) for n in range(len(some))]
        identity = uuid.uuid5(uuid.NAMESPACE_OID, f"{spec.seed} {start}")
        for add, vector in zip(some, write_vectors(where, identity, deleted), strict=True):
            if vector["cardinality"]:
                add["deletionVector"] = vector
                add["stats"] = json.dumps(json.loads(add["stats"]) | {"tightBounds": False})


def _facts(spec: RowsSpec) -> dict[str, int]:
    live, matching = [], []
    for number in range(spec.originals):
        deleted = _deleted(spec, number)
        live.append(spec.rows_per_file - len(deleted))
        matching.append(len(np.setdiff1d(_in_filter(spec, number), deleted, assume_unique=True)))
    uses = np.bincount(np.arange(spec.files) % spec.originals)
    return {
        "version": 0,
        "live_files": spec.files,
        "live_rows": int(uses @ live),
        "rows_in_filter": int(uses @ matching),
    }


def generate_rows(spec: RowsSpec, where: Path, *, share: Path | None = None) -> dict[str, int]:
    """Write the table into the directory `where`, which must not exist yet; return the facts.

    Args:
        spec: The options of the table.
        where: The directory.
        share: The table of `spec.base`, if it exists: its data files are linked, not written.
    """
    log = where / "_delta_log"
    log.mkdir(parents=True)
    adds = _data_files(spec, where, share)
    if spec.deleted_percent:
        _add_vectors(spec, where, adds)
    lines = [*_header(spec), *({"add": add} for add in adds)]
    text = "\n".join(json.dumps(line, separators=(",", ":")) for line in lines)
    (log / _COMMIT).write_text(text + "\n")
    facts = _facts(spec)
    (where / "expected.json").write_text(json.dumps(facts))
    return facts
