"""Appends to tables with table features."""

from __future__ import annotations

import json

import deltalake
import pyarrow as pa
import pytest

import lazydelta as ld
from benchmarks.rows import file_rows, generate_rows
from benchmarks.spec import RowsSpec
from lazydelta.errors import SchemaError

ON = {
    "change-feed": {"delta.enableChangeDataFeed": "true"},
    "row-tracking": {"delta.enableRowTracking": "true"},
    "in-commit-timestamps": {"delta.enableInCommitTimestamps": "true"},
    "deletion-vectors": {"delta.enableDeletionVectors": "true"},
    "column-mapping": {"delta.columnMapping.mode": "name"},
    "type-widening": {"delta.enableTypeWidening": "true"},
    "v2-checkpoints": {"delta.checkpointPolicy": "v2"},
    "append-only": {"delta.appendOnly": "true"},
    "all": {
        "delta.enableChangeDataFeed": "true",
        "delta.enableRowTracking": "true",
        "delta.enableInCommitTimestamps": "true",
        "delta.enableDeletionVectors": "true",
        "delta.columnMapping.mode": "id",
        "delta.checkpointPolicy": "v2",
    },
}


@pytest.mark.parametrize("properties", ON.values(), ids=ON.keys())
def test_tables_with_features_are_appended_to(tmp_path, properties):
    for n in range(12):  # over a checkpoint
        result = ld.write(
            tmp_path, {"p": [n % 2], "x": [n]}, "append", partition_by="p", properties=properties
        )
        assert result.version == n
        assert not result.warnings
    table = ld.Table.open(tmp_path)
    assert sorted(table.to_arrow()["x"].to_pylist()) == list(range(12))
    assert table.check().ok
    if not {"delta.columnMapping.mode", "delta.enableTypeWidening"} & properties.keys():
        theirs = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(tmp_path))
        found = pa.table(theirs.execute("select x from t").read_all())
        assert sorted(found["x"].to_pylist()) == list(range(12))


def test_materialized_row_id_columns_are_reserved(tmp_path):
    ld.write(tmp_path, {"x": [1]}, properties={"delta.enableRowTracking": "true"})
    table = ld.Table.open(tmp_path)
    key = "delta.rowTracking.materializedRowIdColumnName"
    name = table.snapshot().metadata.configuration[key]
    with pytest.raises(SchemaError, match="is reserved for row tracking"):
        table.write({"x": [1], name: [7]}, schema_mode="merge")
    with pytest.raises(SchemaError, match="is reserved for row tracking"):
        table.alter.add_columns({f"`{name}`": "bigint"})
    assert table.version == 0


def test_row_ids_are_unique(tmp_path):
    for n in range(3):
        ld.write(tmp_path, {"x": [n, n]}, "append", properties={"delta.enableRowTracking": "true"})
    options = ld.ReadOptions(row_id_column="id", row_commit_version_column="at")
    found = ld.Table.open(tmp_path).to_arrow(options).sort_by("id")
    assert found["id"].to_pylist() == list(range(6))
    assert found["at"].to_pylist() == [0, 0, 1, 1, 2, 2]


def test_an_overwrite_removes_files_with_their_vectors(tmp_path):
    spec = RowsSpec(files=2, rows_per_file=50, deleted_percent=20)
    generate_rows(spec, tmp_path / "t")
    table = ld.Table.open(tmp_path / "t")
    new = file_rows(RowsSpec(files=1, rows_per_file=10), 0)
    table.write(new)
    live = table.to_arrow().num_rows
    assert 10 < live < 110
    table.write(new, "overwrite")
    assert table.to_arrow().num_rows == 10
    assert table.snapshot(1).to_arrow().num_rows == live
    theirs = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(tmp_path / "t"))
    assert pa.table(theirs.execute("select id from t").read_all()).num_rows == 10


def test_clustering_columns_always_have_statistics(tmp_path):
    columns = {f"c{n}": [n] for n in range(40)}
    ld.write(tmp_path, columns)
    (commit,) = (tmp_path / "_delta_log").glob("*.json")
    lists = (
        '"minReaderVersion":1,"minWriterVersion":7,"writerFeatures":["clustering","domainMetadata"]'
    )
    text = commit.read_text().replace('"minReaderVersion":1,"minWriterVersion":2', lists)
    configuration = json.dumps({"clusteringColumns": [["c39"]]})
    domain = {"domain": "delta.clustering", "configuration": configuration, "removed": False}
    commit.write_text(text + json.dumps({"domainMetadata": domain}) + "\n")
    for crc in (tmp_path / "_delta_log").glob("*.crc"):
        crc.unlink()
    ld.write(tmp_path, columns, "append")
    newest = next(file for file in ld.Table.open(tmp_path).scan().files() if file.version == 1)
    assert list(newest.stats["minValues"]) == [*(f"c{n}" for n in range(32)), "c39"]
    assert newest.clustering_provider is None


def test_the_change_feed_of_appends_is_their_rows(tmp_path):
    for n in range(2):
        ld.write(tmp_path, {"x": [n]}, "append", properties=ON["change-feed"])
    found = ld.Table.open(tmp_path).changes().to_arrow()
    assert found["_change_type"].to_pylist() == ["insert", "insert"]
    assert sorted(found["x"].to_pylist()) == [0, 1]


MAPPED_PROTOCOLS = {
    "2-5": {"minReaderVersion": 2, "minWriterVersion": 5},
    "2-6": {"minReaderVersion": 2, "minWriterVersion": 6},
    "2-7": {
        "minReaderVersion": 2,
        "minWriterVersion": 7,
        "writerFeatures": ["changeDataFeed", "columnMapping"],
    },
    "3-7": {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["columnMapping"],
        "writerFeatures": ["changeDataFeed", "columnMapping"],
    },
}


@pytest.mark.parametrize("protocol", MAPPED_PROTOCOLS.values(), ids=MAPPED_PROTOCOLS.keys())
@pytest.mark.parametrize("mode", ["name", "id"])
@pytest.mark.parametrize("checkpoint", [False, True])
def test_mapped_columns_under_every_protocol_that_supports_them(
    tmp_path, protocol, mode, checkpoint
):
    properties = {"delta.columnMapping.mode": mode, **ON["change-feed"]}
    ld.write(tmp_path, {"p": ["a", "b"], "x": [1, 2]}, partition_by="p", properties=properties)
    (commit,) = (tmp_path / "_delta_log").glob("*.json")
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    for action in actions:
        if "protocol" in action:
            action["protocol"] = protocol
    commit.write_text("".join(json.dumps(action) + "\n" for action in actions))
    commit.with_suffix(".crc").unlink()
    table = ld.Table.open(tmp_path)
    if checkpoint:
        table.checkpoint()
    table.write({"p": ["c"], "x": [3]})
    assert sorted(table.changes().to_arrow()["x"].to_pylist()) == [1, 2, 3]
    table.alter.rename_column("x", "y")
    expected = [("a", 1), ("b", 2), ("c", 3)]
    found = table.to_arrow()
    assert sorted(zip(found["p"].to_pylist(), found["y"].to_pylist(), strict=True)) == expected
    assert table.scan(where="y = 2").to_arrow()["p"].to_pylist() == ["b"]
    assert table.check().ok
