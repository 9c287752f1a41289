"""Adjacent matching rows are sliced from their batch, for every type."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lazydelta.config import ReadOptions
from tests.unit.scan.read.tables import Rows, field


def shapes(count):
    """Columns of every kind of type, most with a conversion."""
    strings = [None if i % 5 == 0 else f"text {i % 3}" for i in range(count)]
    micros = pa.array([i * 1_000_003 for i in range(count)], pa.timestamp("us"))
    return pa.table(
        {
            "id": np.arange(count),
            "small": pa.array([i % 100 for i in range(count)], pa.int8()),
            "t": strings,
            "time": micros.cast(pa.timestamp("ns")),
            "s": [None if i % 7 == 0 else {"t": t} for i, t in enumerate(strings)],
            "l": pa.array([[i] * (i % 4) for i in range(count)], pa.large_list(pa.int32())),
            "m": pa.array([[(str(i), i)] for i in range(count)], pa.map_(pa.string(), pa.int16())),
            "yes": [i % 3 == 0 for i in range(count)],
        }
    )


SHAPES = [
    field("id", "long"),
    field("small", "long"),
    field("t", "string"),
    field("time", "timestamp"),
    field("s", {"type": "struct", "fields": [field("t", "string"), field("new", "long")]}),
    field("l", {"type": "array", "elementType": "long", "containsNull": True}),
    field("m", {"type": "map", "keyType": "string", "valueType": "long",
                "valueContainsNull": True}),
    field("yes", "boolean"),
    field("added", "string"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("first", "last"),
    [
        pytest.param(0, 999, id="all"),
        pytest.param(3, 801, id="most-without-a-copy"),
        pytest.param(703, 709, id="few-with-one"),
        pytest.param(1, 1, id="one"),
    ],
)
@pytest.mark.parametrize("pushdown", [True, False])
def test_adjacent_rows_of_every_type(tmp_path, first, last, pushdown):
    made = Rows(tmp_path / "t", SHAPES)
    made.file("a.parquet", shapes(1000))
    scan = made.open().scan(f"id between {first} and {last}")
    found = scan.to_arrow(ReadOptions(enable_parquet_pushdown=pushdown))
    found.validate(full=True)
    assert found.to_pylist() == made.rows()[first : last + 1]


def test_few_adjacent_rows_release_their_batch(tmp_path):
    made = Rows(tmp_path / "t", SHAPES)
    made.file("a.parquet", shapes(1000))
    scan = made.open().scan("id between 300 and 309", ["id"])
    (batch,) = scan.to_batches()
    assert sum(buffer.size for buffer in batch.column("id").buffers() if buffer) < 1000
