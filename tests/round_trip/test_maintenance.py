"""Delta Spark reads the tables that we cluster and vacuum, and maintains them in turn."""

from __future__ import annotations

import pytest

from tests.round_trip.spark_maintenance import MAKERS
from tests.spark.reference import run_program


@pytest.mark.spark
@pytest.mark.long  # a session of Delta Spark with some thirty jobs
@pytest.mark.timeout(1200)
def test_delta_spark_and_we_maintain_a_clustered_table_in_turn(tmp_path):
    found = run_program("tests.round_trip.spark_maintenance", tmp_path)
    assert set(found) == set(MAKERS)
    for maker, result in found.items():
        assert result["problem"] is None, f"{maker}: {result['problem']}"
        assert result["held"] > 20
