"""Tasks that are lost after they wrote files: every row changes once, and each only once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import lazydelta as ld

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]  # it starts a session
PROPERTIES = {
    "vectors": {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"},
    "rewritten": {},
}


@pytest.mark.parametrize("kind", PROPERTIES)
def test_lost_tasks_of_a_merge_and_a_delete(spark, tmp_path, kind):
    for start in (0, 50):
        ids = [*range(start, start + 50)]
        ld.write(tmp_path, {"id": ids, "v": ids}, properties={} if start else PROPERTIES[kind])
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.dml_losses", str(tmp_path)],
        capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    reports = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    assert reports, done.stdout + done.stderr[-5000:]
    report = json.loads(reports[0].removeprefix("FOUND "))
    assert report["merged"]["metrics"]["numTargetRowsUpdated"] == 50
    assert report["merged"]["metrics"]["numTargetRowsInserted"] == 50
    assert report["deleted"]["metrics"]["numDeletedRows"] == 15
    expected = {n: n if n < 50 else -n for n in range(150) if n % 10}
    table = ld.Table.open(tmp_path)
    found = table.scan().to_arrow().to_pylist()
    assert {row["id"]: row["v"] for row in found} == expected
    assert len(found) == len(expected)
    live = {file.path for file in table.scan().files()}
    assert len(list(tmp_path.glob("*.parquet"))) > len(live) + 2, "no attempt left a file"
