"""Errors of the disk: typed, with the path and the cure, and no file is left behind."""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path

import numpy as np
import pytest

import lazydelta as ld
from lazydelta._failpoints import FailpointError, arm
from lazydelta.errors import CommitUnknownError, StoreAccessError, StoreError, TableExistsError
from lazydelta.store import open_store

CURES = {
    errno.EACCES: (StoreAccessError, "check the permissions"),
    errno.EROFS: (StoreAccessError, "mount the file system for writing"),
    errno.ENOSPC: (StoreError, "free some disk space"),
    errno.EDQUOT: (StoreError, "raise the quota"),
}


def left_over(directory):
    """Return the data files and temporary files in a directory."""
    found = [*directory.rglob("*.parquet"), *directory.rglob(".*.tmp"), *directory.rglob("*.tmp")]
    return sorted(str(path.relative_to(directory)) for path in found)


def failing(code, monkeypatch, name, when=lambda *_: True):
    real = getattr(os, name)

    def fail(*args, **kwargs):
        if when(*args):
            raise OSError(code, os.strerror(code))
        return real(*args, **kwargs)

    monkeypatch.setattr(os, name, fail)


@pytest.fixture
def table(tmp_path):
    ld.write(tmp_path, {"x": [1]})
    return ld.Table.open(tmp_path)


@pytest.mark.parametrize("code", CURES)
def test_a_data_file_that_cannot_be_flushed(table, tmp_path, monkeypatch, code):
    before = left_over(tmp_path)
    failing(code, monkeypatch, "fsync")
    kind, cure = CURES[code]
    with pytest.raises(kind, match=cure) as caught:
        table.write({"x": [2]})
    monkeypatch.undo()
    assert str(tmp_path) in str(caught.value)
    assert caught.value.path.endswith(".parquet")
    assert left_over(tmp_path) == before
    assert table.version == 0


@pytest.mark.parametrize("code", CURES)
def test_a_data_file_that_cannot_be_named(table, tmp_path, monkeypatch, code):
    before = left_over(tmp_path)
    failing(code, monkeypatch, "link", lambda _, target: target.endswith(".parquet"))
    kind, cure = CURES[code]
    with pytest.raises(kind, match=cure):
        table.write({"x": [2]})
    assert left_over(tmp_path) == before


def test_a_full_disk(table, tmp_path):
    """A limit of the process stands for a full disk: pyarrow meets both while it encodes."""
    before = left_over(tmp_path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, limits[1]))
    try:
        with pytest.raises(StoreError, match="write smaller files") as caught:
            table.write({"x": np.random.default_rng(1).integers(0, 2**60, 100_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert str(tmp_path) in str(caught.value)
    assert left_over(tmp_path) == before


def test_a_log_that_cannot_be_written_is_refused_before_any_file(table, tmp_path, monkeypatch):
    before = left_over(tmp_path)
    log = str(tmp_path / "_delta_log")
    monkeypatch.setattr(os, "access", lambda path, _: str(path) != log)
    with pytest.raises(StoreAccessError, match="check the permissions") as caught:
        table.write({"x": [2]})
    assert caught.value.path == log
    assert left_over(tmp_path) == before


@pytest.mark.parametrize("code", CURES)
def test_a_commit_that_cannot_be_staged(table, tmp_path, monkeypatch, code):
    """A commit was attempted, so its data file stays."""
    failing(code, monkeypatch, "write")
    kind, cure = CURES[code]
    with pytest.raises(kind, match=cure) as caught:
        table.write({"x": [2]})
    monkeypatch.undo()
    assert str(tmp_path) in str(caught.value)
    assert caught.value.path.endswith(f"_delta_log/{1:020d}.json")
    assert not [name for name in left_over(tmp_path) if name.endswith(".tmp")]
    assert table.to_arrow()["x"].to_pylist() == [1]


def test_a_published_commit_counts_without_its_flush(table, tmp_path, monkeypatch):
    """Its name is visible, so the commit is attempted again and found to be ours."""
    real, calls = os.fsync, []

    def fsync(descriptor):
        name = Path(f"/proc/self/fd/{descriptor}").readlink().name
        if name == "_delta_log" and not calls:
            calls.append(name)
            raise OSError(errno.ENOSPC, "no space")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    assert table.write({"x": [2]}).version == 1
    assert calls
    assert sorted(table.to_arrow()["x"].to_pylist()) == [1, 2]


def test_a_name_that_is_too_long(tmp_path):
    with pytest.raises(StoreError, match="shorten the path of the table"):
        ld.write(tmp_path / ("x" * 300), {"x": [1]})


@pytest.mark.parametrize("point", ["data-file-written", "commit-prepared"])
def test_a_write_that_fails_before_a_commit_leaves_no_files(table, tmp_path, point):
    before = left_over(tmp_path)
    with arm(point, "raise"), pytest.raises(FailpointError):
        table.write({"x": [2]})
    assert left_over(tmp_path) == before


def test_rows_that_cannot_be_rewritten_leave_no_files(tmp_path, monkeypatch):
    ld.write(tmp_path, {"x": [1, 2]})
    before = left_over(tmp_path)
    table = ld.Table.open(tmp_path)
    with arm("data-file-started", "raise", hit=2), pytest.raises(FailpointError):
        table.write({"x": [1]}, "overwrite", where="x = 1")
    assert left_over(tmp_path) == before


def test_files_stay_after_a_commit_was_attempted(table, tmp_path):
    before = left_over(tmp_path)
    with arm("commit-put", "raise"), pytest.raises((FailpointError, CommitUnknownError)):
        table.write({"x": [2]})
    assert len(left_over(tmp_path)) == len(before) + 1
    assert sorted(table.to_arrow()["x"].to_pylist()) == [1, 2]


def test_a_table_that_exists_names_modes_that_the_operation_takes(table, tmp_path):
    with pytest.raises(TableExistsError) as caught:
        ld.Table.create(tmp_path, "x long")
    assert 'mode="ignore"' in str(caught.value)
    assert "append" not in str(caught.value)
    with pytest.raises(TableExistsError, match='mode="append"'):
        ld.write(tmp_path, {"x": [1]}, mode="error")


def test_a_directory_without_permissions_is_named(tmp_path, monkeypatch):
    failing(errno.EACCES, monkeypatch, "mkdir")
    with pytest.raises(StoreAccessError, match="check the permissions") as caught:
        open_store(tmp_path / "t").write("a/b", b"x", overwrite=False)
    assert caught.value.path == str(tmp_path / "t/a/b")
