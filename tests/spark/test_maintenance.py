"""Tables that the reference implementation and lazydelta maintain in turns."""

from __future__ import annotations

import pytest

from tests.spark.reference import run_program


@pytest.mark.long  # a session with the reference connector takes a minute and a half
@pytest.mark.timeout(900)
def test_each_engine_continues_the_maintenance_of_the_other(tmp_path):
    found = run_program("tests.spark.maintenance_interop", tmp_path)
    assert found["same_rows"]
    assert found["ours"] == found["theirs"]
    assert found["deleted"] == len(found["ours"])
    assert found["after_vacuum"]
    assert found["operations"] == ["VACUUM END", "VACUUM START"]
    assert found["status"] == {"status": "COMPLETED"}
    assert found["metrics"]["numDeletedFiles"] == str(found["deleted"])
    assert found["after_restore"]
    assert found["after_their_restore"] == 0
    assert found["after_their_lite"]
    assert found["health"] != "critical"
    assert found["clustered"]["numRemovedFiles"] == 4
    assert found["clustered"]["numAddedFiles"] > 2
    assert found["totals"] == [4000, sum(range(4000)), sum(n * 7919 % 1000 for n in range(4000))]
    assert found["then"] == 4001
