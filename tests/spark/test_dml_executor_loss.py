"""An executor is killed while a MERGE writes: its rows change once, or nothing is committed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import lazydelta as ld

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(600),  # it starts a cluster
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc"),
]


def merge_with_a_loss(tmp_path, *checkpoints):
    """Return the report of the program, and the table."""
    home, url, flag = (tmp_path / name for name in ("spark", "table", "lost"))
    home.mkdir()  # a cluster writes its logs there
    for name in ("bin", "jars"):
        (home / name).symlink_to(Path(find_spec("pyspark").origin).parent / name)
    for start in (0, 50):
        ids = [*range(start, start + 50)]
        ld.write(url, {"id": ids, "v": ids})
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.dml_executor_losses", url, flag, *checkpoints],
        capture_output=True, text=True, check=False,
        cwd=Path(__file__).parents[2], env=os.environ | {"SPARK_HOME": str(home)},
    )  # fmt: skip
    reports = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    assert reports, done.stdout + done.stderr[-5000:]
    assert flag.exists(), "no executor was lost"
    return json.loads(reports[0].removeprefix("FOUND ")), ld.Table.open(url)


def test_with_a_checkpoint_directory_every_row_changes_once(spark, tmp_path):
    report, table = merge_with_a_loss(tmp_path, str(tmp_path / "checkpoints"))
    assert "metrics" in report, report["error"]
    assert report["metrics"]["numTargetRowsUpdated"] == 50
    assert report["metrics"]["numTargetRowsInserted"] == 50
    found = sorted((row["id"], row["v"]) for row in table.scan().to_arrow().to_pylist())
    assert found == [(n, n if n < 50 else -n) for n in range(150)]


def test_without_one_nothing_is_committed(spark, tmp_path):
    report, table = merge_with_a_loss(tmp_path)
    assert "Checkpoint block" in report["error"]
    assert table.version == 1
