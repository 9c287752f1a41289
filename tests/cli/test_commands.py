"""Each command: what it shows in a pipe and as JSON, and how it fails."""

from __future__ import annotations

import csv
import errno
import io
import json
import logging

import pytest

from lazydelta.cli import main
from tests.builders import TableBuilder, add
from tests.cli.support import build, run

FILES = {"day=2026-01-01/b", "day=2026-01-02/c", "day=2026-01-03/d", "day=2026-01-03/e", "day=2026-01-04/f"}  # fmt: skip


@pytest.fixture
def table(tmp_path):
    build(tmp_path)
    return tmp_path


def objects(result):
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def flat(result):
    return dict(line.split("\t", 1) for line in result.stdout.splitlines())


# --- files ---------------------------------------------------------------------------------------


def test_files_in_a_pipe_are_tab_separated_lines(table):
    result = run("files", table)
    rows = [line.split("\t") for line in result.stdout.splitlines()]
    assert {row[0] for row in rows} == FILES
    assert {len(row) for row in rows} == {6}
    by_path = {row[0]: row for row in rows}
    assert by_path["day=2026-01-03/e"][3] == '{"day":"2026-01-03"}'
    assert by_path["day=2026-01-03/e"][4:] == ["1", "2"]  # deleted rows, version
    assert by_path["day=2026-01-02/c"][4:] == ["", ""]  # no vector; from the checkpoint
    assert result.stderr == ""


def test_files_as_json_are_one_object_per_line(table):
    found = objects(run("files", table, "--json"))
    assert {file["path"] for file in found} == FILES
    by_path = {file["path"]: file for file in found}
    assert by_path["day=2026-01-03/e"]["deletion_vector"]["cardinality"] == 1
    assert by_path["day=2026-01-02/c"]["deletion_vector"] is None
    assert by_path["day=2026-01-04/f"]["partition_values"] == {"day": "2026-01-04"}
    assert by_path["day=2026-01-04/f"]["version"] == 3
    assert by_path["day=2026-01-04/f"]["modification_time"].endswith("Z")


def test_files_with_all_fields_have_statistics_as_json(tmp_path):
    stats = {"numRecords": 7, "minValues": {"id": 1}}
    odd = add("odd", stats="not json\n")
    TableBuilder(tmp_path).commit(add("a", stats=stats), odd, add("none"))
    by_path = {
        file["path"]: file for file in objects(run("files", tmp_path, "--json", "--all-fields"))
    }
    assert by_path["a"]["stats"] == stats
    assert by_path["a"]["num_records"] == 7
    assert by_path["odd"]["stats"] == "not json\n"
    assert by_path["none"]["stats"] is None


def test_files_as_csv_have_a_header(table):
    result = run("files", table, "--csv")
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert {row["path"] for row in rows} == FILES
    assert {json.loads(row["partition_values"])["day"] for row in rows} == {
        "2026-01-01", "2026-01-02", "2026-01-03", "2026-01-04",
    }  # fmt: skip


def test_files_of_an_empty_table_print_nothing(tmp_path):
    TableBuilder(tmp_path).commit()
    assert [run("files", tmp_path, *style).stdout for style in ((), ("--json",))] == ["", ""]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--where", "day = '2026-01-03'"], {"day=2026-01-03/d", "day=2026-01-03/e"}),
        (["--where", "day < '2026-01-02'"], {"day=2026-01-01/b"}),
        (["--version", "0"], {"day=2026-01-01/a", "day=2026-01-01/b", "day=2026-01-02/c"}),
        (["--timestamp", "2023-11-14T22:14:20+00:00"], {"day=2026-01-01/b", "day=2026-01-02/c"}),
        (["--timestamp", "2023-11-14T22:14:20"], {"day=2026-01-01/b", "day=2026-01-02/c"}),
        (["--limit", "1"], {"day=2026-01-04/f"}),
        (["--limit", "0"], set()),
        (["--strategy", "forward"], FILES),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_files_are_filtered_by(table, options, expected):
    found = [file["path"] for file in objects(run("files", table, "--json", *options))]
    assert sorted(found) == sorted(expected)


def test_a_strategy_only_changes_the_order(table):
    newest_first, checkpoint_first = (
        [file["path"] for file in objects(run("files", table, "--json", "--strategy", strategy))]
        for strategy in ("reverse", "forward")
    )
    assert newest_first[0] == "day=2026-01-04/f"
    assert checkpoint_first[0] in {"day=2026-01-01/b", "day=2026-01-02/c"}
    assert sorted(newest_first) == sorted(checkpoint_first)


