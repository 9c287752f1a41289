"""Round trips with Delta Spark."""

from __future__ import annotations

import pytest

from tests.round_trip.shapes import SHAPES
from tests.spark.reference import run_program

pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.timeout(3600)]

LEAST = 60
"""Every shape is good for more comparisons than this; fewer means that something was left out."""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """The report of a Delta Spark session."""
    return run_program("tests.round_trip.spark_rounds", tmp_path_factory.mktemp("round-trip"))


@pytest.mark.parametrize("name", SHAPES)
def test_both_engines_read_the_same_rows_after_every_step(found, name):
    result = found[name]
    assert result["problem"] is None, result["problem"]
    assert result["held"] > LEAST, result


def test_spark_rejects_a_wrong_checksum(found):
    assert found["control"] is True
