"""Tables that we write, read and written on by the reference implementation, and then by us."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pingpong.shapes import SHAPES
from tests.spark.jars import JarsMissingError, delta_jars

pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.timeout(3600)]

LEAST = 60
"""Every shape is good for more comparisons than this; fewer means that something was left out."""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What a session with the reference connector saw; the JVM takes JARs at its start."""
    pytest.importorskip("pyspark", reason="pip install 'lazydelta[spark]'")
    try:
        jars = delta_jars()
    except JarsMissingError as error:
        pytest.skip(str(error))
    place = tmp_path_factory.mktemp("pingpong")
    done = subprocess.run(
        [sys.executable, "-m", "tests.pingpong.spark_game", str(place), *map(str, jars)],
        capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    if "JavaNotFoundError" in done.stderr:
        pytest.skip("Spark needs a Java")
    told = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    assert told, done.stdout + done.stderr[-5000:]
    return json.loads(told[0].removeprefix("FOUND "))


@pytest.mark.parametrize("name", SHAPES)
def test_both_engines_see_the_same_after_every_turn(found, name):
    told = found[name]
    assert told["problem"] is None, told["problem"]
    assert told["held"] > LEAST, told


def test_a_wrong_checksum_would_have_been_noticed(found):
    assert found["control"] is True