@pytest.mark.parametrize("place", ["before", "after"])
def test_common_options_may_precede_or_follow_the_command(table, place):
    args = ["--json", "files", table] if place == "before" else ["files", table, "--json"]
    assert len(objects(run(*args))) == len(FILES)


# --- info, history, explain ----------------------------------------------------------------------


def test_info_describes_the_table(table):
    [about] = objects(run("info", table, "--json"))
    assert about["version"] == 3
    assert about["partition_columns"] == ["day"]
    assert about["protocol"]["min_reader_version"] == 3
    assert "deletionVectors" in about["protocol"]["active_features"]
    assert about["checkpoint"]["version"] == 1
    assert about["tail"]["commits"] == 2
    assert about["files"] == {"count": 2, "bytes": None, "version": 1, "source": "checkpoint"}
    assert [field["name"] for field in about["schema"]["fields"]] == ["id", "day"]
    assert about["properties"] == {"delta.enableDeletionVectors": "true"}


def test_info_in_a_pipe_has_the_names_of_the_json(table):
    printed = flat(run("info", table))
    assert printed["version"] == "3"
    assert printed["tail.commits"] == "2"
    assert printed["properties.delta.enableDeletionVectors"] == "true"


def test_info_takes_counts_from_a_checksum(tmp_path):
    build(tmp_path).crc()
    [about] = objects(run("info", tmp_path, "--json"))
    assert about["files"]["count"] == 5
    assert about["files"]["source"] == "checksum"


def test_info_without_recorded_file_counts(tmp_path):
    TableBuilder(tmp_path).commit("+a")
    [about] = objects(run("info", tmp_path, "--json"))
    assert about["files"] is None
    assert about["checkpoint"] is None


def test_history_is_newest_first(table):
    found = objects(run("history", table, "--json"))
    assert [commit["version"] for commit in found] == [3, 2, 1, 0]
    assert found[0]["operation"] == "WRITE"
    assert found[0]["timestamp"] == "2023-11-14T22:16:20.000+00:00"
    for commit in found:
        [about] = objects(run("info", table, "--json", "--timestamp", commit["timestamp"]))
        assert about["version"] == commit["version"]
    lines = run("history", table, "--limit", "2").stdout.splitlines()
    assert [line.split("\t")[0] for line in lines] == ["3", "2"]


def test_history_shows_malformed_commit_info(tmp_path):
    commit_info = {"inCommitTimestamp": 2**62, "operation": ["x"], "engineInfo": {"a": [1]}}
    builder = TableBuilder(tmp_path, in_commit_timestamps=True)
    builder.commit({"commitInfo": commit_info}, info=False)
    [commit] = objects(run("history", tmp_path, "--json"))
    assert commit["timestamp"] is None
    assert commit["operation"] is None
    assert commit["engine_info"] == {"a": [1]}


def test_explain_runs_the_scan(table):
    [printed] = objects(run("explain", table, "--json", "--where", "day = '2026-01-03'"))
    assert printed["files"]["emitted"] == 2
    assert printed["run"]["complete"] is True
    assert "2026-01-03" in printed["plan"]["predicate"]
    assert flat(run("explain", table, "--limit", "1"))["files.emitted"] == "1"


