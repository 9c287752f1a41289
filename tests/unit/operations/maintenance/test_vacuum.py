"""VACUUM: what must stay stays, what is dead goes, and the report is what happened."""

from __future__ import annotations

import json
import time
from datetime import timedelta
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lazydelta as ld
from lazydelta.errors import ConfigError, StoreError, UnsupportedFeatureError
from lazydelta.formats import DeletionVectorGroup
from lazydelta.operations.maintenance import object_listing, tuning
from lazydelta.store import MemoryStore
from lazydelta.testing import TableBuilder
from lazydelta.testing.log_actions import remove
from tests.aged_tables import age, backdate, files_of

VECTORS = {"delta.enableDeletionVectors": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}
MODES = pytest.mark.parametrize("mode", ["lite", "full"])
ODD = ["x y", "50%", "a/b", "é", "a%20b", "", None]
"""Partition values whose directories are escaped, or could be decoded twice."""


def rows(first, count=4):
    names = [ODD[i % len(ODD)] for i in range(first, first + count)]
    return pa.table(
        {"id": pa.array(range(first, first + count)), "p": pa.array(names, pa.string())}
    )


def make(directory, properties=None, **options):
    table = ld.Table.open(directory)
    table.write(rows(0), properties=properties or {}, **options)
    return table


def now_ms():
    return time.time_ns() // 10**6


def vacuum(table, **options):
    return table.vacuum(**{"retention": 2.2, "force": True, "dry_run": False, **options})


def removed_files(table):
    """Return the paths that removes of the log name, decoded once."""
    with_removes = [json.loads(line) for f in (Path(table.url) / "_delta_log").glob("*.json")
                    for line in f.read_text().splitlines()]  # fmt: skip
    return {unquote(a["remove"]["path"]) for a in with_removes if "remove" in a}


# --- what goes, and what stays


@MODES
def test_files_that_were_removed_before_the_cutoff_go(tmp_path, mode):
    table = make(tmp_path / "t", partition_by=["p"])
    table.delete("id < 2")
    dead = removed_files(table)
    backdate(table, hours=24 * 20)
    before = files_of(table)
    result = table.vacuum(mode=mode, dry_run=False)
    assert before - files_of(table) == dead
    assert result.files_deleted == result.files_to_delete == len(dead)
    assert table.to_arrow().num_rows == 2


@MODES
def test_a_dry_run_is_the_default_and_deletes_nothing(tmp_path, mode):
    table = make(tmp_path / "t")
    table.delete()
    backdate(table, hours=24 * 20)
    before, versions = files_of(table), len(table.history())
    result = table.vacuum(mode=mode)
    assert (result.dry_run, result.files_to_delete, result.files_deleted) == (True, 1, 0)
    assert set(result.paths) == removed_files(table)
    assert files_of(table) == before
    assert len(table.history()) == versions


@MODES
def test_files_of_partitions_with_escaped_names_are_deleted_and_counted(tmp_path, mode):
    table = make(tmp_path / "t", partition_by=["p"])
    table.write(rows(10, 7))
    table.write(rows(20, 7), mode="overwrite")
    backdate(table, hours=24 * 20)
    before, dead = files_of(table), removed_files(table)
    assert any("%" in path for path in dead)
    result = vacuum(table, mode=mode, retention=None)
    assert before - files_of(table) == dead
    assert result.files_deleted == len(dead)
    assert table.to_arrow().num_rows == 7


@MODES
def test_files_that_were_removed_within_the_retention_stay(tmp_path, mode):
    table = make(tmp_path / "t")
    table.delete()
    assert vacuum(table, mode=mode, retention=None).files_deleted == 0
    assert table.snapshot(0).to_arrow().num_rows == 4


@MODES
def test_tombstones_that_only_an_older_checkpoint_dropped_still_protect(tmp_path, mode):
    """A retention longer than the table's needs commits from before the checkpoint."""
    table = make(tmp_path / "t")
    table.delete("id = 0")
    table.write(rows(4))
    backdate(table, hours=24 * 20)  # removed 30 days ago: expired for the checkpoint
    table.checkpoint()
    assert vacuum(table, mode=mode, retention=timedelta(days=40)).files_deleted == 0
    assert table.snapshot(0).to_arrow().num_rows == 4


