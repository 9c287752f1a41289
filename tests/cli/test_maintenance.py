"""The maintenance commands: safe by default, confirmed, and truthful exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import lazydelta as ld
from lazydelta.cli import maintenance
from lazydelta.errors import StoreError
from lazydelta.store.local_store import LocalStore
from tests.aged_tables import backdate, files_of
from tests.cli.support import run


@pytest.fixture
def table(tmp_path):
    """A table of four versions, all older than any retention; two files are dead."""
    made = ld.Table.open(tmp_path / "t", config=ld.Config(write_checkpoints=False))
    for number in range(3):
        made.write(pa.table({"id": [number]}), mode="append" if number else "overwrite")
    made.delete("id < 2")
    made.checkpoint(2)
    backdate(made, hours=24 * 60)
    return made


def document(result):
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_vacuum_only_reports_by_default(table):
    before = files_of(table)
    report = document(run("vacuum", table.url, "--json"))
    assert (report["dry_run"], report["files_to_delete"], report["files_deleted"]) == (True, 2, 0)
    assert files_of(table) == before
    flat = dict(line.split("\t", 1) for line in run("vacuum", table.url).stdout.splitlines())
    assert flat["files_to_delete"] == "2"


@pytest.mark.parametrize("mode", ["lite", "full"])
def test_vacuum_deletes_if_it_may(table, mode):
    before = files_of(table)
    report = document(run("vacuum", table.url, "--mode", mode, "--delete", "--yes", "--json"))
    assert report["files_deleted"] == len(before - files_of(table)) == 2
    assert table.history(1)[0].operation == "VACUUM END"


def test_without_a_terminal_a_deletion_needs_yes(table):
    before = files_of(table)
    result = run("vacuum", table.url, "--delete")
    assert result.exit_code == 2
    assert "--yes" in result.stderr
    assert files_of(table) == before


@pytest.mark.parametrize(("answer", "deleted"), [(True, 2), (False, 0)])
def test_a_terminal_is_asked(table, monkeypatch, answer, deleted):
    questions = []

    def ask(question, *, yes, dry_run):
        assert not yes
        assert not dry_run
        questions.append(question)
        if not answer:
            raise maintenance.click.Abort

    monkeypatch.setattr(maintenance, "confirm", ask)
    before = files_of(table)
    result = run("vacuum", table.url, "--delete")
    assert questions[0].startswith("Delete 2 files (")
    assert len(before - files_of(table)) == deleted
    assert result.exit_code == (0 if answer else 1)


def test_nothing_to_delete_is_not_asked(table):
    run("vacuum", table.url, "--delete", "--yes")
    assert run("vacuum", table.url, "--delete").exit_code == 0


def test_vacuum_options_reach_the_engine(table):
    result = run("vacuum", table.url, "--retention", "1", "--json")
    assert result.exit_code == 1
    assert "--retention" in result.stderr
    assert "--force" in result.stderr
    report = document(run("vacuum", table.url, "--retention", "1", "--force", "--json"))
    assert report["retention_seconds"] == 3600
    report = document(run("vacuum", table.url, "--retention", "9 days", "--json"))
    assert report["retention_seconds"] == 9 * 86_400
    report = document(
        run("vacuum", table.url, "--keep-version", "0", "--keep-version", "1", "--json")
    )
    assert report["files_to_delete"] == 0
    assert "partition column" in run("vacuum", table.url, "--where", "id = 1").stderr


def test_failed_deletes_are_code_1(table, monkeypatch):
    def refuse(self, paths):
        raise StoreError(paths[0], "refused")

    monkeypatch.setattr(LocalStore, "delete", refuse)
    result = run("vacuum", table.url, "--delete", "--yes", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["files_failed"] == 2


def test_cleanup_log(table):
    report = document(run("cleanup-log", table.url, "--json"))
    assert (report["files_to_delete"], report["files_deleted"]) == (4, 0)
    assert run("cleanup-log", table.url, "--delete").exit_code == 2
    report = document(run("cleanup-log", table.url, "--delete", "--yes", "--json"))
    assert (report["files_deleted"], report["oldest_version"]) == (4, 2)
    assert document(run("cleanup-log", table.url, "--delete", "--json"))["files_deleted"] == 0


def test_restore(table):
    report = document(run("restore", table.url, "--version", "1", "--dry-run", "--json"))
    assert (report["committed"], table.version) == (False, 3)
    report = document(run("restore", table.url, "--version", "1", "--json"))
    assert (report["version"], report["restored_version"]) == (4, 1)
    assert sorted(table.to_arrow()["id"].to_pylist()) == [0, 1]
    assert run("restore", table.url).exit_code == 2
    run("vacuum", table.url, "--delete", "--yes", "--retention", "0", "--force")
    result = run("restore", table.url, "--version", "3")
    assert result.exit_code == 1
    assert "--ignore-missing-files" in result.stderr


def test_repair(table):
    missing = next(iter(table.scan().files())).path
    (Path(table.url) / missing).unlink()
    assert document(run("repair", table.url, "--json"))["paths"] == [missing]
    assert run("repair", table.url, "--commit").exit_code == 2
    assert document(run("repair", table.url, "--commit", "--yes", "--json"))["committed"]
    assert table.to_arrow().num_rows == 0


def test_health(table):
    report = document(run("health", table.url, "--json"))
    assert report["severity"] == "warning", "the dead files are larger than the live ones"
    assert run("health", table.url, "--fail-on", "warning").exit_code == 1
    assert run("health", table.url, "--fail-on", "critical").exit_code == 0
    lines = run("health", table.url).stdout.splitlines()
    assert lines[0].split("\t")[0] == "warning"
    assert len({line.split("\t")[1] for line in lines}) == 10
