"""`lazydelta maintain`: confirmed before it deletes, one line a step, and a truthful exit code."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import lazydelta as ld
from lazydelta.cli import maintain
from tests.aged_tables import backdate, files_of
from tests.cli.support import run


@pytest.fixture
def table(tmp_path):
    """A table of three versions, older than any retention, with a dead file."""
    made = ld.Table.open(tmp_path / "t", config=ld.Config(write_checkpoints=False))
    made.write(pa.table({"id": [1]}))
    made.write(pa.table({"id": [2]}))
    made.delete("id = 1")
    backdate(made, hours=24 * 60)
    return made


@pytest.fixture
def policy(table, tmp_path):
    """A function that writes a policy file for the table."""

    def write(**sections):
        path = tmp_path / "policy.json"
        path.write_text(json.dumps({"table_uri": table.url, **sections}))
        return path

    return write


DELETING = {"vacuum": {"dry_run_default": False}}


def test_a_run_prints_one_line_a_step(table, policy):
    before = files_of(table)
    result = run("maintain", policy(**DELETING, optimize={}, checkpoints={}), "--yes")
    assert result.exit_code == 0, result.stderr
    lines = [line.split("\t") for line in result.stdout.splitlines()]
    assert {line[0] for line in lines} == {table.url}
    assert [line[1:3] for line in lines] == [
        ["check", "done"],
        ["optimize", "done"],
        ["vacuum", "done"],
        ["properties", "skipped"],
        ["checkpoint", "done"],
        ["log_cleanup", "done"],
    ]
    assert lines[2][3] == "1 files deleted"
    assert len(before - files_of(table)) == 1


def test_the_report_is_a_json_document(table, policy):
    result = run("maintain", policy(**DELETING), "--yes", "--json")
    report = json.loads(result.stdout)
    assert (report["ok"], report["dry_run"]) == (True, False)
    steps = {step["step"]: step for step in report["tables"][0]["steps"]}
    assert steps["vacuum"]["result"]["files_deleted"] == 1
    assert steps["optimize"]["status"] == "skipped"


def test_a_dry_run_asks_nothing_and_deletes_nothing(table, policy):
    before = files_of(table)
    result = run("maintain", policy(**DELETING, checkpoints={}), "--dry-run")
    assert result.exit_code == 0, result.stderr
    assert "\tvacuum\tdry_run\t1 files to delete" in result.stdout
    assert files_of(table) == before


def test_without_a_terminal_a_deleting_policy_needs_yes(table, policy):
    before = files_of(table)
    result = run("maintain", policy(**DELETING))
    assert result.exit_code == 2
    assert "--yes" in result.stderr
    assert files_of(table) == before
    assert run("maintain", policy(vacuum={}, optimize={})).exit_code == 0


def test_a_failed_step_is_the_exit_code(policy):
    result = run("maintain", policy(optimize={"type": "zorder", "zorder_cols": ["nope"]}))
    assert result.exit_code == 1
    assert "\toptimize\tfailed\t" in result.stdout
    assert "nope" in result.stdout


def test_an_invalid_policy_is_one_line(policy, tmp_path):
    result = run("maintain", policy(vacuums={}))
    assert result.exit_code == 1
    assert result.stderr == "error: vacuums: is unknown; did you mean vacuum?\n"
    assert run("maintain", tmp_path / "none.json").exit_code == 2


def test_a_terminal_gets_aligned_lines_under_each_table(table, policy, monkeypatch):
    monkeypatch.setattr(maintain.Output, "is_terminal", True, raising=False)
    monkeypatch.setattr(maintain.Output, "__init__", lambda self, **_: setattr(self, "json", False))
    result = run("maintain", policy(vacuum={}))
    lines = result.stdout.splitlines()
    assert lines[1] == table.url
    assert lines[2] == "  check        done     version 2"
    assert lines[4] == "  vacuum       dry_run  1 files to delete; vacuum.dry_run_default is true"
