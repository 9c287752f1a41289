from __future__ import annotations

import json
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pytest
from pyroaring import BitMap64

from lazydelta import Config, Table, WriteOptions
from lazydelta.errors import ClientCapabilityError, ConfigError, PathNotAllowedError
from lazydelta.scan import FileRecords
from lazydelta.store import MemoryStore
from lazydelta.testing import add
from tests.builders import TableBuilder
from tests.support import memory_store

ALL = frozenset({"deletionVectors", "columnMapping", "typeWidening", "variantType"})
DELETED = [0, 1, 2, 7, 9]


def table_with_vectors(store=None, **properties):
    table = Table(memory_store() if store is None else store, Config(max_deleted_rows_ratio=1.0))
    data = pa.table({"id": list(range(20)), "day": ["2026-01-01", "a/b %2F é"] * 10})
    enabled = {"delta.enableDeletionVectors": "true", **properties}
    table.write(data.slice(0, 10), partition_by=["day"], properties=enabled)
    table.write(data.slice(10, 10))
    table.delete("id in (0, 2, 4, 16, 18)")
    return table


def records_of(table, records):
    scan = table.scan()
    batches = [batch for batch, _ in scan.resumable_files(records=records)]
    found = pa.Table.from_batches(batches, scan.file_record_schema(records))
    assert found.schema.equals(scan.file_record_schema(records), check_metadata=True)
    return found


@pytest.mark.parametrize(
    "root", ["/memory/a b", "memory://table", "abfss://c@acct.dfs.core.windows.net/t"]
)
def test_the_uri_of_a_record_is_absolute_and_encoded_once(root):
    store = MemoryStore(root=root)
    table = table_with_vectors(store)
    uris = records_of(table, FileRecords(capabilities=ALL)).column("uri").to_pylist()
    plain = [f"{root}/{file.path}" for file in table.scan().files()]
    for uri, path in zip(uris, plain, strict=True):
        parts = urlsplit(uri)
        assert parts.scheme == ("file" if root.startswith("/") else urlsplit(root).scheme)
        assert uri.isascii()
        assert " " not in uri
        assert unquote(uri) == (f"file://{path}" if root.startswith("/") else path)


def test_partition_values_are_typed_and_live_rows_exclude_deleted_ones():
    found = records_of(table_with_vectors(), FileRecords(capabilities=ALL))
    assert found.schema.field("partition_values").type == pa.struct([("day", pa.string())])
    assert {value["day"] for value in found.column("partition_values").to_pylist()} == {
        "2026-01-01",
        "a/b %2F é",
    }
    assert sum(found.column("live_rows").to_pylist()) == 15
    table = Table(memory_store(), Config())
    table.write(pa.table({"n": pa.array([1, None], pa.int32()), "v": [1, 2]}), partition_by=["n"])
    found = records_of(table, FileRecords())
    assert found.column("partition_values").type == pa.struct([("n", pa.int32())])
    assert sorted(found.column("partition_values").to_pylist(), key=str) == [{"n": 1}, {"n": None}]


@pytest.mark.parametrize("kind", ["bitmap", "ranges"])
def test_deleted_rows_are_those_of_the_vector(kind):
    table = table_with_vectors()
    found = records_of(table, FileRecords(capabilities=ALL, deletion_vectors=kind))
    deleted = {}
    for row in found.to_pylist():
        vector = row["deletion_vector"]
        if kind == "bitmap":
            bitmap = row["deleted_bitmap"]
            positions = None if bitmap is None else list(BitMap64.deserialize(bitmap))
        else:
            ranges = row["deleted_ranges"]
            positions = ranges and [n for r in ranges for n in range(r["start"], r["end"])]
        assert (vector is None) == (positions is None)
        if positions is not None:
            assert len(positions) == vector["cardinality"]
            deleted[unquote(row["uri"])] = positions
    assert sorted(deleted.values()) == [[0, 1, 2], [3, 4]]


def test_statistics_are_there_on_request():
    table = table_with_vectors()
    assert "statistics" not in table.scan().file_record_schema(FileRecords(capabilities=ALL)).names
    found = records_of(table, FileRecords(capabilities=ALL, statistics=True))
    for row in found.to_pylist():
        assert json.loads(row["statistics"])["numRecords"] == row["num_records"]


def test_the_schema_says_where_the_columns_are():
    table = table_with_vectors(**{"delta.columnMapping.mode": "name"})
    metadata = table.scan().file_record_schema(FileRecords(capabilities=ALL)).metadata
    assert metadata[b"delta.column_mapping_mode"] == b"name"
    fields = json.loads(metadata[b"delta.schema"])["fields"]
    columns = json.loads(metadata[b"delta.columns"])
    assert [(column["name"], column["physical_name"], column["id"]) for column in columns] == [
        (
            field["name"],
            field["metadata"]["delta.columnMapping.physicalName"],
            field["metadata"]["delta.columnMapping.id"],
        )
        for field in fields
    ]
    assert json.loads(metadata[b"delta.partition_columns"]) == ["day"]


@pytest.mark.parametrize(
    ("missing", "properties"),
    [("deletionVectors", {}), ("columnMapping", {"delta.columnMapping.mode": "name"})],
)
def test_a_client_without_a_capability_that_the_table_needs_is_refused(missing, properties):
    table = table_with_vectors(**properties)
    records = FileRecords(capabilities=ALL - {missing})
    for refused in (table.scan().resumable_files, table.scan().file_record_schema):
        with pytest.raises(ClientCapabilityError, match="rows instead") as raised:
            refused(records=records)
        assert raised.value.capabilities == (missing,)


def test_a_plain_table_needs_no_capability():
    table = Table(memory_store(), Config())
    table.write(pa.table({"id": [1]}))
    assert records_of(table, FileRecords()).column("live_rows").to_pylist() == [1]


def test_a_resumed_stream_has_the_records_of_the_token():
    store = memory_store()
    table = Table(store, Config(batch_rows=1, write=WriteOptions()))
    table_with_vectors(store)
    records = FileRecords(capabilities=ALL, deletion_vectors="ranges", statistics=True)
    batches = list(table.scan().resumable_files(records=records))
    assert len(batches) == 4
    rest = list(Table(store, Config()).scan().resume(batches[0].token))
    assert pa.Table.from_batches([d.batch for d in rest]) == pa.Table.from_batches(
        [d.batch for d in batches[1:]]
    )
    assert rest[0].batch.schema.metadata == batches[0].batch.schema.metadata


@pytest.mark.parametrize("path", ["../secret.parquet", "file:///etc/passwd", "https://h/x.parquet"])
def test_a_record_never_sends_a_client_out_of_the_table(path):
    store = memory_store()
    TableBuilder(store).commit(add(path))
    stream = Table(store, Config()).scan().resumable_files(records=FileRecords(capabilities=ALL))
    with pytest.raises(PathNotAllowedError):
        next(stream)
    stream.close()


def test_a_record_may_name_an_allowed_root():
    store = memory_store()
    TableBuilder(store).commit(add("file:///other/a%20b.parquet"))
    table = Table(store, Config(allowed_roots=["/other"]))
    assert records_of(table, FileRecords(capabilities=ALL)).column("uri").to_pylist() == [
        "file:///other/a%20b.parquet"
    ]


@pytest.mark.parametrize(
    "wrong", [{"deletion_vectors": "all"}, {"capabilities": "x"}, {"statistics": 1}]
)
def test_other_values_are_refused(wrong):
    with pytest.raises(ConfigError):
        FileRecords(**wrong)
