"""VACUUM: scope, inventory and retention; what it writes down."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import lazydelta as ld
from lazydelta.errors import ConfigError, UnsupportedFeatureError
from lazydelta.operations.maintenance import object_listing
from lazydelta.store.local_store import LocalStore
from lazydelta.testing import TableBuilder
from tests.aged_tables import age, backdate, files_of
from tests.maintained_tables import MODES, make, removed_files, rows, vacuum

# --- scope, inventory, retention


@MODES
def test_a_predicate_limits_it_to_partitions(tmp_path, mode):
    table = make(tmp_path / "t", partition_by=["p"])
    table.write(rows(10, 7), mode="overwrite")
    table.write(rows(20, 7), mode="overwrite")
    backdate(table, hours=24 * 20)
    before = files_of(table)
    result = vacuum(table, mode=mode, retention=None, where="p = '50%'")
    assert before - files_of(table) == set(result.paths)
    assert result.files_deleted == 2
    assert all(path.startswith("p=50%25/") for path in result.paths)
    result = vacuum(table, mode=mode, retention=None, where="p is null")
    assert {path.partition("/")[0] for path in result.paths} == {"p=__HIVE_DEFAULT_PARTITION__"}
    assert vacuum(table, mode=mode, retention=None).files_deleted > 0


@pytest.fixture
def listed(monkeypatch):
    """The directories that are listed with all those below them."""
    found = []

    def list_tree(store, *, after="", within=""):
        found.append(within)
        return store.list_tree(after=after, within=within)

    monkeypatch.setattr(object_listing, "list_tree", list_tree)
    return found


def orphans(table, names):
    """Write old files that no commit names."""
    for name in names:
        path = Path(table.url, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
        age(path, 24 * 30)
    return {name for name in names if Path(table.url, name).exists()}


def test_a_predicate_narrows_the_listing_to_its_partitions(tmp_path, listed):
    table = ld.Table.open(tmp_path / "t")
    days = pa.table({"d": ["1", "1", "2", "2"], "h": [1, 2, 1, 2], "id": [1, 2, 3, 4]})
    table.write(days, partition_by=["d", "h"])
    wanted = orphans(table, ["d=2/h=1/x", "_change_data/d=2/h=1/x", "odd/d=2/h=1/deep/x"])
    others = orphans(table, ["d=1/h=1/x", "d=2/h=2/x", "d=2/x", "x", "other/x"])
    result = table.vacuum(mode="full", where="d = '2' and h = 1", dry_run=False)
    assert set(result.paths) == wanted
    assert others <= files_of(table)
    assert sorted(listed) == ["_change_data/d=2/h=1", "d=2/h=1", "odd/d=2/h=1"]
    assert result.warnings == ()


def test_a_store_that_cannot_list_directories_is_listed_wholly_and_says_so(tmp_path, monkeypatch):
    table = make(tmp_path / "t", partition_by=["p"])
    wanted = orphans(table, ["p=1/x"])
    monkeypatch.delattr(LocalStore, "list_level")
    result = table.vacuum(mode="full", where="p = '1'", dry_run=False)
    assert set(result.paths) == wanted
    assert result.warnings == (
        "the store cannot list single directories: the whole table was listed",
    )
    assert orphans(table, ["x"]) == set(table.vacuum(mode="full").paths)


def test_directories_are_listed_at_once_where_a_listing_has_no_offset(tmp_path, listed):
    table = make(tmp_path / "t", partition_by=["p"])
    wanted = orphans(table, ["p=1/x", "p=1/y/z", "a/b/c/d", "x"])
    result = table.vacuum(mode="full", dry_run=False)
    assert (set(result.paths), result.warnings) == (wanted, ())
    assert {"p=1/y", "a/b"} <= set(listed)
    assert "" not in listed


def test_a_predicate_over_other_columns_is_refused(tmp_path):
    table = make(tmp_path / "t", partition_by=["p"])
    with pytest.raises(ConfigError, match="'id' is not a partition column"):
        table.vacuum(where="id = 1")
    mapped = make(tmp_path / "m", {"delta.columnMapping.mode": "name"}, partition_by=["p"])
    with pytest.raises(ConfigError, match="column mapping"):
        mapped.vacuum(where="p = 'x'")


@pytest.mark.parametrize("form", ["arrow", "parquet", "csv"])
@pytest.mark.parametrize("absolute", [False, True])
def test_an_inventory_replaces_the_listing(tmp_path, form, absolute, monkeypatch):
    table = make(tmp_path / "t", partition_by=["p"])
    table.write(rows(9), mode="overwrite")
    backdate(table, hours=24 * 20)
    monkeypatch.setattr(object_listing, "list_tree", None)
    root = Path(table.url)
    listed = [(path, path.stat()) for path in sorted(root.rglob("*"))]
    inventory = pa.table({
        "path": [str(path if absolute else path.relative_to(root)) for path, _ in listed],
        "length": [stat.st_size for _, stat in listed],
        "isDir": [path.is_dir() for path, _ in listed],
        "modificationTime": [int(stat.st_mtime * 1000) for _, stat in listed],
    })  # fmt: skip
    if form == "parquet":
        pq.write_table(inventory, tmp_path / "inventory.parquet")
    elif form == "csv":
        pyarrow.csv.write_csv(inventory, tmp_path / "inventory.csv")
    given = inventory if form == "arrow" else tmp_path / f"inventory.{form}"
    dead = removed_files(table)
    result = table.vacuum(mode="full", inventory=given, dry_run=False)
    assert set(result.paths) == dead
    assert not dead & files_of(table)
    assert table.to_arrow().num_rows == 4


@pytest.mark.parametrize(
    ("inventory", "message"),
    [
        (pa.table({"path": ["a"]}), "has no column length, isDir, modificationTime"),
        ({"path": ["a"]}, "must be the path of"),
        ("missing.parquet", "cannot be read"),
        (
            pa.table({"path": ["/o/a"], "length": [1], "isDir": [False], "modificationTime": [1]}),
            "is of another table",
        ),
        (
            pa.table({"path": ["a"], "length": [1], "isDir": [False], "modificationTime": ["x"]}),
            "has a column of another type",
        ),
    ],
)
def test_an_invalid_inventory_is_refused(tmp_path, inventory, message):
    table = make(tmp_path / "t")
    with pytest.raises(ConfigError, match=message):
        table.vacuum(mode="full", inventory=inventory, dry_run=False)
    with pytest.raises(ConfigError, match='mode="full"'):
        table.vacuum(inventory=inventory)


@pytest.mark.parametrize("short", [0, 167.9, "6 days", timedelta(days=6), "interval 100 hours"])
def test_a_retention_below_the_tables_is_refused_without_force(tmp_path, short):
    table = make(tmp_path / "t")
    with pytest.raises(ConfigError, match="deletedFileRetentionDuration"):
        table.vacuum(short)
    assert table.vacuum(short, force=True).files_to_delete == 0


@pytest.mark.parametrize("invalid", ["soon", -1, "1 month", "", float("inf"), float("nan"), [1]])
def test_an_invalid_retention_is_refused(tmp_path, invalid):
    with pytest.raises(ConfigError, match="retention"):
        make(tmp_path / "t").vacuum(invalid, force=True)


def test_the_tables_own_retention_is_the_default(tmp_path):
    table = make(tmp_path / "t", {"delta.deletedFileRetentionDuration": "interval 1 hours"})
    table.delete()
    backdate(table, hours=1.2)
    assert table.vacuum(dry_run=False).files_deleted == 0
    backdate(table, hours=4)
    assert table.vacuum(dry_run=False).files_deleted == 1


# --- what is written down


def test_start_and_end_are_committed_as_delta_spark_does(tmp_path):
    table = make(tmp_path / "t")
    table.delete()
    backdate(table, hours=24 * 20)
    result = table.vacuum("8 days", dry_run=False, commit_metadata={"job": {"id": "7"}})
    end, start, *_ = table.history()
    assert (end.version, end.operation) == (result.version, "VACUUM END")
    assert end.raw["operationParameters"] == {"status": "COMPLETED"}
    assert end.raw["operationMetrics"] == {"numDeletedFiles": "1", "numVacuumedDirectories": "1"}
    assert start.operation == "VACUUM START"
    assert start.raw["operationParameters"] == {
        "retentionCheckEnabled": "true",
        "defaultRetentionMillis": str(7 * 86_400_000),
        "specifiedRetentionMillis": str(8 * 86_400_000),
    }
    assert start.raw["operationMetrics"]["numFilesToDelete"] == "1"
    assert start.raw["job"] == {"id": "7"}


def test_nothing_is_committed_without_files_to_delete_or_on_request(tmp_path):
    table = make(tmp_path / "t")
    table.vacuum(dry_run=False)
    assert len(table.history()) == 1
    table.delete()
    backdate(table, hours=24 * 20)
    assert table.vacuum(dry_run=False, record=False).files_deleted == 1
    assert len(table.history()) == 2


def test_lite_mode_reads_no_commit_twice(tmp_path):
    table = make(tmp_path / "t")
    table.delete()
    backdate(table, hours=24 * 20)
    info = Path(table.url) / "_delta_log" / "_last_vacuum_info"
    table.vacuum()
    assert not info.exists()
    table.vacuum(dry_run=False)
    assert json.loads(info.read_text()) == {"latestCommitVersionOutsideOfRetentionWindow": 1}
    assert table.vacuum(dry_run=False).files_to_delete == 0


@pytest.mark.parametrize(
    "content", ["", "[]", '{"latestCommitVersionOutsideOfRetentionWindow":null}']
)
def test_an_unusable_record_of_the_last_vacuum_is_ignored(tmp_path, content):
    table = make(tmp_path / "t")
    table.delete()
    backdate(table, hours=24 * 20)
    (Path(table.url) / "_delta_log" / "_last_vacuum_info").write_text(content)
    assert table.vacuum(dry_run=False).files_deleted == 1


def test_lite_mode_warns_if_the_log_does_not_reach_back(tmp_path):
    table = make(tmp_path / "t")
    table.delete("id = 0")
    table.delete("id = 1")
    table.checkpoint()
    backdate(table, hours=24 * 20)
    (Path(table.url) / "_delta_log" / f"{0:020d}.json").unlink()
    (Path(table.url) / "_delta_log" / f"{1:020d}.json").unlink()
    result = table.vacuum(0, force=True)
    assert result.files_to_delete == 2, "the checkpoint still has a tombstone of commit 1"
    assert 'mode="full"' in result.warnings[0]


def test_a_table_that_cannot_be_written_is_not_vacuumed(tmp_path):
    builder = TableBuilder(tmp_path / "t")
    builder.protocol["writerFeatures"] = ["unheardOf"]
    builder.protocol["minReaderVersion"] = 1
    builder.protocol.pop("readerFeatures")
    builder.commit("+a")
    with pytest.raises(UnsupportedFeatureError, match="unheardOf"):
        ld.Table.open(tmp_path / "t").vacuum()
