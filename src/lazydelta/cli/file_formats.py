"""Format batches of files as NDJSON, CSV, tab-separated or aligned lines, a batch at a time.

Arrow concatenates whole columns, so that printing keeps up with scanning. Only values that Arrow
cannot escape (control characters) or that need validation (statistics, JSON of another writer) are
formatted one by one.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TypeAlias

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import string_scalar
from lazydelta.cli.column_formats import iso, join_lines, printable, to_json, to_string
from lazydelta.cli.output import human_bytes, visible

__all__ = ["FORMATS", "HUMAN_HEADER", "csv_header"]

Formatter: TypeAlias = Callable[[pa.RecordBatch], bytes]

HUMAN_HEADER = f"{'SIZE':>10}  {'MODIFIED (UTC)':<16}  PATH"

_TAB, _CLOSE = map(string_scalar, "\t}")


def ndjson(batch: pa.RecordBatch) -> bytes:
    """Return one JSON object per file."""
    parts: list[pa.Array | pa.Scalar] = []
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        opening = string_scalar(f'{"," if parts else "{"}"{name}":')
        value = _embedded(array) if name == "stats" else to_json(array)
        parts += [opening, value]
    return join_lines([*parts, _CLOSE])


def tsv(batch: pa.RecordBatch) -> bytes:
    """Return one tab-separated line per file."""
    fields = [printable(array) for array in _flat(batch).values()]
    parts = [part for field in fields for part in (_TAB, field)]
    return join_lines(parts[1:])


def csv(batch: pa.RecordBatch) -> bytes:
    """Return one line of RFC 4180 CSV per file, without a header."""
    return _csv(pa.RecordBatch.from_pydict(_flat(batch)))


def csv_header(batch: pa.RecordBatch) -> bytes:
    """Return the CSV header."""
    return ",".join(_flat(batch.slice(0, 0))).encode() + b"\r\n"


def human(batch: pa.RecordBatch) -> bytes:
    """Return one aligned line per file: size, time, path, and the number of deleted rows."""
    sizes = batch.column("size").to_pylist()
    times = iso(batch.column("modification_time")).to_pylist()
    deleted = pc.struct_field(batch.column("deletion_vector"), "cardinality").to_pylist()
    paths = batch.column("path").to_pylist()
    lines = [
        f"{human_bytes(size):>10}  {_short(time):<16}  {visible(path)}"
        f"{'' if rows is None else f'  ({rows:,} rows deleted)'}\n"
        for size, time, rows, path in zip(sizes, times, deleted, paths, strict=True)
    ]
    return "".join(lines).encode()


FORMATS: dict[str, Formatter] = {"json": ndjson, "csv": csv, "tsv": tsv, "human": human}


def _flat(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """Return the fields as columns of numbers and strings; a vector becomes its cardinality."""
    flat: dict[str, pa.Array] = {}
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        if name == "deletion_vector":
            flat["deleted_rows"] = pc.struct_field(array, "cardinality")
        elif pa.types.is_map(array.type):
            flat[name] = to_string(array)
        elif pa.types.is_timestamp(array.type):
            flat[name] = iso(array)
        else:
            flat[name] = array
    return flat


def _csv(batch: pa.RecordBatch) -> bytes:
    import pyarrow.csv as pa_csv

    sink = io.BytesIO()
    options = pa_csv.WriteOptions(include_header=False, eol="\r\n")
    pa_csv.write_csv(batch, sink, options)
    return sink.getvalue()


def _embedded(stats: pa.Array) -> pa.Array:
    """Return statistics verbatim if they are valid JSON, else as a JSON string."""
    return pa.array([_valid_json(value) for value in stats.to_pylist()], pa.string())


def _valid_json(value: str | None) -> str:
    if value is None:
        return "null"
    try:
        orjson.loads(value)
    except orjson.JSONDecodeError:
        return orjson.dumps(value).decode()
    return " ".join(value.splitlines())  # between tokens only: JSON strings hold no line break


def _short(time: str | None) -> str:
    return "-" if time is None else time[:16].replace("T", " ")