@MODES
@pytest.mark.parametrize("own_time", [0, None])
def test_a_late_remove_protects_its_file_whatever_its_own_time_is(tmp_path, mode, own_time):
    builder = TableBuilder(tmp_path)
    builder.commit("+a#v1", at_ms=1_700_000_000_000)
    builder.commit(remove("a", vector="v1", deletionTimestamp=own_time), at_ms=now_ms())
    for name in ("a", DeletionVectorGroup.file_name("v1".rjust(20, "0"))):
        (tmp_path / name).write_bytes(b"x")
        age(tmp_path / name, 24 * 99)
    assert ld.Table.open(tmp_path).vacuum(mode=mode).files_to_delete == 0


@MODES
def test_a_tombstone_that_is_young_by_its_own_time_protects_its_file(tmp_path, mode):
    builder = TableBuilder(tmp_path)
    builder.commit("+a", at_ms=1_700_000_000_000)
    builder.commit(remove("a", deletionTimestamp=now_ms()), at_ms=1_700_000_001_000)
    (tmp_path / "a").write_bytes(b"x")
    age(tmp_path / "a", 24 * 99)
    assert ld.Table.open(tmp_path).vacuum(mode=mode).files_to_delete == 0


@MODES
def test_deletion_vector_files_of_retained_versions_stay_and_others_go(tmp_path, mode):
    table = make(tmp_path / "t", VECTORS)
    table.write(rows(0, 10), mode="overwrite")
    for number in range(3):
        table.delete(f"id = {number}")
    backdate(table)
    vectors = {path for path in files_of(table) if path.endswith(".bin")}
    assert len(vectors) == 3
    vacuum(table, mode=mode, retention=1.0)  # version 3 was the newest one then
    assert len(vectors & files_of(table)) == 2
    assert [table.snapshot(v).to_arrow().num_rows for v in (3, 4)] == [8, 7]


@MODES
def test_change_files_of_retained_commits_stay_and_others_go(tmp_path, mode):
    table = make(tmp_path / "t", {**FEED, **VECTORS})
    for number in range(4):
        table.update({"p": "'new'"}, where=f"id = {number}")
    backdate(table)
    changes = {path for path in files_of(table) if path.startswith("_change_data")}
    assert len(changes) == 8
    vacuum(table, mode=mode, retention=2.0)
    assert len(changes & files_of(table)) == 4
    assert table.changes(starting_version=3).to_arrow().num_rows == 4


def test_a_change_file_that_is_older_than_its_commit_stays(tmp_path):
    """As in a copy of a table that keeps modification times, or with another clock."""
    builder = TableBuilder(tmp_path).commit("+a", at_ms=1_700_000_000_000)
    cdc = {"path": "_change_data/c%20d", "partitionValues": {}, "size": 1, "dataChange": False}
    builder.commit({"cdc": cdc}, at_ms=now_ms())
    (tmp_path / "_change_data").mkdir()
    for name in ("c d", "e"):
        (tmp_path / "_change_data" / name).write_bytes(b"x")
        age(tmp_path / "_change_data" / name, 24 * 99)
    assert ld.Table.open(tmp_path).vacuum(mode="full").paths == ("_change_data/e",)


@MODES
def test_files_of_kept_versions_stay(tmp_path, mode):
    table = make(tmp_path / "t", VECTORS)
    table.delete("id = 0")
    table.write(rows(9), mode="overwrite")
    table.write(rows(19), mode="overwrite")
    backdate(table, hours=24 * 20)
    vacuum(table, mode=mode, retention=None, keep_versions=[1])
    assert table.snapshot(1).to_arrow().num_rows == 3
    assert vacuum(table, mode=mode, retention=None).files_deleted > 0


def test_a_file_that_no_commit_names_goes_only_in_full_mode_and_only_if_it_is_old(tmp_path):
    table = make(tmp_path / "t")
    old, young = Path(table.url, "old.parquet"), Path(table.url, "sub", "young.parquet")
    young.parent.mkdir()
    for file in (old, young):
        file.write_bytes(b"x" * 10)
    age(old, 24 * 8)
    age(young, 24 * 6)
    assert table.vacuum(dry_run=False).files_deleted == 0
    result = table.vacuum(mode="full", dry_run=False)
    assert (result.files_deleted, result.bytes_deleted) == (1, 10)
    assert young.exists()
    assert not old.exists()


