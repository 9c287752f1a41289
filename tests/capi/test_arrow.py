"""Streams of the C library as pyarrow imports them: types, rows, golden tables."""

from __future__ import annotations

import ctypes
import json
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest

import lazydelta
from lazydelta import Table
from lazydelta.errors import DeltaError
from lazydelta.ffi import batch_frame
from lazydelta.scan import FileRecords
from tests.capi.compiler import HOST, shared_library
from tests.golden_pack import NEEDS_PACK, PACK, golden_tables

CAPABILITIES = ["deletionVectors", "columnMapping", "typeWidening", "variantType"]
STREAM_BYTES = 5 * 8  # struct ArrowArrayStream


class Host:
    """The library in this process."""

    def __init__(self):
        self._library = ctypes.CDLL(str(shared_library()))
        self._library.delta_last_error.restype = ctypes.c_char_p
        self._library.delta_resume_token.restype = ctypes.c_char_p
        self._library.delta_resume_token.argtypes = [ctypes.c_void_p]
        self._library.delta_scan_release.argtypes = [ctypes.c_void_p]
        self._library.delta_close.argtypes = [ctypes.c_void_p]

    def batches(self, table, **request):
        """Yield batches with their tokens."""
        handle, scan = ctypes.c_void_p(), ctypes.c_void_p()
        stream = ctypes.create_string_buffer(STREAM_BYTES)
        self._check(self._library.delta_open(str(table).encode(), None, ctypes.byref(handle)))
        text = json.dumps(request).encode()
        self._check(self._library.delta_plan(handle, text, stream, ctypes.byref(scan)))
        self._library.delta_close(handle)
        try:
            with pa.RecordBatchReader._import_from_c(ctypes.addressof(stream)) as reader:
                for batch in reader:
                    yield batch, self._library.delta_resume_token(scan).decode()
        finally:
            self._library.delta_scan_release(scan)

    def table(self, table, **request):
        return pa.Table.from_batches([batch for batch, _ in self.batches(table, **request)])

    def _check(self, status):
        if status < 0:
            raise OSError(status, self._library.delta_last_error().decode())

    def close(self):
        self._library.delta_shutdown()


@pytest.fixture
def host(monkeypatch):
    for name, value in HOST.items():
        monkeypatch.setenv(name, value)
    host = Host()
    yield host
    host.close()


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


@pytest.mark.long
@pytest.mark.acceptance
@NEEDS_PACK
def test_golden_tables_have_each_file_once_with_a_break_after_each_batch(host, monkeypatch):
    monkeypatch.setenv("LAZYDELTA_BATCH_ROWS", "3")
    compared = 0
    for entry in golden_tables():
        place = PACK / "tables" / entry["name"]
        try:
            scan = Table.open(place).scan()
            records = FileRecords(capabilities=frozenset(CAPABILITIES))
            expected = [d.batch for d in scan.resumable_files(records=records)]
        except DeltaError:
            continue
        found, token = [], None
        while True:
            step = next(host.batches(place, capabilities=CAPABILITIES, resume=token), None)
            if step is None:
                break
            batch, token = step
            found.append(batch)
        assert _rows(found) == _rows(expected), entry["name"]
        compared += 1
    assert compared > 100


def _rows(batches):
    rows = [row for batch in batches for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: row["uri"])
