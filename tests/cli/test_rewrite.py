"""`lazydelta optimize`, `purge`, `convert` and `clone`."""

from __future__ import annotations

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lazydelta as ld
from tests.cli.support import run


@pytest.fixture
def table(tmp_path):
    url = tmp_path / "table"
    for start in range(0, 40, 10):
        rows = pa.table({"id": list(range(start, start + 10)), "p": ["a", "b"] * 5})
        properties = {"delta.enableDeletionVectors": "true"}
        ld.write(url, rows, partition_by="p", **({} if start else {"properties": properties}))
    return ld.Table.open(url)


def json_of(result):
    assert result.exit_code == 0, result.stderr
    return orjson.loads(result.stdout)


def test_optimize_shows_what_it_did(table):
    preview = json_of(run("optimize", table.url, "--dry-run", "--json"))
    assert preview["dry_run"]
    assert preview["metrics"]["numRemovedFiles"] == 8
    assert table.version == 3
    done = json_of(run("optimize", table.url, "--where", "p = 'a'", "--json"))
    assert done["versions"] == [4]
    assert run("optimize", table.url, "--max-bytes", "1kb").exit_code == 0
    assert "numAddedFiles" in run("optimize", table.url).stdout
    assert table.count() == 40


def test_optimize_clusters(table):
    done = json_of(run("optimize", table.url, "--z-order", "id", "--target-size", "1MB", "--json"))
    assert done["quality"]["after"] == {"id": 1.0}
    result = run("optimize", table.url, "--cluster")
    assert result.exit_code == 1
    assert "no clustering columns" in result.stderr


def test_sizes_that_are_none_are_refused(table):
    result = run("optimize", table.url, "--target-size", "many")
    assert result.exit_code == 2
    assert "'many' is not a size" in result.stderr


def test_purge_rewrites_files_with_deleted_rows(table):
    table.delete("id = 3")
    done = json_of(run("purge", table.url, "--json"))
    assert done["metrics"]["numDeletionVectorsRemoved"] == 1
    assert (
        json_of(run("purge", table.url, "--dry-run", "--json"))["metrics"]["numRemovedFiles"] == 0
    )


def test_convert_makes_a_table(tmp_path):
    (tmp_path / "day=2026-01-01").mkdir()
    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "day=2026-01-01" / "a.parquet")
    columns = ("--partition-by", "day date")
    assert json_of(run("convert", tmp_path, *columns, "--dry-run", "--json"))["rows"] == 2
    assert json_of(run("convert", tmp_path, *columns, "--json"))["version"] == 0
    assert ld.Table.open(tmp_path).count("day = '2026-01-01'") == 2
    assert run("convert", tmp_path, *columns).exit_code == 1


def test_clone_creates_a_table(table, tmp_path):
    assert json_of(run("clone", table.url, tmp_path / "a", "--json"))["files_copied"] == 0
    deep = json_of(run("clone", table.url, tmp_path / "b", "--deep", "--version", 1, "--json"))
    assert (deep["files_copied"], deep["source_version"]) == (4, 1)
    assert ld.Table.open(tmp_path / "b").count() == 20