def test_hidden_names_stay_except_change_data_and_partition_directories(tmp_path):
    table = ld.Table.open(tmp_path / "t")
    table.write(pa.table({"id": [1], "_p": ["1"]}), partition_by=["_p"])
    root = Path(table.url)
    hidden = [
        "_tmp/x",
        ".hidden/x",
        "a/_b/x",
        "_x.parquet",
        "a/.x",
        "_change_data_copy/x",
        "_q=1/x",
    ]
    visible = ["a/x", "_p=2/x", "_change_data/x", "_change_data/_p=1/x", "a_b/x.y", "a/b=1/x"]
    for name in hidden + visible:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
        age(path, 24 * 30)
    result = table.vacuum(mode="full", dry_run=False)
    assert sorted(result.paths) == sorted(visible)
    assert all((root / name).exists() for name in hidden)


def test_the_log_is_neither_listed_nor_deleted(tmp_path):
    table = make(tmp_path / "t")
    log = {str(age(path, 24 * 99)) for path in (Path(table.url) / "_delta_log").iterdir()}
    table.vacuum(mode="full", dry_run=False)
    assert log <= {str(path) for path in (Path(table.url) / "_delta_log").iterdir()}


@MODES
def test_files_outside_the_table_are_never_deleted(tmp_path, mode):
    """A shallow clone refers to the files of its source by absolute paths."""
    source = tmp_path / "source"
    source.mkdir()
    files = [source / "a.parquet", source / "b.parquet", tmp_path / "c.parquet"]
    for file in files:
        file.write_bytes(b"x")
        age(file, 24 * 99)
    clone = TableBuilder(tmp_path / "t")
    clone.commit(f"+{files[0]} +file://{files[1]} +../c.parquet +own", at_ms=1_700_000_000_000)
    clone.commit(f"-{files[0]} -file://{files[1]} -../c.parquet -own", at_ms=1_700_000_001_000)
    (tmp_path / "t" / "own").write_bytes(b"x")
    age(tmp_path / "t" / "own", 24 * 99)
    result = ld.Table.open(tmp_path / "t").vacuum(mode=mode, dry_run=False)
    assert result.paths == ("own",)
    assert all(file.exists() for file in files)


@MODES
def test_an_absolute_path_of_the_tables_own_file_protects_it(tmp_path, mode):
    own = tmp_path / "t" / "a b.parquet"
    builder = TableBuilder(tmp_path / "t")
    builder.commit(f"+{tmp_path}/t/a%20b.parquet", "+gone", at_ms=1_700_000_000_000)
    builder.commit("-gone", at_ms=1_700_000_001_000)
    own.write_bytes(b"x")
    age(own, 24 * 99)
    ld.Table.open(tmp_path / "t").vacuum(mode=mode, dry_run=False)
    assert own.exists()


def test_a_directory_link_is_not_followed(tmp_path):
    table = make(tmp_path / "t")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "x").write_bytes(b"")
    age(elsewhere / "x", 24 * 99)
    (Path(table.url) / "link").symlink_to(elsewhere)
    assert table.vacuum(mode="full", dry_run=False).files_deleted == 0
    assert (elsewhere / "x").exists()


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


# --- the report is what the store confirmed


class RefusingStore(MemoryStore):
    """A remote store that deletes some objects, and refuses others."""

    refused = "b"

    def delete(self, paths):
        for path in paths:
            if self.refused in path.rsplit("/", 1)[-1]:
                raise StoreError(path, "refused")
            super().delete([path])


def dead_files_in(store, names):
    builder = TableBuilder(store)
    builder.commit(*(f"+{name}" for name in names))
    builder.commit(*(remove(name, size=5) for name in names))
    for name in names:
        store.write(name, b"12345", overwrite=True)
    return ld.Table(store, ld.Config())


