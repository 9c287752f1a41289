"""One writer: what a commit says, what it costs, and what it refuses."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from lazydelta import Table, __version__
from lazydelta.commit import Clock, Transaction, commit
from lazydelta.errors import (
    AppendOnlyError,
    ConcurrentTransactionError,
    InvalidCommitError,
    TableExistsError,
    UnsupportedFeatureError,
)
from lazydelta.snapshot import load_snapshot
from lazydelta.spec import DomainMetadata, SetTransaction, TableProtocol, with_features
from lazydelta.store import MeteredStore, open_store
from tests.commit.support import (
    CONFIG,
    METADATA,
    PROTOCOL,
    actions_of,
    add,
    adds,
    append,
    base_of,
    commit_path,
    info_of,
    make_table,
    put,
    reads,
    remove,
    removes,
    run,
    schema_string,
    versions,
    with_properties,
)
from tests.support import memory_store

# --- what it says -----------------------------------------------------------------------------


def test_the_words_of_a_commit():
    store = make_table()
    mine = append(
        parameters={"mode": "Append", "partitionBy": ["p"], "nothing": None},
        metrics={"numFiles": 1},
        user_metadata={"userMetadata": "nightly", "run": {"id": 7}},
        txns=(SetTransaction(app_id="app", version=1, last_updated=5),),
        domains=(DomainMetadata(domain="my.domain", configuration="{}"),),
        reads=reads("p = 'z'", []),
    )
    mine = replace(mine, removes=removes(remove("fb")))
    result = run(mine, store, clock=Clock(now_ms=lambda: 4_000_000_000_000))
    lines = bytes(store.read(commit_path(1))).decode().splitlines()
    assert [next(iter(json.loads(line))) for line in lines] == [
        "commitInfo",
        "txn",
        "domainMetadata",
        "remove",
        "add",
    ]
    assert info_of(store, 1) == {
        "timestamp": 4_000_000_000_000,
        "operation": "WRITE",
        "operationParameters": {"mode": "Append", "partitionBy": '["p"]'},
        "readVersion": 0,
        "isolationLevel": "Serializable",
        "isBlindAppend": False,
        "operationMetrics": {"numFiles": "1"},
        "engineInfo": f"lazydelta/{__version__}",
        "txnId": mine.txn_id,
        "userMetadata": "nightly",
        "run": {"id": 7},
    }
    assert actions_of(store, 1, "add") == [add("new")]
    assert result.timestamp_ms == 4_000_000_000_000


def test_a_null_partition_value_is_kept_and_other_nulls_are_not_written():
    store = make_table()
    run(Transaction(operation="WRITE", adds=adds(add("n", None, stats=False))), store)
    (written,) = actions_of(store, 1, "add")
    assert written["partitionValues"] == {"p": None}
    assert None not in written.values()


def test_what_file_actions_leave_out_is_filled_in():
    store = make_table()
    mine = Transaction(
        operation="DELETE",
        removes=removes({"path": "fa"}),
        adds=adds({**add("n"), "dataChange": None}),
    )
    run(mine, store, clock=Clock(now_ms=lambda: 77_000_000_000_000))
    assert actions_of(store, 1, "remove") == [
        {"path": "fa", "deletionTimestamp": 77_000_000_000_000, "dataChange": True}
    ]
    assert actions_of(store, 1, "add")[0]["dataChange"] is True


@pytest.mark.parametrize(
    ("own", "reason"),
    [
        pytest.param({"txnId": "x"}, "txnId", id="a-name-of-the-commit's-own"),
        pytest.param({"x": object()}, "JSON", id="no-json"),
        pytest.param({"x": "y" * (1 << 20)}, "bytes", id="too-long"),
    ],
)
def test_commit_metadata_that_cannot_be_written_is_refused(own, reason):
    store = make_table()
    with pytest.raises(InvalidCommitError, match=reason):
        run(append(user_metadata=own), store)
    assert versions(store) == [0]


# --- creating ---------------------------------------------------------------------------------


def test_a_table_that_is_there_cannot_be_created():
    store = make_table()
    with pytest.raises(TableExistsError):
        make_table(store)
    assert versions(store) == [0]


def test_a_table_whose_first_commits_are_cleaned_up_is_there():
    store = memory_store()
    store.write(f"_delta_log/{7:020d}.checkpoint.parquet", b"PAR1", overwrite=False)
    with pytest.raises(TableExistsError):
        make_table(store)


def test_of_two_creators_one_wins():
    store = memory_store()
    create = Transaction(operation="CREATE TABLE", protocol=PROTOCOL, metadata=METADATA)

    def observer(phase, version):
        if phase == "prepared":
            make_table(store)

    with pytest.raises(TableExistsError):
        commit(create, store=store, config=CONFIG, base=None, observer=observer)
    assert versions(store) == [0]


def test_a_table_starts_with_protocol_and_metadata():
    with pytest.raises(InvalidCommitError, match="protocol and metadata"):
        commit(append(), store=memory_store(), config=CONFIG, base=None)


# --- what it costs ----------------------------------------------------------------------------


def test_a_commit_alone_is_one_request(tmp_path):
    store = MeteredStore(open_store(make_local(tmp_path)))
    base = load_snapshot(store, CONFIG)
    store.reset()
    commit(append(), store=store, config=CONFIG, base=base)
    assert store.requests_by_operation() == {"write": 1}


@pytest.mark.parametrize(
    ("winners", "requests"),
    [
        (1, {"write": 2, "read": 1}),
        (2, {"write": 3, "list": 1, "read": 2}),
        (9, {"write": 3, "list": 1, "read": 9}),
    ],
)
def test_a_lost_race_costs_a_read_per_winner_and_one_listing_for_many(tmp_path, winners, requests):
    store = MeteredStore(open_store(make_local(tmp_path)))
    base = load_snapshot(store, CONFIG)
    for version in range(1, winners + 1):
        put(store.inner, version, ("add", add(f"w{version}")), blind=True)
    store.reset()
    assert commit(append(), store=store, config=CONFIG, base=base).version == winners + 1
    assert store.requests_by_operation() == requests


def test_an_old_base_is_looked_past_before_anything_is_put():
    store = MeteredStore(make_table())
    base = load_snapshot(store, CONFIG)
    for version in (1, 2):
        put(store.inner, version, ("add", add(f"w{version}")), blind=True)
    store.reset()
    later = base.segment.commits[-1].modified_ms + 3_600_000
    result = commit(
        append(), store=store, config=CONFIG, base=base, clock=Clock(now_ms=lambda: later)
    )
    assert (result.version, result.attempts) == (3, 1)
    assert store.requests_by_operation() == {"list": 1, "read": 2, "write": 1}


def make_local(tmp_path):
    make_table(open_store(tmp_path))
    return tmp_path


# --- what it refuses --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "protocol",
    [
        TableProtocol(min_reader_version=1, min_writer_version=8),
        replace(PROTOCOL, writer_features=(*PROTOCOL.writer_features, "icebergCompatV2")),
        replace(PROTOCOL, writer_features=(*PROTOCOL.writer_features, "someday")),
    ],
    ids=["a-version", "a-feature-not-implemented", "an-unknown-feature"],
)
def test_a_table_that_this_engine_cannot_write_is_refused_by_name(protocol):
    store = memory_store()
    put(store, 0, ("protocol", protocol.to_json()), ("metaData", METADATA.to_json()))
    with pytest.raises(UnsupportedFeatureError) as raised:
        run(append(), store)
    assert raised.value.access == "write"
    assert versions(store) == [0]


def test_a_commit_may_not_make_the_table_unwritable_either():
    store = make_table()
    newer = replace(PROTOCOL, writer_features=(*PROTOCOL.writer_features, "someday"))
    with pytest.raises(UnsupportedFeatureError, match="someday"):
        run(Transaction(operation="UPGRADE", protocol=newer), store)


def test_a_table_that_only_grows():
    store = make_table(metadata=with_properties(appendOnly="true"))
    deleting = Transaction(operation="DELETE", removes=removes(remove("fa")))
    with pytest.raises(AppendOnlyError, match="DELETE"):
        run(deleting, store)
    moving = Transaction(
        operation="OPTIMIZE",
        data_change=False,
        removes=removes(remove("fa", change=False)),
        adds=adds(add("n", change=False)),
    )
    assert run(moving, store).version == 1
    assert run(append(), store).version == 2


@pytest.mark.parametrize(
    ("mine", "reason"),
    [
        pytest.param({"adds": adds(add("n"), add("n"))}, "more than once", id="added-twice"),
        pytest.param({"adds": adds(add("n"), add("./%6e"))}, "more than once", id="by-two-names"),
        pytest.param(
            {"removes": removes(remove("fa"), remove("fa"))}, "more than once", id="removed-twice"
        ),
        pytest.param(
            {"adds": adds(add("fa")), "removes": removes(remove("fa"))},
            "added and removed",
            id="added-and-removed",
        ),
        pytest.param(
            {
                "txns": (
                    SetTransaction(app_id="a", version=1),
                    SetTransaction(app_id="a", version=2),
                )
            },
            "application 'a'",
            id="two-steps-of-one-application",
        ),
        pytest.param(
            {"domains": (DomainMetadata(domain="d", configuration=""),) * 2},
            "domain 'd'",
            id="two-of-one-domain",
        ),
        pytest.param(
            {"adds": adds(add("n", vector="v"))}, "deletionVectors", id="a-vector-not-allowed"
        ),
        pytest.param({"adds": adds({**add("n"), "size": -1})}, "negative", id="negative-size"),
        pytest.param({"adds": adds({**add("n"), "size": None})}, "no size", id="no-size"),
        pytest.param(
            {"adds": adds({**add("n"), "partitionValues": {}})}, "columns p", id="no-value"
        ),
        pytest.param(
            {"adds": adds({**add("n"), "partitionValues": {"q": "1"}})}, "columns p", id="of-others"
        ),
        pytest.param({"adds": adds(add("n")), "data_change": False}, "rows change", id="says-both"),
        pytest.param(
            {"adds": adds(add("n")).select(["path", "size"])}, "columns of ADDS", id="no-adds"
        ),
    ],
)
def test_actions_that_contradict_each_other_are_refused(mine, reason):
    store = make_table()
    with pytest.raises(InvalidCommitError, match=reason):
        run(Transaction(operation="WRITE", **mine), store)
    assert versions(store) == [0]


def test_a_new_vector_for_a_file_is_no_contradiction():
    store = make_table(protocol=with_features(PROTOCOL, ["deletionVectors"]))
    mine = Transaction(
        operation="DELETE", removes=removes(remove("fa")), adds=adds(add("fa", vector="v"))
    )
    assert run(mine, store).version == 1
    assert actions_of(store, 1, "add")[0]["deletionVector"]["pathOrInlineDv"] == "v"


# --- applications -----------------------------------------------------------------------------


def test_a_step_of_an_application_is_applied_once():
    store = make_table()
    step = append(txns=(SetTransaction(app_id="app", version=3),))
    assert not run(step, store).already_applied
    again = append("again", txns=(SetTransaction(app_id="app", version=3),))
    result = run(again, store)
    assert (result.already_applied, result.version, result.attempts) == (True, 1, 0)
    assert versions(store) == [0, 1]
    assert run(append("more", txns=(SetTransaction(app_id="app", version=4),)), store).version == 2


def test_a_race_of_two_steps_of_one_application_is_a_conflict():
    store = make_table()
    base = base_of(store)
    run(append("one", txns=(SetTransaction(app_id="app", version=1),)), store, base)
    with pytest.raises(ConcurrentTransactionError, match="'app' got to 1"):
        run(append("two", txns=(SetTransaction(app_id="app", version=2),)), store, base)


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


@pytest.mark.parametrize(
    ("removed", "kept"), [((), "true"), (("fa",), "false")], ids=["an-append", "a-rewrite"]
)
def test_a_commit_says_whether_rows_kept_their_ids(removed, kept):
    store = make_table(protocol=TRACKING, metadata=with_properties(enableRowTracking="true"))
    run(replace(append(), removes=removes(*map(remove, removed))), store)
    assert info_of(store, 1)["tags"] == {"delta.rowTracking.preserved": kept}


# --- in-commit timestamps ---------------------------------------------------------------------

TIMED = with_features(PROTOCOL, ["inCommitTimestamp"])
TIMED_METADATA = with_properties(enableInCommitTimestamps="true")


def test_commits_carry_their_time_and_it_only_grows():
    store = make_table(protocol=TIMED, metadata=TIMED_METADATA)
    first = info_of(store, 0)["inCommitTimestamp"]
    assert "delta.inCommitTimestampEnablementVersion" not in str(actions_of(store, 0, "metaData"))
    result = run(append(), store, clock=Clock(now_ms=lambda: 5))
    assert info_of(store, 1)["inCommitTimestamp"] == result.timestamp_ms == first + 1
    base = base_of(store)
    run(append("w"), store, base, clock=Clock(now_ms=lambda: first + 1000))
    run(append("l"), store, base, clock=Clock(now_ms=lambda: first + 500))
    assert info_of(store, 3)["inCommitTimestamp"] == first + 1001


def test_a_table_that_gets_them_later_says_from_where_on():
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


# --- what others switched on meanwhile --------------------------------------------------------

_MAPPED = {
    name: {"delta.columnMapping.id": n + 1, "delta.columnMapping.physicalName": name}
    for n, name in enumerate(["id", "p", "x"])
}


def _switched(**properties):
    return with_properties(**properties)


@pytest.mark.parametrize(
    ("features", "metadata"),
    [
        (["rowTracking"], _switched(enableRowTracking="true")),
        (["inCommitTimestamp"], _switched(enableInCommitTimestamps="true")),
        (["v2Checkpoint"], _switched(checkpointPolicy="v2")),
        (
            ["columnMapping"],
            replace(
                _switched(**{"columnMapping.mode": "name", "columnMapping.maxColumnId": "3"}),
                schema_string=schema_string(**_MAPPED),
            ),
        ),
    ],
    ids=["row-tracking", "timestamps", "checkpoints", "column-mapping"],
)
def test_an_append_goes_on_as_if_it_had_known(features, metadata):
    store = make_table()
    base = base_of(store)
    put(
        store,
        1,
        ("protocol", with_features(PROTOCOL, features).to_json()),
        ("metaData", metadata.to_json()),
        blind=True,
        inCommitTimestamp=9_000_000_000_000,
    )
    assert run(append(), store, base).version == 2
    (written,) = actions_of(store, 2, "add")
    assert ("baseRowId" in written) == (features == ["rowTracking"])
    timed = info_of(store, 2).get("inCommitTimestamp")
    assert timed == (9_000_000_000_001 if features == ["inCommitTimestamp"] else None)


@pytest.mark.parametrize(
    "metadata",
    [
        _switched(enableDeletionVectors="false"),
        _switched(appendOnly="true"),
        replace(METADATA, name="renamed"),
        replace(METADATA, id="another"),
        replace(METADATA, partition_columns=()),
        replace(
            _switched(**{"columnMapping.mode": "name"}),
            schema_string=schema_string(
                **{**_MAPPED, "x": {"delta.columnMapping.physicalName": "col-1"}}
            ),
        ),
        replace(METADATA, schema_string=schema_string([("id", "string"), ("p", "string")])),
    ],
    ids=["off", "another", "name", "id", "partitioning", "other-names", "types"],
)
def test_any_other_change_of_metadata_is_a_conflict(metadata):
    from lazydelta.errors import MetadataChangedError

    store = make_table()
    base = base_of(store)
    put(
        store,
        1,
        ("protocol", with_features(PROTOCOL, ["columnMapping"]).to_json()),
        ("metaData", metadata.to_json()),
        blind=True,
    )
    with pytest.raises(MetadataChangedError):
        run(append(), store, base)


# --- after the commit -------------------------------------------------------------------------


def test_a_failing_hook_is_a_warning_and_the_next_one_runs():
    store = make_table()
    ran = []

    def write_checksum(committed):
        raise OSError("disk full")

    def checkpoint(committed):
        ran.append(committed)

    result = run(append(), store, hooks=[write_checksum, checkpoint])
    assert result.warnings == ("write_checksum: disk full",)
    assert ran[0].version == 1
    assert ran[0].base.version == 0


def test_hooks_see_the_transaction_as_committed_and_the_version_before_it():
    store = make_table(protocol=TRACKING)
    base = base_of(store)
    run(append("winner"), store, base)
    seen = []
    run(append("loser"), store, base, hooks=[seen.append])
    (committed,) = seen
    assert committed.version == 2
    assert committed.transaction.adds["baseRowId"].to_pylist() == [9]
    assert committed.base.version == 1
    found = [path for file in _paths(committed.base) for path in file]
    assert sorted(found) == ["fa", "fb", "winner"]


def _paths(snapshot):
    from lazydelta.scan import Scan

    with Scan(snapshot).file_batches() as batches:
        return [batch.column("path").to_pylist() for batch in batches]


def test_phases_are_told_in_order():
    store = make_table()
    base = base_of(store)
    put(store, 1, ("add", add("w")), blind=True)
    phases = []
    run(append(), store, base, observer=lambda phase, version: phases.append((phase, version)))
    assert phases == [
        ("start", 1),
        ("prepared", 1),
        ("put", 1),
        ("lost", 1),
        ("rebased", 2),
        ("prepared", 2),
        ("put", 2),
        ("committed", 2),
        ("finished", 2),
    ]