# --- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["files", "{empty}"], "no Delta table at"),
        (["info", "{empty}"], "Check the path"),
        (["history", "{empty}"], "no Delta table at"),
        (["explain", "{empty}"], "no Delta table at"),
        (["check", "{empty}"], "no Delta table at"),
        (["files", "{table}", "--where", "nope = 1"], "no column 'nope'"),
        (["files", "{table}", "--where", "day ="], "predicate"),
        (["files", "{table}", "--version", "99"], "Readable versions: 0 to 3"),
        (["info", "{table}", "--timestamp", "1999-01-01"], "did not exist then"),
        (["files", "nosuch://bucket/t"], "no store for nosuch"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_error_has_no_traceback_and_code_1(table, tmp_path_factory, args, words):
    places = {"table": str(table), "empty": str(tmp_path_factory.mktemp("empty"))}
    result = run(*(arg.format(**places) for arg in args))
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert "Traceback" not in result.stderr
    assert words in result.stderr


@pytest.mark.parametrize(
    "args",
    [
        ["files"],
        ["nosuch", "x"],
        ["files", "x", "--limit", "-1"],
        ["files", "x", "--strategy", "sideways"],
        ["files", "x", "--timestamp", "yesterday"],
        ["files", "x", "--version", "1", "--timestamp", "2026-01-01"],
        ["files", "x", "--csv", "--json"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_code_2(args):
    result = run(*args)
    assert result.exit_code == 2
    assert "Usage: lazydelta" in result.stderr


def test_an_unexpected_error_is_one_line_unless_verbose(table, monkeypatch):
    def explode(*_):
        raise RuntimeError("the sky?sig=secret fell")

    monkeypatch.setattr("lazydelta.cli.versions.Table.open", explode)
    quiet, verbose = run("files", table), run("files", table, "--verbose")
    assert (quiet.exit_code, verbose.exit_code) == (1, 1)
    assert quiet.stderr.splitlines()[0].startswith("error: RuntimeError: the sky")
    assert "--verbose" in quiet.stderr
    assert "Traceback" not in quiet.stderr
    assert "Traceback" in verbose.stderr
    assert "secret" not in quiet.stderr + verbose.stderr


def test_an_interrupt_is_code_130(table, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("lazydelta.cli.versions.Table.open", interrupt)
    result = run("files", table)
    assert result.exit_code == 130
    assert (result.stdout, result.stderr) == ("", "")


# --- logging and secrets -------------------------------------------------------------------------


def damaged(directory):
    table = build(directory)
    table.write("_last_checkpoint", b"{torn")
    return directory


def test_warnings_of_the_engine_are_shown_unless_quiet(tmp_path):
    damaged(tmp_path)
    loud, quiet = run("files", tmp_path), run("files", tmp_path, "--quiet")
    assert loud.stderr.startswith("warning: ignoring _delta_log/_last_checkpoint")
    assert quiet.stderr == ""
    assert loud.stdout == quiet.stdout != ""


def test_verbose_logs_and_leaves_no_handler_behind(table):
    handlers = list(logging.getLogger("lazydelta").handlers)
    result = run("files", table, "--verbose")
    assert "lazydelta.scan" in result.stderr
    assert "5 files" in result.stderr
    assert logging.getLogger("lazydelta").handlers == handlers


@pytest.mark.parametrize(
    "args",
    [
        ["files", "s3://b/t", "--storage-option", "hunter2"],
        ["files", "s3://b/t", "--storage-option", "=hunter2"],
        ["files", "s3://b/t", "--storage-option", "no_such_setting=hunter2", "--verbose"],
        ["files", "s3://b/t", "--storage-option", "timeout=hunter2"],
        ["files", "nosuch://user:hunter2@host/t", "--verbose"],
        ["info", "https://x.blob.core.windows.net/c/t?sig=hunter2", "--storage-option", "a=b"],
    ],
    ids=lambda args: " ".join(args[1:]),
)
def test_secrets_are_never_shown(args):
    result = run(*args)
    assert result.exit_code in (1, 2)
    assert result.stderr
    assert "hunter2" not in result.stdout + result.stderr


# --- help ----------------------------------------------------------------------------------------


def test_help_lists_every_command():
    result = run("--help")
    assert result.exit_code == 0
    for name in ("info", "files", "history", "explain", "check"):
        assert f"\n  {name} " in result.stdout


def every_command(group=main, *before):
    """Return the words that call each command, of groups each of theirs."""
    for name in group.list_commands(None):
        command, words = group.get_command(None, name), (*before, name)
        yield from every_command(command, *words) if hasattr(command, "list_commands") else [words]


@pytest.mark.parametrize("words", list(every_command()), ids=" ".join)
def test_every_command_has_help_and_the_common_options(words):
    result = run(*words, "--help")
    assert result.exit_code == 0
    for option in ("--storage-option", "--json", "--quiet", "--verbose"):
        assert option in result.stdout


def test_a_full_disk_is_reported(tmp_path, monkeypatch):
    TableBuilder(tmp_path, schema={"id": "long"}).commit("+a")

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("lazydelta.cli.output.Output.print", full)
    done = run("info", tmp_path)
    assert (done.exit_code, done.stderr) == (
        1,
        "error: cannot write the output: No space left on device\n",
    )
