"""Tables created and altered by lazydelta and by the reference implementation: same rows in both."""

from __future__ import annotations

import pytest

from tests.spark.reference import run_program
from tests.unit.operations.alter.spark_tables import TABLES

pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """The report of a session with the reference connector."""
    return run_program(
        "tests.unit.operations.alter.spark_tables", tmp_path_factory.mktemp("altered")
    )


@pytest.mark.parametrize("name", TABLES)
def test_both_engines_read_the_same_rows_at_every_step(found, name):
    steps = found[name]
    assert len(steps) >= 5
    assert all(step is True for step in steps), [step for step in steps if step is not True]
