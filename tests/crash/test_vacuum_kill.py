"""VACUUM killed, and beside writers: nothing live is deleted, and what it reports is true."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import lazydelta as ld
from lazydelta import _failpoints as failpoints
from lazydelta.operations.maintenance import tuning
from tests.aged_tables import backdate, files_of
from tests.crash.harness import check_log, environment
from tests.maintained_tables import FEED, VECTORS, make, removed_files, rows

_RUN = """
import os, sys
import lazydelta as ld
from lazydelta.operations.maintenance import tuning
tuning.DELETED_TOGETHER, tuning.DELETE_THREADS = 2, 1
def kill(files):
    os.kill(os.getpid(), 9)
progress = kill if sys.argv[3] == "deleting" else None
ld.Table.open(sys.argv[1]).vacuum(mode=sys.argv[2], dry_run=False, progress=progress)
"""
_MODES = pytest.mark.parametrize("mode", ["lite", "full"])
_POINTS = ("commit-prepared:kill:1", "commit-put:kill:1", "deleting", "commit-put:kill:2")


def table_with_dead_files(directory):
    table = make(directory / "t", {**VECTORS, **FEED}, partition_by=["p"])
    for first in (10, 20, 30):
        table.write(rows(first), mode="overwrite")
    table.delete("id = 30")
    backdate(table, hours=24 * 20)
    return table


@pytest.mark.sample(3)
@_MODES
@pytest.mark.parametrize("point", _POINTS)
def test_killed_at(point, mode, tmp_path):
    table = table_with_dead_files(tmp_path)
    dead, expected = removed_files(table) & files_of(table), table.to_arrow()
    armed = environment() | ({} if point == "deleting" else {"_LAZYDELTA_FAILPOINT": point})
    command = [sys.executable, "-c", _RUN, table.url, mode, point]
    killed = subprocess.run(command, env=armed, check=False, timeout=120)
    assert killed.returncode == -signal.SIGKILL
    check_log(table.url)
    left = dead & files_of(table)
    if point == "deleting":
        assert set() < left < dead
    else:
        assert left == (dead if point.endswith("1") else set())
    assert table.to_arrow() == expected
    result = table.vacuum(mode=mode, dry_run=False)
    assert set(result.paths) >= left
    assert result.files_deleted == len(result.paths), "only what was left is counted"
    assert not dead & files_of(table)
    assert table.to_arrow() == expected


@_MODES
def test_a_file_that_a_restore_adds_meanwhile_stays(mode, tmp_path):
    table = table_with_dead_files(tmp_path)
    dead = removed_files(table) & files_of(table)
    wanted = table.snapshot(2)
    expected, needed = wanted.to_arrow(), {file.path for file in wanted.scan().files()}

    def restore():
        ld.Table.open(table.url).restore(2)

    with failpoints.arm("commit-prepared", restore):
        result = table.vacuum(mode=mode, dry_run=False)
    assert table.to_arrow().sort_by("id") == expected.sort_by("id")
    gone = dead - files_of(table)
    assert gone
    assert not needed & gone
    assert result.files_deleted == result.files_to_delete == len(result.paths)
    assert gone <= set(result.paths)


@_MODES
def test_beside_writers(mode, tmp_path, monkeypatch):
    monkeypatch.setattr(tuning, "DELETED_TOGETHER", 2)
    table = table_with_dead_files(tmp_path)
    dead = removed_files(table) & files_of(table)
    errors, stop = [], threading.Event()

    def write(first):
        mine, number = ld.Table.open(table.url), 0
        while not stop.is_set():
            number += 1
            try:
                mine.write(rows(first + 10 * number), app_id=str(first), app_version=number)
                mine.delete(f"id = {first + 10 * number}")
            except Exception as error:  # noqa: BLE001 - it is reported
                errors.append(error)
        done[first] = number

    done: dict[int, int] = {}
    writers = [threading.Thread(target=write, args=(first,)) for first in (10_000, 20_000)]
    for writer in writers:
        writer.start()
    results = [ld.Table.open(table.url).vacuum(mode=mode, dry_run=False) for _ in range(3)]
    stop.set()
    for writer in writers:
        writer.join()
    assert errors == []
    assert not dead & files_of(table)
    assert not any(Path(table.url, path).exists() for result in results for path in result.paths)
    assert results[0].files_deleted == len(results[0].paths) >= len(dead)
    ids = set(table.to_arrow()["id"].to_pylist())
    written = {first + 10 * n + i for first in done for n in range(1, done[first] + 1)
               for i in (1, 2, 3)}  # fmt: skip
    assert ids == {31, 32, 33} | written
    check_log(table.url)
    for version in range(max(0, table.version - 5), table.version + 1):
        table.snapshot(version).to_arrow()
