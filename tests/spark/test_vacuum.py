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
from tests.spark.maintained_tables import Twins, files_of, rows_of_file

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
    for path in Path(twins.spark).rglob("*"):
        if path.is_file() and "_delta_log" not in path.parts:
            os.utime(path, (OLD, OLD))
    shutil.copytree(twins.spark, twins.local)
    return twins


def objects(url):
    found = (path for path in Path(url).rglob("*") if path.is_file())
    return {str(path.relative_to(url)) for path in found if "_delta_log" not in path.parts}


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


def test_an_inventory_replaces_the_listing(session, twins, tmp_path):
    names = sorted(objects(twins.spark))
    rows = {
        "path": names,
        "length": [6] * len(names),
        "isDir": [False] * len(names),
        "modificationTime": [OLD * 1000] * len(names),
    }
    options = {"retention": 0, "mode": "full", "force": True}
    expected = twins.table.vacuum(**options, inventory=pa.table(rows))
    ld.write(tmp_path / "inventory", rows)
    (file,) = (tmp_path / "inventory").glob("*.parquet")
    frame = session.read.parquet(str(file))
    for inventory in (pa.table(rows), str(file), frame):
        found = executors.vacuum(session, twins.spark, **options, inventory=inventory)
        assert sorted(found.paths) == sorted(expected.paths)
    with pytest.raises(ConfigError, match="has no column length"):
        executors.vacuum(session, twins.spark, **options, inventory=frame.drop("length"))
    other = frame.selectExpr("'/elsewhere/' || path AS path", "length", "isDir", "modificationTime")
    with pytest.raises(ConfigError, match="of another table"):
        executors.vacuum(session, twins.spark, **options, inventory=other)


def test_deletes_that_fail_are_reported_and_recorded(session, tmp_path, monkeypatch):
    for number in range(3):
        ld.write(tmp_path, rows_of_file(number))
    table = ld.Table.open(tmp_path)
    stuck = next(iter(table.scan().files())).path
    table.delete()
    delete = dead_file_search.DistributedFiles.delete

    def race(self, progress):
        (tmp_path / stuck).unlink()
        (tmp_path / stuck / "below").mkdir(parents=True)  # it cannot be deleted as a file
        return delete(self, progress)

    monkeypatch.setattr(dead_file_search.DistributedFiles, "delete", race)
    found = executors.vacuum(session, tmp_path, 0, force=True, dry_run=False)
    assert (found.files_to_delete, found.files_deleted, found.files_failed) == (3, 2, 1)
    (failure,) = found.failures
    assert failure.startswith(f"{stuck}: ")
    assert table.history(1)[0].raw["operationParameters"] == {"status": "FAILED"}


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
