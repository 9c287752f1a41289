"""`Table.create(..., mode="replace")`: a table loses rows, columns and properties in one commit."""

from __future__ import annotations

import pyarrow as pa
import pytest

import lazydelta as ld
from lazydelta.errors import AppendOnlyError, CommitConflictError


def build(tmp_path, **options):
    table = ld.Table.create(tmp_path, "id bigint not null, day string", **options)
    table.write(pa.table({"id": [1, 2], "day": ["a", "b"]}))
    return table


def test_rows_columns_and_properties_go_in_one_commit(tmp_path):
    table = build(tmp_path, cluster_by=["id"], properties={"k": "v"}, description="old")
    ld.Table.create(tmp_path, {"x": "int"}, mode="replace", properties={"n": "1"})
    found = table.snapshot()
    assert (found.version, found.columns, table.count()) == (2, ("x",), 0)
    assert found.metadata.configuration == {"n": "1"}
    assert (found.metadata.description, found.clustering_columns()) == (None, [])
    assert table.history(1)[0].operation == "REPLACE TABLE"
    assert table.snapshot(1).count() == 2
    table.write(pa.table({"x": pa.array([7], pa.int32())}))
    assert table.to_arrow().to_pylist() == [{"x": 7}]


def test_the_protocol_keeps_its_features(tmp_path):
    table = build(tmp_path, properties={"delta.enableDeletionVectors": "true"})
    columns = {"x": "int", "y": "int"}
    ld.Table.create(tmp_path, columns, mode="replace", partition_by=["x"])
    found = table.snapshot()
    assert "deletionVectors" in found.protocol.writer_features
    assert found.partition_columns == ("x",)


def test_a_table_that_does_not_exist_is_created(tmp_path):
    table = ld.Table.create(tmp_path, {"x": "int"}, mode="replace")
    assert table.history()[0].operation == "CREATE TABLE"


def test_an_append_only_table_is_not_replaced(tmp_path):
    table = build(tmp_path, properties={"delta.appendOnly": "true"})
    with pytest.raises(AppendOnlyError, match="REPLACE TABLE"):
        ld.Table.create(tmp_path, {"x": "int"}, mode="replace")
    assert table.version == 1


def test_a_concurrent_append_is_a_conflict(tmp_path, monkeypatch):
    table = build(tmp_path)
    from lazydelta.operations import create

    def rival(snapshot, where, plan=create.replace_where):
        table.write(pa.table({"id": [3], "day": ["c"]}))
        return plan(snapshot, where)

    monkeypatch.setattr(create, "replace_where", rival)
    with pytest.raises(CommitConflictError):
        ld.Table.create(tmp_path, {"x": "int"}, mode="replace")
    assert table.count() == 3
