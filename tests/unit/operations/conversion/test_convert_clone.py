"""CONVERT and CLONE: tables from existing files."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import shutil

import deltalake
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lazydelta as ld
from lazydelta.errors import (
    AppendOnlyError,
    ConfigError,
    DataFileError,
    PathNotAllowedError,
    SchemaError,
    TableExistsError,
    UnsupportedFeatureError,
    UnsupportedOperationError,
    VersionNotCommittedError,
)


def put(directory, name, **columns):
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)


def rows(table):
    return sorted(table.to_arrow().to_pylist(), key=repr)


def theirs(url):
    query = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(url))
    found = query.execute("select * from t").read_all()
    return sorted(pa.table(found).to_pylist(), key=repr)


def snapshot_of(directory):
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


# --- convert -----------------------------------------------------------------------------------


def test_a_directory_of_files_becomes_a_table(tmp_path):
    put(tmp_path, "a.parquet", id=[1, 2], s=["x", None])
    put(tmp_path, "deep/er/b c%20.parquet", id=[3], s=["y"])
    put(tmp_path, "_temporary/c.parquet", id=[4], s=["no"])
    put(tmp_path, ".hidden.parquet", id=[5], s=["no"])
    (tmp_path / "_SUCCESS").write_text("")
    (tmp_path / "readme.txt").write_text("not data")
    result = ld.convert(tmp_path)
    assert (result.version, result.files, result.rows) == (0, 2, 3)
    table = ld.Table.open(tmp_path)
    expected = [{"id": 1, "s": "x"}, {"id": 2, "s": None}, {"id": 3, "s": "y"}]
    assert rows(table) == expected == theirs(tmp_path)
    (entry,) = table.history()
    assert entry.operation == "CONVERT"
    assert entry.raw["operationMetrics"] == {"numConvertedFiles": "2"}
    assert {file.num_records for file in table.scan().files()} == {1, 2}
    assert len(list(table.scan(where="id > 2").files())) == 1
    table.write({"id": [6], "s": ["z"]})
    table.optimize()
    assert table.count() == 4


def test_partition_values_come_from_directories(tmp_path):
    put(tmp_path, "day=2026-01-01/c=A%2FT/x.parquet", id=[1])
    put(tmp_path, "day=__HIVE_DEFAULT_PARTITION__/c=DE/x.parquet", id=[2])
    ld.convert(tmp_path, "day date, c string")
    table = ld.Table.open(tmp_path)
    assert rows(table) == [
        {"id": 1, "day": dt.date(2026, 1, 1), "c": "A/T"}, {"id": 2, "day": None, "c": "DE"},
    ]  # fmt: skip
    assert len(list(table.scan(where="c = 'DE'").files())) == 1


@pytest.mark.parametrize("partition_by", ["", "day date, c string", "c string"])
def test_directories_that_do_not_fit_are_refused(tmp_path, partition_by):
    put(tmp_path, "day=2026-01-01/x.parquet", id=[1])
    with pytest.raises(
        ConfigError, match=r"day=2026-01-01/x.parquet has the partition columns day"
    ):
        ld.convert(tmp_path, partition_by or ())


def test_partition_values_of_another_type_are_refused(tmp_path):
    put(tmp_path, "day=soon/x.parquet", id=[1])
    with pytest.raises(SchemaError, match="day"):
        ld.convert(tmp_path, "day date")
    assert not (tmp_path / "_delta_log").exists()


def test_columns_that_files_lack_are_null(tmp_path):
    put(tmp_path, "a.parquet", id=[1])
    put(tmp_path, "b.parquet", id=[2], new=["x"])
    ld.convert(tmp_path)
    assert rows(ld.Table.open(tmp_path)) == [{"id": 1, "new": None}, {"id": 2, "new": "x"}]


def test_files_of_different_types_are_refused_by_name(tmp_path):
    put(tmp_path, "a.parquet", id=[1])
    put(tmp_path, "b.parquet", id=["x"])
    before = snapshot_of(tmp_path)
    with pytest.raises(SchemaError, match=r"'id' is long in a.parquet, but string in b.parquet"):
        ld.convert(tmp_path)
    assert snapshot_of(tmp_path) == before


def test_bad_directories_are_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"no \.parquet files"):
        ld.convert(tmp_path)
    (tmp_path / "a.parquet").write_bytes(b"not parquet")
    with pytest.raises(DataFileError):
        ld.convert(tmp_path)
    put(tmp_path, "a.parquet", id=[1])
    with pytest.raises(ConfigError, match="columnMapping"):
        ld.convert(tmp_path, properties={"delta.columnMapping.mode": "name"})
    assert ld.convert(tmp_path, dry_run=True).dry_run
    assert not (tmp_path / "_delta_log").exists()
    ld.convert(tmp_path)
    with pytest.raises(TableExistsError, match="nothing to convert"):
        ld.convert(tmp_path)


def test_statistics_of_footers_are_used_only_where_they_are_true(tmp_path):
    when = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
    columns = {
        "i": pa.array([1, 5], pa.int32()),
        "u": pa.array([1, 2**32 - 1], pa.uint32()),
        "f": pa.array([1.0, math.nan]),
        "us": pa.array([when, when], pa.timestamp("us", "UTC")),
        "ms": pa.array([when, when], pa.timestamp("ms", "UTC")),
        "d": pa.array([decimal.Decimal("1.50"), None], pa.decimal128(5, 2)),
        "l": pa.array([[1], None]),
    }
    put(tmp_path, "a.parquet", **columns)
    ld.convert(tmp_path)
    table = ld.Table.open(tmp_path)
    (file,) = table.scan().files()
    assert file.stats["minValues"] == {"i": 1, "us": "2026-01-01T12:00:00.000Z", "d": 1.5}
    for where in ("f > 2", "u > 4000000000", "ms = timestamp'2026-01-01T12:00:00Z'", "l IS NULL"):
        assert table.count(where) == (2 if where.startswith("ms") else 1), where


# --- clone -------------------------------------------------------------------------------------


@pytest.fixture
def source(tmp_path):
    directory = tmp_path / "a source"
    for start in (0, 10):
        values = list(range(start, start + 10))
        data = pa.table({"id": values, "p": [f"v {v % 2}%" for v in values]})
        ld.write(
            directory, data, partition_by="p",
            **({} if start else {"properties": {"delta.enableDeletionVectors": "true"}}),
        )  # fmt: skip
    table = ld.Table.open(directory)
    table.delete("id IN (1, 4)")
    return table


def test_a_shallow_clone_reads_the_files_of_its_source(source, tmp_path):
    result = source.clone(tmp_path / "clone")
    assert (result.files, result.files_copied, result.source_version) == (4, 0, 2)
    assert [p.name for p in (tmp_path / "clone").iterdir()] == ["_delta_log"]
    with pytest.raises(PathNotAllowedError):
        ld.Table.open(tmp_path / "clone").to_arrow()
    config = ld.Config(allowed_roots=[source.url])
    clone = ld.Table.open(tmp_path / "clone", config=config)
    assert rows(clone) == rows(source) == theirs(tmp_path / "clone")
    (entry,) = clone.history()
    assert entry.operation == "CLONE"
    assert entry.raw["operationParameters"]["isShallow"] == "true"
    before = snapshot_of(tmp_path / "a source")
    clone.delete("id = 2")
    clone.write({"id": [99], "p": ["new"]})
    clone.optimize()
    assert {row["id"] for row in rows(clone)} == {*range(20), 99} - {1, 2, 4}
    assert snapshot_of(tmp_path / "a source") == before


def test_a_deep_clone_is_independent_of_its_source(source, tmp_path):
    expected = rows(source)
    result = source.clone(tmp_path / "clone", shallow=False)
    assert result.files_copied >= 5  # with the file of deletion vectors
    shutil.rmtree(source.url)
    clone = ld.Table.open(tmp_path / "clone")
    assert rows(clone) == expected == theirs(tmp_path / "clone")
    assert clone.metadata.partition_columns == ("p",)


def test_an_older_version_is_cloned(source, tmp_path):
    source.clone(tmp_path / "clone", shallow=False, version=1)
    assert ld.Table.open(tmp_path / "clone").count() == 20
    with pytest.raises(VersionNotCommittedError):
        source.clone(tmp_path / "other", version=9)


def test_clustering_columns_are_cloned(tmp_path):
    source = ld.Table.create(tmp_path / "a", "x bigint", cluster_by=["x"])
    source.write({"x": [1, 2]})
    source.clone(tmp_path / "b", shallow=False)
    assert ld.Table.open(tmp_path / "b").snapshot().clustering_columns() == [("x",)]


def test_clones_onto_existing_tables_are_refused_and_delete_nothing(source, tmp_path):
    before = snapshot_of(tmp_path)
    with pytest.raises(TableExistsError, match="another directory"):
        source.clone(source.url, shallow=False)
    assert source.clone(tmp_path / "new", dry_run=True).dry_run
    assert snapshot_of(tmp_path) == before
    occupied = next(iter(source.scan().files())).path
    (tmp_path / "new" / occupied).parent.mkdir(parents=True)
    (tmp_path / "new" / occupied).write_bytes(b"precious")
    with pytest.raises(OSError, match="exist"):
        source.clone(tmp_path / "new", shallow=False)
    assert (tmp_path / "new" / occupied).read_bytes() == b"precious"
    left = [p for p in (tmp_path / "new").rglob("*") if p.is_file()]
    assert left == [tmp_path / "new" / occupied]


def test_a_shallow_clone_replaces_a_table(source, tmp_path):
    ld.Table.create(tmp_path / "t", "x bigint", cluster_by=["x"]).write({"x": [1]})
    first = ld.Table.open(tmp_path / "t", config=ld.Config(allowed_roots=[source.url]))
    table_id = first.metadata.id
    source.clone(tmp_path / "t", replace=True, version=1)
    assert source.clone(tmp_path / "t", replace=True, dry_run=True).version == 3
    assert source.clone(tmp_path / "t", replace=True).version == 3
    clone = ld.Table.open(tmp_path / "t", config=ld.Config(allowed_roots=[source.url]))
    assert rows(clone) == rows(source) == theirs(tmp_path / "t")
    assert (clone.metadata.id, clone.snapshot().clustering_columns()) == (table_id, [])
    again = clone.history(1)[0].raw["operationMetrics"]
    assert (again["numRemovedFiles"], again["sourceNumOfFiles"]) == ("2", "4")
    assert clone.snapshot(1).schema.names == ("x",)
    clone.write({"id": [99], "p": ["new"]})
    source.clone(tmp_path / "t", replace=True)
    assert rows(clone) == rows(source)
    assert source.clone(tmp_path / "new", replace=True).version == 0


def test_a_clone_over_a_table_that_cannot_be_replaced_is_refused(source, tmp_path):
    ld.write(tmp_path / "t", {"x": [1]}, properties={"delta.appendOnly": "true"})
    with pytest.raises(AppendOnlyError, match="CLONE"):
        source.clone(tmp_path / "t", replace=True)
    with pytest.raises(UnsupportedOperationError, match="clone it shallow"):
        source.clone(tmp_path / "t", replace=True, shallow=False)


def test_row_tracking_is_refused(tmp_path):
    ld.write(tmp_path / "a", {"id": [1]}, properties={"delta.enableRowTracking": "true"})
    with pytest.raises(UnsupportedFeatureError, match="row ids"):
        ld.Table.open(tmp_path / "a").clone(tmp_path / "b")


def test_the_log_of_a_clone_has_encoded_absolute_paths(source, tmp_path):
    source.clone(tmp_path / "clone")
    with (tmp_path / "clone/_delta_log/00000000000000000000.json").open("rb") as lines:
        adds = [line["add"] for line in map(orjson.loads, lines) if "add" in line]
    assert all(add["path"].startswith("file:///") and "a%20source" in add["path"] for add in adds)
    kinds = {add["deletionVector"]["storageType"] for add in adds if "deletionVector" in add}
    assert kinds <= {"p", "i"}
