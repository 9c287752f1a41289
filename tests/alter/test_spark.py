"""Tables that we create and alter, read and altered by the reference implementation, and by us."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.alter.spark_tables import TABLES
from tests.spark.jars import JarsMissingError, delta_jars

pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What a session with the reference connector saw; the JVM takes JARs at its start."""
    pytest.importorskip("pyspark", reason="pip install 'lazydelta[spark]'")
    try:
        jars = delta_jars()
    except JarsMissingError as error:
        pytest.skip(str(error))
    place = tmp_path_factory.mktemp("altered")
    done = subprocess.run(
        [sys.executable, "-m", "tests.alter.spark_tables", str(place), *map(str, jars)],
        capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    if "JavaNotFoundError" in done.stderr:
        pytest.skip("Spark needs a Java")
    told = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    assert told, done.stdout + done.stderr[-5000:]
    return json.loads(told[0].removeprefix("FOUND "))


@pytest.mark.parametrize("name", TABLES)
def test_both_engines_see_the_same_at_every_step(found, name):
    steps = found[name]
    assert len(steps) >= 5
    assert all(step is True for step in steps), [step for step in steps if step is not True]
