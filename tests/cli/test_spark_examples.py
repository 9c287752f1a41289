"""The examples that start Spark run as they are printed, and clean up after themselves."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.cli.support import ROOT, environment

pytestmark = pytest.mark.spark
EXAMPLES = ROOT / "examples"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("spark_plan.py", ["30,000 files", "120 files", "replayed by executors", "as in this"]),
        pytest.param(
            "spark_tables.py",
            [
                "read: [(2, 20.0), (3, 30.0)]",
                "changes: version 1: insert of 3",
                "2 rows at version 0",
                "the stream brought 3 rows\nthe stream brought 3 rows",
            ],
            marks=pytest.mark.long,
        ),
    ],
)
def test_an_example_runs(tmp_path, name, words):
    pytest.importorskip("pyspark", reason="pip install 'lazydelta[spark]'")
    done = subprocess.run(
        [sys.executable, EXAMPLES / name],
        env=environment(TMPDIR=str(tmp_path)),
        capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    if "Skipped" in done.stdout:
        assert "Java" in done.stdout
        pytest.skip(done.stdout)
    for word in words:
        assert word in done.stdout
    assert "DIFFERENT" not in done.stdout
    assert list(tmp_path.iterdir()) == [], "it left something behind"
