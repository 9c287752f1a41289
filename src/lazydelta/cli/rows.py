"""Batches of files -> text: NDJSON, CSV, tab-separated or aligned lines, a whole batch at a time.

Text is put together by Arrow, column by column, so that printing keeps up with scanning. Only
values that Arrow cannot escape (control characters) or must not trust (statistics, which are JSON
of somebody else) are handled one by one.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from lazydelta.cli.output import human_bytes, visible

__all__ = ["FORMATS", "HUMAN_HEADER", "csv_header"]

Formatter: TypeAlias = Callable[[pa.RecordBatch], bytes]

HUMAN_HEADER = f"{'SIZE':>10}  {'MODIFIED (UTC)':<16}  PATH"

# The characters that `visible` writes out, in the syntax of Arrow's regular expressions.
_CONTROL = r"[\x00-\x1f\x7f-\x{9f}\x{2028}-\x{202e}\x{2066}-\x{2069}]"
_TIME = "%Y-%m-%dT%H:%M:%SZ"


def _text(value: str) -> pa.StringScalar:
    """Return a string scalar; from buffers, because `pa.scalar` would import pandas."""
    data = value.encode()
    offsets = pa.py_buffer(np.array([0, len(data)], np.int32))
    return pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(data)])[0]


_EMPTY, _NULL, _QUOTE, _COMMA, _COLON = map(_text, ("", "null", '"', ",", ":"))
_TAB, _OPEN, _CLOSE, _NEWLINE = map(_text, ("\t", "{", "}", "\n"))


def ndjson(batch: pa.RecordBatch) -> bytes:
    """Return one JSON object per file."""
    parts: list[pa.Array | pa.Scalar] = []
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        opening = _text(f'{"," if parts else "{"}"{name}":')
        value = _embedded(array) if name == "stats" else _json(array)
        parts += [opening, value]
    return _joined([*parts, _CLOSE])


def tsv(batch: pa.RecordBatch) -> bytes:
    """Return one line per file, its fields separated by tabs."""
    fields = [_printable(array) for array in _flat(batch).values()]
    parts = [part for field in fields for part in (_TAB, field)]
    return _joined(parts[1:])


def csv(batch: pa.RecordBatch) -> bytes:
    """Return one line per file, as RFC 4180 has it, without a header."""
    return _csv(pa.RecordBatch.from_pydict(_flat(batch)))


def csv_header(batch: pa.RecordBatch) -> bytes:
    """Return the names of the fields as a line of CSV."""
    return ",".join(_flat(batch.slice(0, 0))).encode() + b"\r\n"


def human(batch: pa.RecordBatch) -> bytes:
    """Return one aligned line per file: size, time, path, and how many rows are deleted."""
    sizes = batch.column("size").to_pylist()
    times = _iso(batch.column("modification_time")).to_pylist()
    deleted = pc.struct_field(batch.column("deletion_vector"), "cardinality").to_pylist()
    paths = batch.column("path").to_pylist()
    lines = [
        f"{human_bytes(size):>10}  {_short(time):<16}  {visible(path)}"
        f"{'' if rows is None else f'  ({rows:,} rows deleted)'}\n"
        for size, time, rows, path in zip(sizes, times, deleted, paths, strict=True)
    ]
    return "".join(lines).encode()


FORMATS: dict[str, Formatter] = {"json": ndjson, "csv": csv, "tsv": tsv, "human": human}


def _joined(parts: list[pa.Array | pa.Scalar]) -> bytes:
    """Return the parts of each row put together, one row per line."""
    lines = pc.binary_join_element_wise(*parts, _NEWLINE, _EMPTY)
    _, offsets, data = lines.buffers()
    bounds = np.frombuffer(offsets, np.int32)[lines.offset : lines.offset + len(lines) + 1]
    return bytes(data[int(bounds[0]) : int(bounds[-1])])


def _flat(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """Return the fields as columns of numbers and text; a vector becomes its cardinality."""
    flat: dict[str, pa.Array] = {}
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        if name == "deletion_vector":
            flat["deleted_rows"] = pc.struct_field(array, "cardinality")
        elif pa.types.is_map(array.type):
            flat[name] = _map_objects(array)
        elif pa.types.is_timestamp(array.type):
            flat[name] = _iso(array)
        else:
            flat[name] = array
    return flat


def _csv(batch: pa.RecordBatch) -> bytes:
    sink = io.BytesIO()
    options = pa_csv.WriteOptions(include_header=False, eol="\r\n")
    pa_csv.write_csv(batch, sink, options)
    return sink.getvalue()


def _printable(array: pa.Array) -> pa.Array:
    """Return text that stays within its field: control characters are written out."""
    text = array if pa.types.is_string(array.type) else array.cast(pa.string())
    if _has_control(text):
        shown = [None if value is None else visible(value) for value in text.to_pylist()]
        text = pa.array(shown, pa.string())
    return pc.coalesce(text, _EMPTY)


def _json(array: pa.Array) -> pa.Array:
    """Return each value as JSON text; nulls as `null`."""
    kind = array.type
    if pa.types.is_string(kind):
        text = _quoted(array)
    elif pa.types.is_timestamp(kind):
        text = _wrapped(_QUOTE, _iso(array), _QUOTE)
    elif pa.types.is_map(kind):
        text = _map_objects(array)
    elif pa.types.is_struct(kind):
        text = _struct_objects(array)
    else:
        text = array.cast(pa.string())
    return pc.coalesce(text, _NULL)


def _quoted(text: pa.Array) -> pa.Array:
    if _has_control(text):
        encoded = [None if t is None else orjson.dumps(t).decode() for t in text.to_pylist()]
        return pa.array(encoded, pa.string())
    escaped = pc.replace_substring(pc.replace_substring(text, "\\", "\\\\"), '"', '\\"')
    return _wrapped(_QUOTE, escaped, _QUOTE)


def _map_objects(array: pa.MapArray) -> pa.Array:
    pairs = pc.binary_join_element_wise(_quoted(array.keys), _json(array.items), _COLON)
    lists = pa.ListArray.from_arrays(array.offsets, pairs)
    text = _wrapped(_OPEN, pc.binary_join(lists, _COMMA), _CLOSE)
    return pc.if_else(array.is_valid(), text, pa.nulls(len(array), pa.string()))


def _struct_objects(array: pa.StructArray) -> pa.Array:
    parts: list[pa.Array | pa.Scalar] = []
    for field in array.type:
        opening = _text(f'{"," if parts else "{"}"{field.name}":')
        parts += [opening, _json(pc.struct_field(array, field.name))]
    text = pc.binary_join_element_wise(*parts, _CLOSE, _EMPTY)
    return pc.if_else(array.is_valid(), text, pa.nulls(len(array), pa.string()))


def _embedded(stats: pa.Array) -> pa.Array:
    """Return statistics as they are where they are JSON, else as a string."""
    return pa.array([_checked(text) for text in stats.to_pylist()], pa.string())


def _checked(text: str | None) -> str:
    if text is None:
        return "null"
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return orjson.dumps(text).decode()
    return " ".join(text.splitlines())  # between tokens only: JSON strings hold no line break


def _wrapped(before: pa.Scalar, text: pa.Array, after: pa.Scalar) -> pa.Array:
    return pc.binary_join_element_wise(before, text, after, _EMPTY)


def _has_control(text: pa.Array) -> bool:
    return bool(pc.any(pc.match_substring_regex(text, _CONTROL)).as_py())


def _iso(times: pa.Array) -> pa.Array:
    return pc.strftime(times, _TIME)


def _short(time: str | None) -> str:
    return "-" if time is None else time[:16].replace("T", " ")
