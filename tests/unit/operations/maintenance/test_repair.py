"""Repair: files that are gone leave the log, and nothing else does."""

from __future__ import annotations

from pathlib import Path

import pytest

import lazydelta as ld
from lazydelta.errors import AppendOnlyError, CommitConflictError, DataFileNotFoundError
from lazydelta.operations.maintenance import repair as repair_module
from lazydelta.operations.maintenance import tuning
from tests.maintained_tables import VECTORS, make, rows


@pytest.fixture
def lists(request, monkeypatch):
    """Whether a listing is used for small tables too."""
    monkeypatch.setattr(tuning, "LISTED_FILES", 0 if getattr(request, "param", False) else 10**9)


@pytest.mark.parametrize("lists", [False, True], indirect=True)
@pytest.mark.usefixtures("lists")
def test_missing_files_leave_the_log_in_one_commit(tmp_path):
    table = make(tmp_path / "t", partition_by=["p"])
    table.write(rows(0, 12))
    files = [file.path for file in table.scan().files()]
    gone = [path for path in files if "%" in path]
    kept_rows = sum(f.num_records for f in table.scan().files() if f.path not in gone)
    for path in gone:
        (Path(table.url) / path).unlink()
    with pytest.raises(DataFileNotFoundError):
        table.to_arrow()
    report = table.repair()
    assert (report.dry_run, report.committed, report.files_missing) == (True, False, len(gone))
    assert report.files_checked == len(files)
    assert table.version == 1
    result = table.repair(dry_run=False, commit_metadata={"ticket": 7})
    assert (result.version, result.committed, result.files_missing) == (2, True, len(gone))
    assert table.to_arrow().num_rows == kept_rows
    entry = table.history(1)[0]
    assert (entry.operation, entry.raw["ticket"]) == ("FSCK", 7)
    assert entry.raw["operationMetrics"]["numRemovedFiles"] == str(len(gone))
    again = table.repair(dry_run=False)
    assert (again.version, again.committed, again.files_missing) == (2, False, 0)


@pytest.mark.parametrize("lists", [False, True], indirect=True)
@pytest.mark.usefixtures("lists")
def test_a_file_whose_vector_is_missing_is_removed(tmp_path):
    table = make(tmp_path / "t", VECTORS)
    table.write(rows(10, 10))
    table.delete("id = 10")
    (vector,) = Path(table.url).glob("*.bin")
    vector.unlink()
    assert "deletion vector" in table.repair().paths[0]
    table.repair(dry_run=False)
    assert table.to_arrow().num_rows == 4


def test_damaged_files_are_found_if_files_are_opened(tmp_path):
    table = make(tmp_path / "t")
    table.write(rows(10))
    damaged = Path(table.url) / next(iter(table.scan().files())).path
    damaged.write_bytes(b"PAR1" + b"\0" * 100 + b"PAR1")
    assert table.repair().files_missing == 0
    report = table.repair(open_files=True)
    assert report.files_missing == 1
    assert damaged.name in report.paths[0]
    table.repair(open_files=True, dry_run=False)
    assert table.to_arrow().num_rows == 4


def test_files_of_a_clone_are_checked_where_they_are(tmp_path, monkeypatch):
    monkeypatch.setattr(tuning, "LISTED_FILES", 0)
    source = make(tmp_path / "source")
    (file,) = source.scan().files()
    from lazydelta.testing import TableBuilder
    from lazydelta.testing.log_actions import add

    clone = TableBuilder(tmp_path / "clone", schema={"id": "long", "p": "string"})
    clone.commit(add(f"{source.url}/{file.path}"), add(f"{source.url}/gone"))
    config = ld.Config(allowed_roots=[source.url])
    report = ld.Table.open(tmp_path / "clone", config=config).repair()
    assert report.paths == (f"{source.url}/gone",)


def test_an_append_only_table_is_refused(tmp_path):
    table = make(tmp_path / "t", {"delta.appendOnly": "true"})
    (Path(table.url) / next(iter(table.scan().files())).path).unlink()
    with pytest.raises(AppendOnlyError):
        table.repair(dry_run=False)


def test_a_concurrent_delete_of_the_file_is_a_conflict(tmp_path, monkeypatch):
    table = make(tmp_path / "t")
    (Path(table.url) / next(iter(table.scan().files())).path).unlink()
    original = repair_module.removes_of

    def meanwhile(*arguments):
        ld.Table.open(table.url).delete()
        return original(*arguments)

    monkeypatch.setattr(repair_module, "removes_of", meanwhile)
    with pytest.raises(CommitConflictError):
        table.repair(dry_run=False)
