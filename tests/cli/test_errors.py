"""Errors of the command line: flags instead of Python arguments, a reason for each wrong path."""

from __future__ import annotations

import re

import pytest

import lazydelta as ld
from lazydelta.cli.flags import format_error
from lazydelta.errors import (
    ColumnNotFoundError,
    CommitAttemptsError,
    ConfigError,
    PathNotAllowedError,
    TableNotFoundError,
    UnsupportedActionError,
)
from tests.cli.support import run


@pytest.fixture
def table(tmp_path):
    for number in range(2):
        ld.write(tmp_path / "t", {"id": [number]})
    (tmp_path / "rows.csv").write_text("id\n2\n")
    (tmp_path / "other.csv").write_text("other\n2\n")
    return tmp_path


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["write", "t", "rows.csv", "--mode", "error"], "--mode append"),
        (["create", "t", "--schema", "id bigint"], "--if-not-exists"),
        (["write", "t", "rows.csv", "--where", "id = 1"], "--where: .* --mode overwrite"),
        (["write", "t", "rows.csv", "--overwrite-schema"], "--overwrite-schema: .* --mode overwr"),
        (["write", "t", "rows.csv", "--app-id", "x"], "--app-id: .* --app-id and --app-version"),
        (["write", "t", "other.csv"], "--merge-schema adds new columns"),
        (["changes", "t", "--starting-version", "1", "--ending-version", "0"], "--starting-v"),
        (["files", "s3://b/t", "--storage-option", "bad=1"], "--storage-option bad: "),
    ],
)
def test_an_error_names_the_flag(table, monkeypatch, args, expected):
    monkeypatch.chdir(table)
    done = run(*args)
    assert done.exit_code == 1
    lines = " ".join(done.stderr.splitlines())
    assert re.search(f"error: .*{expected}", lines), lines
    for word in ('mode="', "schema_mode", "app_id", "storage_options", "starting_version"):
        assert word not in lines


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (PathNotAllowedError("t", "p", "it is outside"), "LAZYDELTA_ALLOWED_ROOTS"),
        (
            CommitAttemptsError("t", 3, 1.0, 7),
            "LAZYDELTA_COMMIT_ATTEMPTS, LAZYDELTA_COMMIT_SECONDS",
        ),
        (UnsupportedActionError("t", 1, "x"), "LAZYDELTA_ENABLE_FALLBACK=true"),
    ],
)
def test_engine_settings_are_named_as_variables(error, expected):
    assert expected in format_error(error, {})
    assert "Config(" not in format_error(error, {})


def test_user_strings_are_not_replaced_by_flags():
    error = ColumnNotFoundError("", "t", "app_id", ("limit", "where", "mode"))
    assert format_error(error, {"limit": "--limit", "where": "--where"}) == str(error)
    assert format_error(ConfigError("limit", "where"), {"limit": "--limit"}) == "--limit: where"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("missing", "the path does not exist"),
        ("rows.csv", "it is a file"),
        ("a.parquet", "it is a Parquet file"),
        ("empty", "the directory has no _delta_log"),
        ("no-commits", "its _delta_log has no commit and no checkpoint"),
        ("t/_delta_log", "it is the log of a table. Give the table: .*/t"),
    ],
)
@pytest.mark.parametrize("ask", ["count", "history", "changes", "check"])
def test_each_kind_of_wrong_path_has_its_own_reason(table, path, reason, ask):
    (table / "a.parquet").write_bytes(b"PAR1")
    (table / "empty").mkdir()
    (table / "no-commits" / "_delta_log").mkdir(parents=True)
    done = run(ask, table / path)
    assert done.exit_code == 1
    assert "credentials" not in done.stderr
    with pytest.raises(TableNotFoundError, match=reason) as raised:
        ld.Table.open(table / path).snapshot()
    assert done.stderr == f"error: {raised.value}\n"
