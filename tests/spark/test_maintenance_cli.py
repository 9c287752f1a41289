"""`lazydelta spark optimize`, `purge`, `vacuum` and `restore`, in the session of these tests."""

from __future__ import annotations

import json

import pytest

import lazydelta as ld
from tests.cli.support import run
from tests.spark.maintained_tables import create, rows_of
from tests.spark.test_write_cli import Kept


@pytest.fixture
def session(spark, monkeypatch):
    monkeypatch.setattr("lazydelta.spark.local_session", lambda **_: Kept(spark))


def report(*arguments):
    result = run("spark", *arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_a_table_is_maintained(session, tmp_path):
    url = tmp_path / "t"
    table = create(url)
    rows = rows_of(url)
    version = table.version
    purged = report("purge", url, "--dry-run")["result"]
    assert purged["dry_run"]
    assert purged["metrics"]["numRemovedFiles"] == 6
    done = report("optimize", url, "--target-size", "1MB", "--z-order", "x,id")
    assert done["result"]["version"] == version + 1
    assert set(done["result"]["quality"]["after"]) == {"x", "id"}
    assert list(done["seconds"]) == ["start_spark", "optimize"]
    options = ("vacuum", url, "--retention", "0", "--force", "--mode", "full")
    assert report(*options)["result"]["files_to_delete"] == 7
    refused = run("spark", *options, "--delete")
    assert refused.exit_code != 0
    assert "--yes" in refused.stderr
    restored = report("restore", url, "--version", version)["result"]
    assert restored["restored_version"] == version
    kept = report(*options, "--keep-version", version + 1, "--delete", "--yes")["result"]
    assert (kept["files_to_delete"], kept["files_deleted"]) == (0, 0)
    assert rows_of(url) == rows
    assert ld.Table.open(url).history(1)[0].operation == "RESTORE"


def test_contradicting_arguments_are_refused(session, tmp_path):
    result = run("spark", "restore", tmp_path)
    assert result.exit_code == 2
    assert "either --version or --timestamp" in result.stderr
