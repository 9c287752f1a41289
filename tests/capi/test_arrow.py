"""Streams of the C library as pyarrow imports them: types, rows, changes."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest

import lazydelta
from lazydelta import Table
from lazydelta.ffi import batch_frame
from lazydelta.scan import FileRecords
from tests.capi.host import running_host


@pytest.fixture(scope="module")
def host():
    with running_host() as host:
        yield host


def every_type():
    return pa.table(
        {
            "string": ["a", None, "ä"],
            "binary": [b"\0", b"", None],
            "boolean": [True, None, False],
            "long": pa.array([1, None, -(2**62)], pa.int64()),
            "byte": pa.array([1, None, -128], pa.int8()),
            "double": [0.5, None, float("inf")],
            "date": [date(2026, 5, 1), None, date(1900, 1, 1)],
            "timestamp": pa.array([1_777_593_600_000_000, None, None], pa.timestamp("us", "UTC")),
            "decimal": [Decimal("1.50"), None, Decimal("-9.99")],
            "list": [[1, 2], None, []],
            "map": pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int32())),
            "struct": [{"x": {"y": "deep"}}, None, {"x": None}],
        }
    )


def test_rows_of_every_type_arrive(host, tmp_path):
    lazydelta.write(tmp_path, every_type())
    lazydelta.write(tmp_path, every_type())
    expected = Table.open(tmp_path).to_arrow()
    assert host.table(tmp_path, mode="rows") == expected
    narrow = host.table(tmp_path, mode="rows", columns=["struct", "long"], where="long = 1")
    assert narrow == Table.open(tmp_path).scan("long = 1", ["struct", "long"]).to_arrow()


def test_changes_arrive(host, tmp_path):
    lazydelta.write(tmp_path, {"id": [1, 2]}, properties={"delta.enableChangeDataFeed": "true"})
    Table.open(tmp_path).delete("id = 1")
    expected = Table.open(tmp_path).changes().to_arrow()
    assert host.table(tmp_path, mode="changes", start_version=0) == expected


def test_metadata_and_nullability_of_the_schema_arrive(host, tmp_path):
    lazydelta.write(tmp_path, {"id": [1]})
    records = Table.open(tmp_path).scan().file_record_schema(FileRecords())
    found = host.table(tmp_path).schema
    assert found.equals(records, check_metadata=True)
    assert b"delta.schema" in found.metadata


def test_a_slice_is_sent_without_the_rows_around_it():
    column = pa.array(["x" * 1000] * 1000)
    batch = pa.record_batch({"a": column}).slice(500, 2)
    _, block = batch_frame(batch, "")
    assert block.size < 10_000
