"""The actions of a commit file, creation of tables, and application transactions."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from lazydelta import __version__
from lazydelta.errors import ConcurrentTransactionError, InvalidCommitError, TableExistsError
from lazydelta.protocol import DomainMetadata, SetTransaction
from lazydelta.transaction import Transaction, commit
from lazydelta.transaction.retry import Clock
from tests.support import memory_store
from tests.unit.transaction.support import (
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
    reads,
    remove,
    removes,
    run,
    versions,
)

# --- actions of a commit ----------------------------------------------------------------------


def test_the_actions_of_a_commit():
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
        pytest.param({"userName": 3}, "a string", id="a-name-that-is-a-number"),
        pytest.param({"job": {"jobId": 1}}, "a dict of strings", id="a-job-of-numbers"),
        ({"loss": float("nan")}, "'loss' has a NaN or an infinity"),
        ({"run": {"steps": [1.0, float("inf")]}}, "'run' has a NaN or an infinity"),
        ({"run": [{"best": (float("-inf"),)}]}, "'run' has a NaN or an infinity"),
    ],
)
def test_commit_metadata_that_cannot_be_written_is_refused(own, reason):
    store = make_table()
    with pytest.raises(InvalidCommitError, match=reason):
        run(append(user_metadata=own), store)
    assert versions(store) == [0]


# --- creating ---------------------------------------------------------------------------------


def test_an_existing_table_cannot_be_created():
    store = make_table()
    with pytest.raises(TableExistsError):
        make_table(store)
    assert versions(store) == [0]


def test_a_table_without_its_first_commits_exists():
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


# --- applications -----------------------------------------------------------------------------


def test_an_application_transaction_is_applied_once():
    store = make_table()
    step = append(txns=(SetTransaction(app_id="app", version=3),))
    assert not run(step, store).already_applied
    again = append("again", txns=(SetTransaction(app_id="app", version=3),))
    result = run(again, store)
    assert (result.already_applied, result.version, result.attempts) == (True, 1, 0)
    assert versions(store) == [0, 1]
    assert run(append("more", txns=(SetTransaction(app_id="app", version=4),)), store).version == 2


def test_concurrent_transactions_of_one_application_conflict():
    store = make_table()
    base = base_of(store)
    run(append("one", txns=(SetTransaction(app_id="app", version=1),)), store, base)
    with pytest.raises(ConcurrentTransactionError, match="'app' committed version 1"):
        run(append("two", txns=(SetTransaction(app_id="app", version=2),)), store, base)
