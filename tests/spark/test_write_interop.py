"""The reference implementation reads, appends to and deletes from what we write on Spark."""

from __future__ import annotations

import pytest

from tests.spark.reference import run_program
from tests.spark.write_interop import TABLES


@pytest.mark.long  # a session with the reference connector takes a minute and a half
@pytest.mark.timeout(900)
def test_tables_written_alternately(tmp_path):
    report = run_program("tests.spark.write_interop", tmp_path)
    assert set(report) == set(TABLES)
    for found in report.values():
        assert found["checkpoint"] == [4, True, True]
        assert found["first"] == 300
        # 18 rows were deleted; the third that is replaced had 300, less 6 of those
        assert found["before_append"] == 900 - 18 - (300 - 6) + 100
        assert found["rows"] == [found["before_append"] + 5] * 2
        assert found["equal"]
        assert found["skipped"] == 3  # of 0 to 4: 0 was deleted, and 3 replaced
        assert found["operations"] == ["WRITE", "WRITE", "WRITE", "DELETE", "WRITE", "WRITE"]


@pytest.mark.long  # likewise
@pytest.mark.timeout(900)
def test_identity_values_and_changes(tmp_path):
    report = run_program("tests.spark.rules_interop", tmp_path)
    numbers = report["numbers"]
    assert len(set(numbers["id"])) == len(numbers["id"]) == 7
    assert max(numbers["id"]) == 5
    assert all(number % 2 for number in numbers["id"])
    assert len(set(numbers["n"])) == len(numbers["n"]) == 7
    assert numbers["n"][-3:] == [100, 101, 102]  # generated values continue after the explicit 100
    changed = [["delete", "a", 1], ["insert", "a", 1], ["insert", "b", 1]]
    assert report["changes"] == dict.fromkeys(("none", "name", "id"), changed)
