"""Row ids and in-commit timestamps, which depend on the committed version."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from lazydelta import Table
from lazydelta.errors import AlterationError, InvalidCommitError
from lazydelta.log import LogFileKind, list_log
from lazydelta.protocol.features import with_features
from lazydelta.transaction import Transaction
from lazydelta.transaction.retry import Clock
from tests.unit.transaction.support import (
    CONFIG,
    PROTOCOL,
    actions_of,
    add,
    adds,
    append,
    base_of,
    info_of,
    make_table,
    put,
    remove,
    removes,
    run,
    with_properties,
)

# --- row tracking -----------------------------------------------------------------------------

TRACKING = with_features(PROTOCOL, ["rowTracking"])


def _mark(store, version):
    (domain,) = actions_of(store, version, "domainMetadata")
    assert domain["domain"] == "delta.rowTracking"
    return json.loads(domain["configuration"])["rowIdHighWaterMark"]


def _ids(store, version):
    return [
        (a["baseRowId"], a["defaultRowCommitVersion"]) for a in actions_of(store, version, "add")
    ]


def test_rows_get_ids_from_the_first_version_on():
    store = make_table(protocol=TRACKING)
    assert _ids(store, 0) == [(0, 0), (3, 0)]
    assert _mark(store, 0) == 5
    more = Transaction(operation="WRITE", adds=adds(add("x", rows=10), add("y", rows=1)))
    run(more, store)
    assert _ids(store, 1) == [(6, 1), (16, 1)]
    assert _mark(store, 1) == 16


def test_after_a_lost_race_ids_follow_the_winners():
    store = make_table(protocol=TRACKING)
    base = base_of(store)
    run(append("winner"), store, base)
    run(append("loser"), store, base)
    assert _ids(store, 1) == [(6, 1)]
    assert _ids(store, 2) == [(9, 2)]
    assert _mark(store, 2) == 11


def test_a_file_that_brings_its_ids_keeps_them():
    store = make_table(protocol=with_features(TRACKING, ["deletionVectors"]))
    kept = add("fa", vector="v", baseRowId=0, defaultRowCommitVersion=0)
    mine = Transaction(operation="DELETE", removes=removes(remove("fa")), adds=adds(kept, add("n")))
    run(mine, store)
    assert _ids(store, 1) == [(0, 0), (6, 1)]


def test_rows_that_cannot_be_counted_are_refused():
    store = make_table(protocol=TRACKING)
    with pytest.raises(InvalidCommitError, match="numRecords"):
        run(Transaction(operation="WRITE", adds=adds(add("n", stats=False))), store)


def test_no_row_ids_while_row_tracking_is_suspended():
    store = make_table(protocol=TRACKING, metadata=with_properties(rowTrackingSuspended="true"))
    run(append(), store)
    assert not any("baseRowId" in a for v in (0, 1) for a in actions_of(store, v, "add"))
    assert not actions_of(store, 1, "domainMetadata")
    with pytest.raises(AlterationError, match="rowTrackingSuspended is true"):
        Table(store, CONFIG).alter.set_properties({"delta.enableRowTracking": "true"})


@pytest.mark.parametrize(
    ("removed", "kept"), [((), "true"), (("fa",), "false")], ids=["an-append", "a-rewrite"]
)
def test_a_commit_records_whether_rows_kept_their_ids(removed, kept):
    store = make_table(protocol=TRACKING, metadata=with_properties(enableRowTracking="true"))
    run(replace(append(), removes=removes(*map(remove, removed))), store)
    assert info_of(store, 1)["tags"] == {"delta.rowTracking.preserved": kept}


# --- in-commit timestamps ---------------------------------------------------------------------

TIMED = with_features(PROTOCOL, ["inCommitTimestamp"])
TIMED_METADATA = with_properties(enableInCommitTimestamps="true")


def test_in_commit_timestamps_increase():
    store = make_table(protocol=TIMED, metadata=TIMED_METADATA)
    first = info_of(store, 0)["inCommitTimestamp"]
    assert "delta.inCommitTimestampEnablementVersion" not in str(actions_of(store, 0, "metaData"))
    result = run(append(), store, clock=Clock(now_ms=lambda: 5))
    assert info_of(store, 1)["inCommitTimestamp"] == result.timestamp_ms == first + 1
    base = base_of(store)
    run(append("w"), store, base, clock=Clock(now_ms=lambda: first + 1000))
    run(append("l"), store, base, clock=Clock(now_ms=lambda: first + 500))
    assert info_of(store, 3)["inCommitTimestamp"] == first + 1001


def test_the_first_in_commit_timestamp_is_later_than_the_previous_commit():
    store = make_table()
    Table(store, CONFIG).checkpoint()
    before = next(file.modified_ms for file in list_log(store) if file.kind is LogFileKind.COMMIT)
    mine = Transaction(operation="ALTER", protocol=TIMED, metadata=TIMED_METADATA)
    run(mine, store, clock=Clock(now_ms=lambda: 5))
    assert info_of(store, 1)["inCommitTimestamp"] == before + 1


def test_enabling_in_commit_timestamps_records_the_version():
    store = make_table()
    base = base_of(store)
    mine = Transaction(operation="ALTER", protocol=TIMED, metadata=TIMED_METADATA)
    put(store, 1, ("add", add("winner")), blind=True)
    result = run(mine, store, base)
    (metadata,) = actions_of(store, 2, "metaData")
    assert metadata["configuration"] == {
        "delta.enableInCommitTimestamps": "true",
        "delta.inCommitTimestampEnablementVersion": "2",
        "delta.inCommitTimestampEnablementTimestamp": str(result.timestamp_ms),
    }
    assert next(iter(info_of(store, 2))) == "timestamp"
    assert info_of(store, 2)["inCommitTimestamp"] == result.timestamp_ms
    assert Table(store, CONFIG).snapshot(timestamp=None).version == 2
