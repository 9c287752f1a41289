"""VACUUM: what must stay stays, and what is dead goes."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lazydelta as ld
from lazydelta.formats import DeletionVectorGroup
from lazydelta.testing import TableBuilder
from lazydelta.testing.log_actions import remove
from tests.aged_tables import age, backdate, files_of
from tests.maintained_tables import (
    FEED,
    MODES,
    VECTORS,
    apply_steps,
    content,
    make,
    now_ms,
    removed_files,
    rows,
    steps,
    vacuum,
)

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


# --- random histories


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


def change_content(table, first, properties):
    if "delta.enableChangeDataFeed" not in properties or first > table.version:
        return None
    return sorted(map(repr, table.changes(starting_version=first).to_arrow().drop_columns(
        ["_commit_timestamp"]).to_pylist()))  # fmt: skip
