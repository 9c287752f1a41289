"""Tasks and executors that are lost during maintenance: no row changes, and counts are exact."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import lazydelta as ld
from tests.spark.maintained_tables import create, rows_of

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]  # it starts a session


def maintained(tmp_path, *how):
    """Return the report of the program, the rows before it, and the table."""
    home, url = tmp_path / "spark", tmp_path / "table"
    home.mkdir()  # a cluster writes its logs there
    for name in ("bin", "jars"):
        (home / name).symlink_to(Path(find_spec("pyspark").origin).parent / name)
    create(url)
    before = rows_of(url)
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.maintenance_losses", str(url), *how],
        capture_output=True, text=True, check=False,
        cwd=Path(__file__).parents[2], env=os.environ | {"SPARK_HOME": str(home)},
    )  # fmt: skip
    reports = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    assert reports, done.stdout + done.stderr[-5000:]
    return json.loads(reports[0].removeprefix("FOUND ")), before, ld.Table.open(url)


def check(report, before, table):
    assert rows_of(str(table.url)) == before
    assert report["compacted"]["metrics"]["numRemovedFiles"] == 6
    assert report["clustered"]["metrics"]["numAddedFiles"] > 2
    live = {file.path for file in table.scan().files()}
    place = Path(str(table.url))
    assert {str(path.relative_to(place)) for path in place.rglob("*.parquet")
        if "_delta_log" not in path.parts} == live  # fmt: skip
    vacuumed = report["vacuumed"]
    assert vacuumed["files_deleted"] == vacuumed["files_to_delete"]
    assert not vacuumed["files_failed"]
    assert table.check().checksum.status == "matches"


def test_lost_tasks(spark, tmp_path):
    report, before, table = maintained(tmp_path)
    check(report, before, table)
    replaced = sum(
        report[name]["metrics"]["numRemovedFiles"] for name in ("compacted", "clustered")
    )
    assert report["vacuumed"]["files_deleted"] > replaced + 1, "no attempt left a file"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_a_lost_executor(spark, tmp_path):
    flag = tmp_path / "lost"
    report, before, table = maintained(tmp_path, "local-cluster[2,1,768]", str(flag))
    assert flag.exists(), "no executor was lost"
    check(report, before, table)
