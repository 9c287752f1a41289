"""`delete`, `update`, `merge` and statements of `sql`: results, confirmation, refusals."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

import lazydelta as ld
from lazydelta.cli.change_options import FileProgress
from lazydelta.cli.change_output import show_change
from lazydelta.cli.common_options import State
from lazydelta.cli.output import Output
from lazydelta.operations.dml import DmlResult
from tests.cli.support import command, environment, run


@pytest.fixture
def table(tmp_path):
    url = tmp_path / "t"
    ld.write(url, {"id": [1, 2, 3], "name": ["a", "b", "c"]})
    return ld.Table.open(url)


def rows(table):
    found = table.to_arrow().select(["id", "name"]).to_pylist()
    return sorted((row["id"], row["name"]) for row in found)


def document(result):
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


# --- delete and update ------------------------------------------------------------------------


def test_delete(table):
    found = document(run("delete", table.url, "--where", "id > 1", "--yes", "--json"))
    assert found["version"] == 1
    assert found["metrics"]["numDeletedRows"] == 2
    assert rows(table) == [(1, "a")]


def test_delete_without_a_condition_deletes_all_rows(table):
    result = run("delete", table.url, "--yes")
    assert result.exit_code == 0
    assert "metrics.numDeletedRows\t3" in result.stdout.splitlines()
    assert table.count() == 0


def test_update(table):
    arguments = ("--set", "name=concat(name, '=')", "--set", "id = id * 10", "--where", "id = 2")
    found = document(run("update", table.url, *arguments, "-y", "--json"))
    assert found["metrics"]["numUpdatedRows"] == 1
    assert rows(table) == [(1, "a"), (3, "c"), (20, "b=")]


@pytest.mark.parametrize(
    "arguments",
    [
        ("delete", "--where", "id = 1"),
        ("update", "--set", "id=0", "--where", "id = 1"),
    ],
)
def test_a_dry_run_needs_no_confirmation_and_writes_nothing(table, arguments):
    name, *options = arguments
    found = document(run(name, table.url, *options, "--dry-run", "--json"))
    assert found["dry_run"]
    assert found["metrics"]["numRemovedFiles"] == 1
    assert table.version == 0


def test_an_application_version_applies_once(table):
    arguments = ("--set", "id=id + 1", "--app-id", "a", "--app-version", 1, "--yes", "--json")
    assert not document(run("update", table.url, *arguments))["already_applied"]
    assert document(run("update", table.url, *arguments))["already_applied"]
    assert rows(table) == [(2, "a"), (3, "b"), (4, "c")]


def test_errors_are_one_line(table, tmp_path):
    for arguments, code, reason in [
        (("delete", table.url, "--where", "nope = 1", "-y"), 1, "nope"),
        (("delete", tmp_path / "nowhere", "-y"), 1, "nowhere"),
        (("update", table.url, "-y"), 2, "--set"),
        (("update", table.url, "--set", "id", "-y"), 2, "COLUMN=EXPRESSION"),
        (("update", table.url, "--set", "id=1", "--set", "id=2", "-y"), 2, "twice"),
        (("update", table.url, "--set", "id='x'", "-y"), 1, "string, not long"),
    ]:
        result = run(*arguments)
        assert result.exit_code == code
        assert reason in result.stderr
    assert table.version == 0


# --- confirmation -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ("delete", "URL"),
        ("update", "URL", "--set", "id=1"),
        ("merge", "URL", "--source", "URL", "--on", "id", "--upsert"),
        ("sql", "DELETE FROM `URL`"),
        ("sql", "INSERT OVERWRITE `URL` VALUES (1, 'x')"),
    ],
)
def test_without_a_terminal_a_change_needs_yes(table, arguments):
    result = run(*(argument.replace("URL", table.url) for argument in arguments))
    assert result.exit_code == 2
    assert "confirm with --yes, or use --dry-run" in result.stderr
    assert table.version == 0


def answered(answer, *arguments):
    """Run the command on a terminal, with an answer to its question."""
    pty = pytest.importorskip("pty", reason="terminals are a thing of Unix")
    ours, theirs = pty.openpty()
    done = subprocess.Popen(
        command(*arguments),
        env=environment(),
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    os.write(ours, answer.encode() + b"\n")
    out, err = done.communicate(timeout=60)
    os.close(theirs)
    os.close(ours)
    return done.returncode, out.decode(), err.decode()


def test_a_terminal_asks(table):
    code, out, err = answered("n", "delete", table.url)
    assert (code, out) == (1, "")
    assert f"Delete ALL rows of {table.url}? [y/N]" in err
    assert table.version == 0
    code, out, err = answered("y", "delete", table.url, "--where", "id = 1", "--json")
    assert code == 0, err
    assert "Delete the rows where id = 1 of" in err
    assert json.loads(out)["version"] == 1


# --- sql --------------------------------------------------------------------------------------


def test_statements_by_path_and_by_name(table):
    done = document(run("sql", f"DELETE FROM `{table.url}` WHERE id = 1", "--yes", "--json"))
    assert done["metrics"]["numDeletedRows"] == 1
    named = ("--table", f"t={table.url}", "--yes", "--json")
    document(run("sql", "UPDATE t SET name = 'x' WHERE t.id = 2", *named))
    document(run("sql", "INSERT INTO t VALUES (4, 'd')", "--table", f"t={table.url}", "--json"))
    assert rows(table) == [(2, "x"), (3, "c"), (4, "d")]
    dry = document(run("sql", "DELETE FROM t", "--table", f"t={table.url}", "--dry-run", "--json"))
    assert dry["dry_run"]
    assert table.count() == 3


def test_a_query_by_path(table):
    pytest.importorskip("duckdb", reason="pip install 'lazydelta[duckdb]' runs this")
    result = run("sql", f"select max(id) as m from `{table.url}`", "--json")
    assert document(result) == {"m": 3}


def test_bad_statements(table):
    for arguments, code, reason in [
        (("DELETE FROM t", "-y"), 1, "error: --table: no table is named 't'"),
        (("DELETE FRM t", "-y"), 1, "expected FROM, but found 'FRM'"),
        ((f"DELETE FROM `{table.url}`", "-y", "--csv"), 2, "are for queries"),
        ((f"INSERT INTO `{table.url}` VALUES (1, '')", "--dry-run"), 1, "--dry-run: INSERT has"),
        (("DELETE FROM t", "-y", "--table", f"t@0={table.url}"), 1, "only a Table can be changed"),
    ]:
        result = run("sql", *arguments)
        assert result.exit_code == code, result.stderr
        assert reason in result.stderr
    assert table.version == 0


# --- sentences --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("result", "sentence"),
    [
        (
            {"metrics": {"numDeletedRows": 1200, "numRemovedFiles": 2}},
            "Version 7: 1,200 rows deleted, 2 files removed.",
        ),
        (
            {
                "metrics": {
                    "numTargetRowsInserted": 1,
                    "numTargetRowsUpdated": 2,
                    "numTargetRowsDeleted": 0,
                    "numTargetDeletionVectorsAdded": 1,
                },
                "bytes": 2048,
            },
            "Version 7: 1 rows inserted, 2 rows updated, 1 deletion vectors added (2.0 KiB written).",
        ),
        (
            {"metrics": {"numUpdatedRows": 3, "numRemovedFiles": 1}, "dry_run": True},
            "Dry run on version 7: 3 rows updated, 1 files removed.",
        ),
        ({"metrics": {"numDeletedRows": 0}}, "No row to change; the table stays at version 7."),
        (
            {"already_applied": True},
            "Version 7 already has this app version; nothing was written.",
        ),
    ],
)
def test_a_terminal_shows_a_sentence(result, sentence, monkeypatch, capsys):
    monkeypatch.setattr(Output, "__init__", lambda self, *, json: None)
    monkeypatch.setattr(Output, "json", False, raising=False)
    monkeypatch.setattr(Output, "is_terminal", True, raising=False)
    show_change(State(), DmlResult(table="t", version=7, **result))
    assert capsys.readouterr().out == sentence + "\n"


# --- progress ---------------------------------------------------------------------------------


class Terminal:
    def isatty(self):
        return True


def test_progress_counts_data_files(table, monkeypatch):
    monkeypatch.setattr("lazydelta.cli.change_options.sys.stderr", Terminal())
    progress = FileProgress(State())
    table.write({"id": [9], "name": ["z"]})
    watched = ld.Table.open(table.url, config=progress.config)
    watched.delete("id < 3 or id > 7")
    assert progress._describe() == (1, "1 files read, writing")


def test_progress_is_not_measured_when_it_is_not_shown():
    assert FileProgress(State(quiet=True)).config is None
    assert FileProgress(State()).config is None  # standard error is not a terminal here


# --- merge ------------------------------------------------------------------------------------


@pytest.fixture
def updates(tmp_path):
    path = tmp_path / "new.csv"
    path.write_text("id,name\n2,B\n4,D\n")
    return path


def test_an_upsert_of_a_file(table, updates):
    arguments = ("--source", updates, "--on", "id", "--upsert", "--yes", "--json")
    found = document(run("merge", table.url, *arguments))
    assert found["metrics"]["numTargetRowsUpdated"] == 1
    assert found["metrics"]["numTargetRowsInserted"] == 1
    assert rows(table) == [(1, "a"), (2, "B"), (3, "c"), (4, "D")]


def test_a_merge_of_several_files_and_of_a_table(table, updates, tmp_path):
    (tmp_path / "more.json").write_text('{"id": 5, "name": "E"}\n')
    sources = ("--source", updates, "--source", tmp_path / "more.json")
    document(run("merge", table.url, *sources, "--on", "id,id", "--insert-new", "-y", "--json"))
    assert rows(table) == [(1, "a"), (2, "b"), (3, "c"), (4, "D"), (5, "E")]
    ld.write(tmp_path / "gone", {"id": [1, 3]})
    arguments = ("--source", tmp_path / "gone", "--on", "t.id = s.id", "--delete-matched")
    document(run("merge", table.url, *arguments, "-y", "--json"))
    assert rows(table) == [(2, "b"), (4, "D"), (5, "E")]


def test_a_merge_with_clauses_and_aliases(table, updates):
    clauses = [
        "WHEN MATCHED THEN UPDATE SET old.name = concat(new.name, old.name)",
        "not matched by source and old.id = 1 then delete",
    ]
    arguments = ["--source", updates, "--on", "old.id = new.id", "--insert-new", "-y", "--json"]
    arguments += ["--target-alias", "old", "--source-alias", "new"]
    arguments += [part for clause in clauses for part in ("--when", clause)]
    document(run("merge", table.url, *arguments))
    assert rows(table) == [(2, "Bb"), (3, "c"), (4, "D")]


def test_a_merge_that_adds_columns(table, tmp_path):
    source = tmp_path / "new.json"
    source.write_text('{"id": 1, "name": "A", "more": 1.5}\n')
    arguments = ("--source", source, "--on", "id", "--upsert", "--merge-schema", "-y", "--json")
    document(run("merge", table.url, *arguments))
    assert table.columns == ("id", "name", "more")


def test_a_dry_run_of_merge(table, updates):
    arguments = ("--source", updates, "--on", "id", "--upsert", "--dry-run", "--json")
    assert document(run("merge", table.url, *arguments))["dry_run"]
    assert table.version == 0


def test_bad_merges(table, updates, tmp_path):
    good = ("--source", updates, "--on", "id", "-y")
    for arguments, code, reason in [
        (good, 2, "give --upsert, --insert-new, --delete-matched or --when"),
        ((*good, "--upsert", "--insert-new"), 2, "--upsert excludes"),
        ((*good, "--when", "MATCHED DELETE"), 1, "expected THEN"),
        (("--source", tmp_path / "no.csv", "--on", "id", "--upsert", "-y"), 1, "no.csv"),
        ((*good, "--source", tmp_path / "no.csv", "--upsert"), 2, "no file"),
        ((*good, "--upsert", "--source-alias", "t"), 1, "alias"),
    ]:
        result = run("merge", table.url, *arguments)
        assert result.exit_code == code, result.stderr
        assert reason in result.stderr
    assert table.version == 0
