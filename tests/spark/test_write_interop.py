"""The reference implementation reads, appends to and deletes from what we write on Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.jars import JarsMissingError, delta_jars


@pytest.mark.long  # a session with the reference connector takes a minute and a half
@pytest.mark.timeout(900)
def test_tables_written_in_turns(spark, tmp_path):
    try:
        jars = delta_jars()
    except JarsMissingError as error:
        pytest.skip(str(error))
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.write_interop", str(tmp_path), *map(str, jars)],
        capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    told = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    assert told, done.stdout + done.stderr[-5000:]
    for found in json.loads(told[0].removeprefix("FOUND ")).values():
        assert found["checkpoint"] == [4, True, True]
        assert found["first"] == 300
        # 18 rows were deleted; the third that is replaced had 300, less 6 of those
        assert found["before_append"] == 900 - 18 - (300 - 6) + 100
        assert found["rows"] == [found["before_append"] + 5] * 2
        assert found["equal"]
        assert found["skipped"] == 3  # of 0 to 4: 0 was deleted, and 3 replaced
        assert found["operations"] == ["WRITE", "WRITE", "WRITE", "DELETE", "WRITE", "WRITE"]
