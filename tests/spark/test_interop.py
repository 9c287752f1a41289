"""Tables written by the reference implementation: both read the same rows from them."""

from __future__ import annotations

import pytest

from tests.spark.interop_tables import TABLES
from tests.spark.reference import run_program

FEATURES = {
    "deletion-vectors-changes-row-ids-v2-checkpoints": {
        "changeDataFeed", "deletionVectors", "inCommitTimestamp", "rowTracking", "v2Checkpoint",
    },
    "column-mapping-by-name": {"columnMapping", "deletionVectors"},
    "column-mapping-by-id": {"columnMapping"},
    "liquid-clustering-and-variants": {"clustering", "variantType"},
    "type-widening": {"typeWidening"},
    "times-and-partition-values": {"timestampNtz"},
}  # fmt: skip


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """The report of a session with the reference connector."""
    return run_program("tests.spark.interop_tables", tmp_path_factory.mktemp("interop"))


@pytest.mark.long  # a session with the reference connector takes a minute and a half
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", TABLES)
def test_we_read_what_the_reference_reads(found, name):
    report = found[name]
    assert set(report["features"]) >= FEATURES[name]
    assert report["rows"] > 0
    ways = [report[way] for way in ("columns", "auto", "arrow", "in_process")]
    assert ways == [True, True, True, True], report
    assert report.get("changes", True), "the change feed differs"
