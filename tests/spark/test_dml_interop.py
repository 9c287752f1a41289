"""The reference implementation reads and changes what we change on Spark, and we what it changes."""

from __future__ import annotations

import pytest

from tests.spark.dml_interop import TABLES
from tests.spark.reference import run_program


@pytest.mark.long  # a session with the reference connector takes a minute and a half
@pytest.mark.timeout(900)
def test_rows_changed_by_turns(tmp_path):
    report = run_program("tests.spark.dml_interop", tmp_path)
    assert set(report) == set(TABLES)
    for found in report.values():
        assert found["middle"] == [True, 270 + 11]  # 293 was deleted, so it is inserted again
        assert found["end"][0]
        assert found["operations"] == ["WRITE", "DELETE", "UPDATE", "MERGE", "DELETE", "DELETE"]
        assert found["merge_metrics"]["numTargetRowsUpdated"] == "9"
        assert found["merge_metrics"]["numTargetRowsInserted"] == "11"
    assert report["vectors"]["feed"] == [
        ["insert", 11], ["update_postimage", 9], ["update_preimage", 9],
    ]  # fmt: skip