def test_failures_are_counted_and_not_reported_as_deleted():
    store = RefusingStore()
    table = dead_files_in(store, ["a", "b1", "c", "b2", "d"])
    result = table.vacuum(0, force=True, dry_run=False)
    assert (result.files_deleted, result.files_failed) == (3, 2)
    assert result.bytes_deleted == 15
    assert sorted(result.failures) == ["b1: refused", "b2: refused"]
    assert sorted(path for path in ("a", "b1", "c", "b2", "d") if path in store._objects) == [
        "b1",
        "b2",
    ]
    assert table.history(1)[0].raw["operationParameters"] == {"status": "FAILED"}
    store.refused = "nothing"
    assert table.vacuum(0, force=True, dry_run=False).files_deleted >= 2, "it is tried again"


def test_a_store_that_refuses_everything_is_not_asked_for_each_file():
    store = RefusingStore()
    store.refused = "f"
    table = dead_files_in(store, [f"f{number}" for number in range(100)])
    calls = []
    store.delete = lambda paths: calls.append(paths) or RefusingStore.delete(store, paths)
    result = table.vacuum(0, force=True, dry_run=False)
    assert (result.files_deleted, result.files_failed) == (0, 100)
    assert len(result.failures) == tuning.LISTED_FAILURES
    assert len(calls) == 1 + tuning.FAILURES_IN_A_ROW


def test_a_listing_in_ranges_finds_every_object_once(monkeypatch):
    store = MemoryStore()
    store.lists_from_offsets = True
    names = [f"{letter}{number}/x" for letter in "A_az" for number in range(50)] + ["_delta_log/1"]
    for name in [*names, "_delta_log0", "_delta_lof", "_", "~"]:
        store.write(name, b"", overwrite=True)
    batches = object_listing.listed_objects(store, names)
    listed = [path for batch in batches for path in batch.column("path").to_pylist()]
    expected = [*names[:-1], "_delta_log0", "_delta_lof", "_", "~"]
    assert sorted(listed) == sorted(expected)


# --- random histories

steps = st.lists(
    st.sampled_from(["append", "delete", "delete-all", "update", "overwrite", "checkpoint"]),
    min_size=2,
    max_size=7,
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=steps,
    mode=st.sampled_from(["lite", "full"]),
    age_of_cutoff=st.integers(0, 7),
    properties=st.sampled_from([{}, VECTORS, FEED, {**VECTORS, **FEED}]),
    partitioned=st.booleans(),
)
def test_every_retained_version_reads_the_same_and_the_report_is_true(
    tmp_path_factory, steps, mode, age_of_cutoff, properties, partitioned
):
    table = make(
        tmp_path_factory.mktemp("t"), properties, partition_by=["p"] if partitioned else []
    )
    apply_steps(table, steps)
    backdate(table)
    oldest = max(0, table.version - age_of_cutoff)
    before = {v: content(table, v) for v in range(oldest, table.version + 1)}
    changes = change_content(table, oldest + 1, properties)
    files = files_of(table)
    result = vacuum(table, mode=mode, retention=float(age_of_cutoff), record=False)
    assert {v: content(table, v) for v in before} == before
    assert change_content(table, oldest + 1, properties) == changes
    gone = files - files_of(table)
    assert gone == set(result.paths)
    assert result.files_deleted == len(gone)
    assert vacuum(table, mode="full", retention=float(age_of_cutoff)).files_deleted == 0 or (
        mode == "lite" and "checkpoint" in steps
    )


def apply_steps(table, steps):
    for number, step in enumerate(steps, 1):
        if step == "append":
            table.write(rows(10 * number))
        elif step == "overwrite":
            table.write(rows(10 * number), mode="overwrite")
        elif step == "delete":
            table.delete(f"id % 3 = {number % 3}")
        elif step == "delete-all":
            table.delete()
        elif step == "update":
            table.update({"p": f"'{number} %'"}, where=f"id % 2 = {number % 2}")
        else:
            table.checkpoint()


def content(table, version):
    return sorted(map(repr, table.snapshot(version).to_arrow().to_pylist()))


def change_content(table, first, properties):
    if "delta.enableChangeDataFeed" not in properties or first > table.version:
        return None
    return sorted(map(repr, table.changes(starting_version=first).to_arrow().drop_columns(
        ["_commit_timestamp"]).to_pylist()))  # fmt: skip
