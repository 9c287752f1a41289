"""Tables that we write, read and written on by the reference implementation, and then by us."""

from __future__ import annotations

import pytest

from tests.round_trip.shapes import SHAPES
from tests.spark.reference import told_by

pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.timeout(3600)]

LEAST = 60
"""Every shape is good for more comparisons than this; fewer means that something was left out."""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What a session with the reference connector saw."""
    return told_by("tests.round_trip.spark_rounds", tmp_path_factory.mktemp("pingpong"))


@pytest.mark.parametrize("name", SHAPES)
def test_both_engines_see_the_same_after_every_turn(found, name):
    told = found[name]
    assert told["problem"] is None, told["problem"]
    assert told["held"] > LEAST, told


def test_a_wrong_checksum_would_have_been_noticed(found):
    assert found["control"] is True
