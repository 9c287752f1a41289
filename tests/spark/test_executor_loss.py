"""Executors and their Python workers are killed during a read: the result is the same.

No row is lost or duplicated. A separate program does the work (`tests.spark.losses`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pytest

from lazydelta import Table
from lazydelta.errors import JavaNotFoundError
from lazydelta.spark.java import java_home
from tests.spark.losses import TASKS, digest
from tests.unit.changes.support import FeedTable

REPOSITORY = Path(__file__).parents[2]
OLD, TAIL = 10 * TASKS, 2 * TASKS

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="processes to kill are found in /proc"
)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A checkpoint of many parts and a tail of many commits; each file has a number of its own."""
    place = tmp_path_factory.mktemp("losses") / "t"
    kinds = {"id": "long", "n": "integer"}
    made = FeedTable(place, schema=kinds, partition_by=["n"])
    made.file("0", pa.table({"id": pa.array(range(50), pa.int64())}))

    def added(number, **more):
        if not (place / str(number)).exists():
            (place / str(number)).hardlink_to(place / "0")
        return made.add(str(number), values={"n": str(number)}, **more)

    made.commit(*map(added, range(OLD)))
    made.log.checkpoint("multipart", parts=TASKS)
    for at in range(TAIL):
        made.commit(made.remove(str(at), values={"n": str(at)}), added(OLD + at))
    made.commit(added(1, deleted=[7, 8]))
    return place


@pytest.fixture
def spark_home(tmp_path):
    """A copy of what Spark needs of PySpark's folder: a cluster writes its logs beside it."""
    try:
        java_home()
    except JavaNotFoundError as error:
        pytest.skip(str(error))
    home = tmp_path / "spark"
    home.mkdir()
    for name in ("bin", "jars"):
        (home / name).symlink_to(Path(find_spec("pyspark").origin).parent / name)
    return home


@pytest.mark.parametrize(
    ("master", "victim"),
    [
        pytest.param("local[2,20]", "worker", id="a-python-worker"),
        pytest.param(
            "local-cluster[2,1,768]", "executor", id="an-executor", marks=pytest.mark.long
        ),
    ],
)
def test_no_row_is_lost_or_duplicated(table, spark_home, master, victim):
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.losses", master, victim, str(table)],
        capture_output=True, text=True, check=False,
        cwd=REPOSITORY, env=os.environ | {"SPARK_HOME": str(spark_home)},
    )  # fmt: skip
    reports = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    assert reports, done.stdout + done.stderr
    found = json.loads(reports[0].removeprefix("FOUND "))
    assert sum(found["lost"]) > 0, "no task was lost, so this shows nothing"
    rows = [tuple(row.values()) for row in Table.open(table).scan().to_arrow().to_pylist()]
    assert len(rows) == 50 * (OLD + 1) - 2
    assert found["rows"] == digest(rows)
