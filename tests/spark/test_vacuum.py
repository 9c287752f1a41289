"""VACUUM and RESTORE on Spark: the files, results and commits are those of one process."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import lazydelta as ld
import lazydelta.spark as executors
from lazydelta.errors import ConfigError, FilesNotFoundError
from lazydelta.spark import tuning
from lazydelta.spark.maintenance import dead_file_search
from tests.spark.maintained_tables import Twins, create, files_of, rows_of, rows_of_file

FEED = {"delta.enableChangeDataFeed": "true"}
OLD = 1_700_000_000


@pytest.fixture
def session(spark, monkeypatch):
    """A session in which executors replay every log, in several tasks."""
    monkeypatch.setattr(tuning, "COMMITS_IN_ONE_TASK", 2)
    monkeypatch.setattr(tuning, "DELETED_IN_ONE_TASK", 4)
    session = spark.newSession()
    session.conf.set("spark.lazydelta.distributedLogReplay.fileThreshold", "0")
    session.conf.set("spark.lazydelta.distributedLogReplay.numPartitions", "2")
    return session


@pytest.fixture
def twins(tmp_path):
    """Tables with deleted rows, change files, removed files, and files of no version."""
    twins = Twins(tmp_path, "mapped-vectors-partitioned")
    shutil.rmtree(twins.local)
    table = ld.Table.open(twins.spark)
    table.alter.set_properties(FEED)
    table.optimize("p = 'a'")
    table.checkpoint()
    table.update({"x": "x + 1"}, "id % 10 = 1")
    table.delete("p = 'b'")
    for name in ("orphan.parquet", "p=a/orphan.parquet", "_hidden/x", "p=a/.crc"):
        path = Path(twins.spark, name)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"orphan")
    make_old(twins.spark)
    shutil.copytree(twins.spark, twins.local)
    return twins


def make_old(url):
    for name in objects(url):
        os.utime(Path(url, name), (OLD, OLD))


def objects(url):
    found = (path for path in Path(url).rglob("*") if path.is_file())
    return {str(path.relative_to(url)) for path in found if "_delta_log" not in path.parts}


def inventory_of(paths):
    return pa.table({
        "path": paths,
        "length": [3] * len(paths),
        "isDir": [False] * len(paths),
        "modificationTime": [OLD * 1000] * len(paths),
    })  # fmt: skip


@pytest.mark.long  # eight searches, which start many jobs
@pytest.mark.parametrize("mode", ["lite", "full"])
def test_deleted_files_are_those_of_one_process(session, twins, mode):
    version = twins.table.version - 2
    for keep in ((version,), ()):
        options = {"retention": 0, "mode": mode, "force": True, "keep_versions": keep}
        planned = executors.vacuum(session, twins.spark, **options)
        expected = twins.table.vacuum(**options)
        assert planned.dry_run
        assert sorted(planned.paths) == sorted(expected.paths)
        assert planned.bytes_to_delete == expected.bytes_to_delete > 0
        found = executors.vacuum(session, twins.spark, **options, dry_run=False)
        here = twins.table.vacuum(**options, dry_run=False)
        for name in ("version", "files_deleted", "bytes_deleted", "files_failed"):
            assert getattr(found, name) == getattr(here, name)
        assert objects(twins.spark) == objects(twins.local)
    commits = [ld.Table.open(url).history(2) for url in (twins.spark, twins.local)]
    ours, theirs = ([(c.operation, c.raw["operationMetrics"]) for c in each] for each in commits)
    assert ours == theirs
    assert [operation for operation, _ in ours] == ["VACUUM END", "VACUUM START"]
    twins.check()
    info = [
        Path(url, "_delta_log/_last_vacuum_info").exists() for url in (twins.spark, twins.local)
    ]
    assert info == [True, True]


def test_files_that_are_young_or_needed_stay(session, twins):
    version = ld.Table.open(twins.spark).version
    assert not executors.vacuum(session, twins.spark, mode="lite").files_to_delete
    found = executors.vacuum(session, twins.spark, mode="full")
    assert sorted(found.paths) == ["orphan.parquet", "p=a/orphan.parquet"]
    with pytest.raises(ConfigError, match="shorter than"):
        executors.vacuum(session, twins.spark, 1)
    with pytest.raises(ConfigError, match="column mapping"):
        executors.vacuum(session, twins.spark, where="p = 'a'")
    assert ld.Table.open(twins.spark).version == version


@pytest.mark.parametrize("where", [None, pytest.param("p = 'a'", marks=pytest.mark.long)])
def test_a_log_that_does_not_reach_back_leaves_the_files_of_its_checkpoint(
    session, tmp_path, where
):
    table = create(tmp_path, "partitioned")
    table.delete("id < 40")
    table.delete("id >= 200")
    table.checkpoint()
    for version in range(table.version - 1):
        (tmp_path / "_delta_log" / f"{version:020d}.json").unlink()
    expected = table.vacuum(0, force=True, where=where)
    found = executors.vacuum(session, tmp_path, 0, force=True, where=where)
    assert sorted(found.paths) == sorted(expected.paths)
    assert found.files_to_delete == (6 if where is None else 2)
    assert found.warnings == expected.warnings
    assert 'mode="full"' in found.warnings[0]


@pytest.mark.long  # five searches
def test_an_inventory_replaces_the_listing(session, twins, tmp_path):
    rows = inventory_of(sorted(objects(twins.spark)))
    options = {"retention": 0, "mode": "full", "force": True}
    expected = twins.table.vacuum(**options, inventory=rows)
    ld.write(tmp_path / "inventory", rows)
    (file,) = (tmp_path / "inventory").glob("*.parquet")
    frame = session.read.parquet(str(file))
    for inventory in (rows, str(file), frame):
        found = executors.vacuum(session, twins.spark, **options, inventory=inventory)
        assert sorted(found.paths) == sorted(expected.paths)
    with pytest.raises(ConfigError, match="has no column length"):
        executors.vacuum(session, twins.spark, **options, inventory=frame.drop("length"))
    other = frame.selectExpr("'/elsewhere/' || path AS path", "length", "isDir", "modificationTime")
    with pytest.raises(ConfigError, match="of another table"):
        executors.vacuum(session, twins.spark, **options, inventory=other)


def test_a_search_that_fails_leaves_nothing_in_the_cache(session, tmp_path):
    url, other = tmp_path / "t", inventory_of(["/elsewhere/x"])
    ld.write(url, {"id": [1]})
    persisted = session.sparkContext._jsc.getPersistentRDDs
    before = set(persisted())
    with pytest.raises(ConfigError, match="of another table"):
        executors.vacuum(session, url, 0, "full", force=True, inventory=other)
    assert set(persisted()) <= before


@pytest.mark.parametrize("inventory", [False, pytest.param(True, marks=pytest.mark.long)])
def test_tables_inside_the_table_stay(session, tmp_path, inventory):
    url = tmp_path / "t"
    create(url, "partitioned")
    inner = [url / name for name in ("A", "p=a/b", "p=a/b/c")]
    for place in inner:
        ld.write(place, rows_of_file(0))
        ld.Table.open(place).delete()
        (place / "orphan").write_bytes(b"123")
    for name in ("A-not/x", "p=a/b-not/x", "p=a/x"):
        (url / name).parent.mkdir(exist_ok=True)
        (url / name).write_bytes(b"123")
    make_old(url)
    before = {str(path) for path in url.rglob("*") if path.is_file()}
    given = inventory_of([str(Path(path).relative_to(url)) for path in before])
    options = {"retention": 0, "mode": "full", "force": True, "record": False}
    found = executors.vacuum(
        session, url, **options, inventory=given if inventory else None, dry_run=False
    )
    gone = before - {str(path) for path in url.rglob("*") if path.is_file()}
    assert gone == {str(url / name) for name in ("A-not/x", "p=a/b-not/x", "p=a/x")}
    assert (found.files_to_delete, found.files_deleted, found.bytes_deleted) == (3, 3, 9)
    assert "3 directories with a Delta table of their own: A, p=a/b, p=a/b/c" in found.warnings[0]


@pytest.mark.parametrize("mode", [pytest.param("lite", marks=pytest.mark.long), "full"])
def test_files_that_are_added_again_during_the_search_stay(session, tmp_path, monkeypatch, mode):
    table = create(tmp_path)
    rows, version = rows_of(tmp_path), table.version
    table.delete("id < 80")
    kept = objects(tmp_path)
    table.write(rows_of_file(9))
    table.delete("id >= 360")
    dead = objects(tmp_path) - kept
    make_old(tmp_path)
    delete, planned = dead_file_search.DistributedFiles.delete, []

    def race(self, progress):
        planned.append(self.files)
        table.restore(version)
        return delete(self, progress)

    monkeypatch.setattr(dead_file_search.DistributedFiles, "delete", race)
    options = {"retention": 0, "mode": mode, "force": True, "dry_run": False}
    found = executors.vacuum(session, tmp_path, **options)
    assert planned == [3]
    assert found.files_to_delete == found.files_deleted == len(dead) == 1
    assert not dead & objects(tmp_path)
    assert rows_of(tmp_path) == rows


def test_deletes_that_fail_are_reported_and_recorded(session, tmp_path):
    url = tmp_path / "t"
    ld.write(url, rows_of_file(0))
    for name in ("one", "two", "../x"):
        (url / name).write_bytes(b"123")
    (url / "link").symlink_to(tmp_path)  # no file outside the table's directory is deleted
    found = executors.vacuum(
        session, url, mode="full", inventory=inventory_of(["one", "two", "link/x"]), dry_run=False
    )
    assert (found.files_to_delete, found.files_deleted, found.files_failed) == (3, 2, 1)
    (failure,) = found.failures
    assert failure.startswith("link/x: ")
    assert objects(tmp_path) >= {"x"}
    end = ld.Table.open(url).history(1)[0]
    assert end.raw["operationParameters"] == {"status": "FAILED"}


@pytest.mark.long  # it compares versions six times
def test_restored_files_are_those_of_one_process(session, twins, monkeypatch):
    monkeypatch.setattr(tuning, "FILES_LOOKED_UP", 2)
    for version in (3, 7):
        planned = executors.restore(session, twins.spark, version, dry_run=True)
        assert not planned.committed
        found = executors.restore(session, twins.spark, version)
        here = twins.table.restore(version)
        assert found.metrics == here.metrics == planned.metrics
        assert found.version == here.version
        assert files_of(twins.spark) == files_of(twins.local)
        twins.check()
    assert not executors.restore(session, twins.spark, 7).committed


def test_files_that_are_gone_are_refused_by_name(session, twins, monkeypatch):
    monkeypatch.setattr(tuning, "FILES_LOOKED_UP", 2)
    table = ld.Table.open(twins.spark)
    gone = next(iter(table.snapshot(2).scan().files())).path
    Path(twins.spark, gone).unlink()
    with pytest.raises(FilesNotFoundError, match=gone):
        executors.restore(session, twins.spark, 2)
    found = executors.restore(session, twins.spark, 2, ignore_missing_files=True)
    assert found.missing_files == (gone,)
