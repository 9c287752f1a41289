"""Real tables for the adapters, written by deltalake, and a record of the data files opened."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from lazydelta import Config, Table
from lazydelta.metrics import StoreCalled
from tests.unit.scan.read.tables import Rows, field, inline

deltalake = pytest.importorskip(
    "deltalake", reason="deltalake writes the tables: pip install -r requirements/test.txt"
)

ROWS = 200  # per file


def rows_of_file(at: int, rows: int = ROWS) -> pa.Table:
    """Return rows whose `id` and timestamps increase with the file number."""
    ids = range(at * rows, (at + 1) * rows)
    start = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=at)
    times = [start + timedelta(microseconds=7 * i) for i in range(rows)]
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "Mixed Case": [f"name {i % 7}" if i % 11 else None for i in ids],
            "small": pa.array([i % 50 for i in ids], pa.int16()),
            "number": pa.array([float(i) if i % 13 else None for i in ids], pa.float64()),
            "price": pa.array([Decimal(i).scaleb(-2) for i in ids], pa.decimal128(10, 2)),
            "flag": pa.array([i % 2 == 0 for i in ids]),
            "day": pa.array([start.date()] * rows, pa.date32()),
            "at": pa.array(times, pa.timestamp("us", "UTC")),
            "local": pa.array([t.replace(tzinfo=None) for t in times], pa.timestamp("us")),
            "nested": [{"x": i, "Y": f"t{i % 3}"} for i in ids],
            "items": [[i, i + 1] for i in ids],
            "raw": [bytes([i % 256]) for i in ids],
            "part": pa.array([f"p{at % 3}" if at % 4 else None] * rows, pa.string()),
        }
    )


def write_table(path, *, files: int = 8, partitioned: bool = True) -> str:
    """Write a table of several files, one commit each."""
    for at in range(files):
        deltalake.write_deltalake(
            path,
            rows_of_file(at),
            mode="append",
            partition_by=["part"] if partitioned else None,
        )
    return str(path)


def write_tall_table(path, *, files: int = 16, rows: int = 100_000) -> str:
    """Write files too large for an engine to prefetch several at once."""
    for at in range(files):
        ids = pa.array(np.arange(at * rows, (at + 1) * rows))
        deltalake.write_deltalake(path, pa.table({"id": ids}), mode="append")
    return str(path)


def write_table_with_vectors(path) -> list[int]:
    """Write a table with deletion vectors; return the live ids."""
    made = Rows(path, [field("id", "long"), field("Name", "string")], features=("deletionVectors",))
    left: list[int] = []
    for at, deleted in enumerate([range(0, ROWS, 3), (), range(ROWS)]):
        ids = range(at * ROWS, (at + 1) * ROWS)
        rows = pa.table({"id": pa.array(ids, pa.int64()), "Name": [f"n{i}" for i in ids]})
        vector = inline(list(deleted)) if deleted else None
        made.file(f"{at}.parquet", rows, vector=vector, row_group_size=50)
        left += [i for i in ids if i - at * ROWS not in deleted]
    made.commit()
    return left


class Watched:
    """A table, and the number of data files opened since the last call of `opened()`."""

    def __init__(self, path: str) -> None:
        self._events: list[object] = []
        self.table = Table.open(path, config=Config(observer=self._events.append))

    def opened(self) -> int:
        paths = {
            event.path
            for event in self._events
            if isinstance(event, StoreCalled)
            and event.path.endswith(".parquet")
            and not event.path.startswith("_delta_log/")
        }
        self._events.clear()
        return len(paths)


def canonical(rows: pa.Table) -> list[dict]:
    """Return the rows sorted, so that the results of two readers can be compared."""
    return sorted(rows.to_pylist(), key=repr)


DAY_2 = date(2026, 1, 3)
TIME_2 = datetime(2026, 1, 3, tzinfo=UTC)
