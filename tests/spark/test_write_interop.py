"""The reference implementation reads, appends to and deletes from what we write on Spark."""

from __future__ import annotations

import pytest

from tests.spark.reference import told_by
from tests.spark.write_interop import TABLES


@pytest.mark.long  # a session with the reference connector takes a minute and a half
@pytest.mark.timeout(900)
def test_tables_written_in_turns(tmp_path):
    told = told_by("tests.spark.write_interop", tmp_path)
    assert set(told) == set(TABLES)
    for found in told.values():
        assert found["checkpoint"] == [4, True, True]
        assert found["first"] == 300
        # 18 rows were deleted; the third that is replaced had 300, less 6 of those
        assert found["before_append"] == 900 - 18 - (300 - 6) + 100
        assert found["rows"] == [found["before_append"] + 5] * 2
        assert found["equal"]
        assert found["skipped"] == 3  # of 0 to 4: 0 was deleted, and 3 replaced
        assert found["operations"] == ["WRITE", "WRITE", "WRITE", "DELETE", "WRITE", "WRITE"]
