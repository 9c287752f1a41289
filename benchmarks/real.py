"""The data files of a synthetic log that really exist: those that its last commit adds.

They hold exactly the rows of the log's statistics and have exactly its size: a gap before the
footer, which no reader reads, pads them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.columns import REAL_BYTES, FileColumns, Template, mix

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.columns import Integers
    from benchmarks.spec import TableSpec

__all__ = ["write_real_files"]

_FOOTER_END = 8  # the length of the footer, and the magic number
_NAME = Template("name-<n:9>")


def _between(low: int, high: int, rows: int, salt: int) -> Integers:
    """Return numbers from `low` to `high`, the first of them `low` and the last one `high`."""
    bits = mix(np.arange(rows, dtype=np.int64), salt) >> np.uint64(11)
    values = low + (bits % np.uint64(high - low + 1)).astype(np.int64)
    values[0], values[-1] = low, high
    return values


def _file_rows(spec: TableSpec, number: int) -> pa.Table:
    """Return the rows of one file, consistent with its statistics."""
    file = FileColumns(spec, np.array([number], np.int64))
    rows = int(file.records[0])
    low, high = file.bounds("lo"), file.bounds("hi")
    drawn = {
        name: _between(int(low[name][0]), int(high[name][0]), rows, number + salt)
        for salt, name in enumerate(("value", "name", "ts", "qty"))
    }
    day_us = file.date.cast(pa.timestamp("us")).cast(pa.int64())[0].as_py()
    nulls = {}
    for name, count in file.null_counts.items():
        is_null = np.zeros(rows, bool)
        is_null[1 : 1 + int(count[0])] = True  # neither the minimum nor the maximum
        nulls[name] = is_null
    ids = np.arange(int(low["id"][0]), int(high["id"][0]) + 1)
    names = _NAME.render(n=drawn["name"])
    columns = {
        "id": pa.array(ids),
        "value": pa.array(drawn["value"] / 1000, mask=nulls["value"]),
        "name": pa.array(np.where(nulls["name"], None, names.to_numpy(zero_copy_only=False))),
        "ts": pa.array(day_us + drawn["ts"] * 1000).cast(pa.timestamp("us", "UTC")),
        "qty": pa.array(drawn["qty"].astype(np.int32), mask=nulls["qty"]),
    }
    if not spec.partition_levels:
        columns["date"] = pa.repeat(file.date[0], rows)
    return pa.table(columns)


def _write_padded(table: pa.Table, path: Path) -> None:
    """Write a Parquet file of `REAL_BYTES`; the gap is sparse and takes no disk space."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="snappy", store_schema=False)
    data = memoryview(sink.getvalue())
    footer = _FOOTER_END + int.from_bytes(data[-_FOOTER_END:-4], "little")
    if len(data) > REAL_BYTES:
        raise ValueError(f"{path.name} takes {len(data):,} bytes; at most {REAL_BYTES:,} fit")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write(data[:-footer])
        file.seek(REAL_BYTES - footer)
        file.write(data[-footer:])


def write_real_files(spec: TableSpec, where: Path) -> None:
    """Write the data files that exist into the table's folder."""
    numbers = np.arange(spec.first_real, spec.indices, dtype=np.int64)
    names = FileColumns(spec, numbers).path.to_pylist()
    for number, name in zip(numbers.tolist(), names, strict=True):
        _write_padded(_file_rows(spec, number), where / name)
