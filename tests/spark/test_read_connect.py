"""Tables read through Spark Connect; a process has one kind of session, so this is one of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rows.tables import Rows, inline
from tests.spark.test_read import FIELDS, numbers

pytest.importorskip("grpc", reason="Spark Connect needs `pip install 'lazydelta[spark]'`")

_CLIENT = """
import json, sys
from lazydelta.spark import explain_read, local_session
from tests.spark.read_cases import assert_same_rows

spark = local_session(cores=2, connect=True)
assert "connect" in type(spark).__module__, type(spark)
few, many = sys.argv[1:]
told = {}
for path in (few, many):
    told[path] = explain_read(spark, path)["rows"]["path"]
    assert_same_rows(spark, path)
assert_same_rows(spark, few, where="id > 10 and name = 'n3'", columns=["id"])
spark.conf.set("spark.lazydelta.distributedLogReplay.fileThreshold", "0")
assert_same_rows(spark, many)
sys.stdout.write("FOUND " + json.dumps(told) + "\\n")
spark.stop()
"""


def test_rows_through_connect(spark, tmp_path):
    few = Rows(tmp_path / "few", FIELDS, features=("deletionVectors",))
    few.file("a b.parquet", numbers(0, 50)).file("b.parquet", numbers(50, 90), vector=inline([1]))
    few.open()
    many = Rows(tmp_path / "many", FIELDS)
    for at in range(33):
        many.file(f"{at}.parquet", numbers(at, at + 1))
    many.open()
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _CLIENT, str(few.path), str(many.path)],
        capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    told = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    assert told, done.stdout + done.stderr[-5000:]
    found = json.loads(told[0].removeprefix("FOUND "))
    assert found[str(few.path)] == "native and arrow"
    assert found[str(many.path)] == "arrow"
