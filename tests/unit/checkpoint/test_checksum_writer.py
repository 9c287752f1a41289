"""Checksums are updated commit by commit, and equal a full replay at every version."""

from __future__ import annotations

import logging
from dataclasses import replace

import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lazydelta import Config
from lazydelta.checkpoint import tuning
from lazydelta.checkpoint.checkpoint_writer import checkpoint_after
from lazydelta.checkpoint.checksum_writer import checksum_of, write_checksum
from lazydelta.checkpoint.full_replay import full_replay
from lazydelta.protocol import DomainMetadata, SetTransaction, TableMetadata, TableProtocol
from lazydelta.scan import check_table
from lazydelta.snapshot import load_snapshot
from lazydelta.store import MemoryStore
from lazydelta.store.layers.metered_store import MeteredStore
from lazydelta.transaction import ADDS, REMOVES, Transaction, commit
from tests.unit.checkpoint.checkpoint_cases import NOW, built, snapshot_of

CONFIG = Config()
SCHEMA_STRING = (
    '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'
)
SIZES = (0, 1, 8191, 8192, 5_000_000, 130_023_424, 300 << 30)
CARDINALITIES = (1, 9, 10, 12_345, 2**31)


def create(features=("deletionVectors", "domainMetadata"), configuration=None):
    protocol = TableProtocol(
        min_reader_version=3,
        min_writer_version=7,
        reader_features=tuple(f for f in features if f == "deletionVectors"),
        writer_features=tuple(features),
    )
    metadata = TableMetadata(
        id="t", schema_string=SCHEMA_STRING, partition_columns=(), configuration=configuration or {}
    )
    return Transaction(operation="CREATE TABLE", protocol=protocol, metadata=metadata)


def files(schema, rows):
    defaults = {"partitionValues": [], "dataChange": True}
    if schema is ADDS:
        defaults["modificationTime"] = NOW
    return pa.Table.from_pylist([defaults | row for row in rows], schema)


REPEATED_ADD = files(ADDS, [{"path": "a", "size": 99, "dataChange": False}])


def a_file(path, size, cardinality=None, number=0):
    vector = None
    if cardinality is not None:
        vector = {
            "storageType": "u",
            "pathOrInlineDv": f"{number:020d}",
            "offset": 1,
            "sizeInBytes": 34,
            "cardinality": cardinality,
        }
    return {"path": path, "size": size, "deletionVector": vector}


def run(store, transaction, hooks=(write_checksum,), config=CONFIG):
    is_new = transaction.metadata is not None and transaction.operation == "CREATE TABLE"
    base = None if is_new else load_snapshot(store, config)
    return commit(transaction, store=store, config=config, base=base, hooks=hooks)


def stored(store, version):
    return orjson.loads(bytes(store.read(f"_delta_log/{version:020d}.crc")))


def counted(store, version, **more):
    replay = full_replay(snapshot_of(store, version), now_ms=NOW).exhaust()
    return orjson.loads(orjson.dumps(checksum_of(replay, timestamp_ms=None, **more)))


STEP = st.one_of(
    st.tuples(st.just("add"), st.sampled_from(SIZES), st.just(0)),
    st.tuples(st.just("remove"), st.integers(0, 9), st.just(0)),
    st.tuples(st.just("vector"), st.integers(0, 9), st.sampled_from(CARDINALITIES)),
    st.tuples(st.just("txn"), st.sampled_from("ab"), st.integers(0, 9)),
    st.tuples(st.just("domain"), st.sampled_from(("x", "y")), st.booleans()),
)


class Writer:
    """Plans valid transactions: they add new files and remove live ones."""

    def __init__(self):
        self.live = {}
        self.added = 0
        self.steps = 0

    def transaction(self, steps):
        adds, removes, txns, domains, touched = [], [], {}, {}, set()
        for kind, what, how in steps:
            if kind == "add":
                self.added += 1
                path = f"f{self.added}"
                adds.append(a_file(path, what))
                self.live[path] = adds[-1]
                touched.add(path)
            elif kind == "txn":
                self.steps += 1 + how
                txns[what] = SetTransaction(app_id=what, version=self.steps)
            elif kind == "domain":
                domains[what] = DomainMetadata(domain=what, configuration="{}", removed=how)
            elif untouched := [path for path in self.live if path not in touched]:
                path = untouched[what % len(untouched)]
                touched.add(path)
                removes.append(self.live.pop(path))
                if kind == "vector":
                    self.steps += 1
                    adds.append(a_file(path, removes[-1]["size"], how, self.steps))
                    self.live[path] = adds[-1]
        return Transaction(
            operation="WRITE",
            adds=files(ADDS, adds),
            removes=files(REMOVES, [row | {"deletionTimestamp": NOW} for row in removes]),
            txns=tuple(txns.values()),
            domains=tuple(domains.values()),
        )


@given(st.lists(st.lists(STEP, max_size=6), max_size=6))
@settings(max_examples=20)
def test_every_checksum_equals_a_full_replay(commits):
    store, writer = MemoryStore(), Writer()
    run(store, create())
    for steps in commits:
        run(store, writer.transaction(steps))
    for version in range(len(commits) + 1):
        checksum = stored(store, version)
        assert checksum.pop("txnId")
        assert _sorted(checksum) == _sorted(counted(store, version))
        assert check_table(store, CONFIG, version=version).checksum.status == "matches"
    assert snapshot_of(store).num_files == len(writer.live)


def _sorted(body):
    """Return a checksum with its lists sorted."""
    for name, key in (("setTransactions", "appId"), ("domainMetadata", "domain")):
        body[name] = sorted(body[name], key=lambda action, key=key: action[key])
    return body


def appended(store, paths, **more):
    return run(
        store,
        Transaction(operation="WRITE", adds=files(ADDS, [a_file(p, 10) for p in paths])),
        **more,
    )


def test_all_fields_are_written():
    store = MemoryStore()
    run(store, create(configuration={"k": "v"}))
    appended(store, ["a"])
    assert set(stored(store, 1)) == {
        "txnId",
        "tableSizeBytes",
        "numFiles",
        "numDeletedRecordsOpt",
        "numDeletionVectorsOpt",
        "numMetadata",
        "numProtocol",
        "setTransactions",
        "domainMetadata",
        "metadata",
        "protocol",
        "fileSizeHistogram",
        "deletedRecordCountsHistogramOpt",
    }


def test_fields_follow_the_protocol():
    store = MemoryStore()
    run(store, create(("inCommitTimestamp",), {"delta.enableInCommitTimestamps": "true"}))
    result = appended(store, ["a"])
    checksum = stored(store, 1)
    assert checksum["inCommitTimestampOpt"] == result.timestamp_ms
    assert "numDeletionVectorsOpt" not in checksum
    assert "deletedRecordCountsHistogramOpt" not in checksum


def test_an_incremental_update_reads_and_lists_nothing():
    inner = MemoryStore()
    run(inner, create())
    appended(inner, ["a"])
    store = MeteredStore(inner)
    base = load_snapshot(store, CONFIG)
    requests = []

    def metered(committed):
        store.reset()
        write_checksum(committed)
        requests.append(store.requests_by_operation())

    transaction = Transaction(operation="WRITE", adds=files(ADDS, [a_file("b", 1)]))
    commit(transaction, store=store, config=CONFIG, base=base, hooks=[metered])
    assert requests == [{"write": 1}]


@pytest.mark.parametrize("damage", [None, b"", b"{", b'{"numFiles":1}', b"[]"])
def test_without_a_previous_checksum_few_files_are_counted(damage):
    store = MemoryStore()
    run(store, create())
    appended(store, ["a", "b"])
    break_checksum(store, 1, damage)
    appended(store, ["c"])
    checksum = stored(store, 2)
    assert checksum.pop("txnId")
    assert _sorted(checksum) == _sorted(counted(store, 2))


def break_checksum(store, version, damage):
    path = f"_delta_log/{version:020d}.crc"
    store.delete([path])
    if damage is not None:
        store.write(path, damage, overwrite=True)


def test_many_files_are_not_counted(monkeypatch):
    monkeypatch.setattr(tuning, "COUNTED_FILES", 0)
    store = MemoryStore()
    run(store, create())
    appended(store, ["a", "b", "c"])
    break_checksum(store, 1, None)
    assert appended(store, ["d"]).warnings == ()
    assert not has_checksum(store, 2)


def test_a_checkpoint_restarts_the_checksums(monkeypatch):
    monkeypatch.setattr(tuning, "COUNTED_FILES", 0)
    store = MemoryStore()
    run(store, create(configuration={"delta.checkpointInterval": "3"}))
    for n in range(4):
        if n == 1:
            break_checksum(store, 1, None)
        appended(store, [f"f{n}"], hooks=(write_checksum, checkpoint_after))
    assert [has_checksum(store, v) for v in range(5)] == [True, False, False, True, True]
    assert stored(store, 4)["numFiles"] == 4
    assert check_table(store, CONFIG).checksum.status == "matches"


def has_checksum(store, version):
    files = [path for batch in store.list_from("_delta_log") for path in batch["path"].to_pylist()]
    return f"_delta_log/{version:020d}.crc" in files


def test_a_checksum_is_never_replaced():
    store = MemoryStore()
    run(store, create())

    def concurrent_writer(committed):
        committed.store.write(
            f"_delta_log/{committed.version:020d}.crc", b"theirs", overwrite=False
        )

    result = appended(store, ["a"], hooks=(concurrent_writer, write_checksum))
    assert result.warnings == ()
    assert bytes(store.read("_delta_log/00000000000000000001.crc")) == b"theirs"


@pytest.mark.parametrize(
    "transaction",
    [
        pytest.param(
            Transaction(operation="X", adds=REPEATED_ADD, data_change=False),
            id="repeated-add",
        ),
        pytest.param(
            Transaction(operation="X", removes=files(REMOVES, [a_file("a", None) | {"deletionTimestamp": NOW}])),
            id="remove-without-size",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_updated_incrementally_is_counted(transaction):
    store = MemoryStore()
    run(store, create())
    appended(store, ["a", "b"])
    run(store, transaction)
    checksum = stored(store, 2)
    checksum.pop("txnId")
    assert _sorted(checksum) == _sorted(counted(store, 2))


def test_an_inconsistent_previous_checksum_is_not_used(caplog):
    store = MemoryStore()
    run(store, create())
    appended(store, ["a", "b"])
    wrong = stored(store, 1) | {"numFiles": 0, "tableSizeBytes": 0}
    break_checksum(store, 1, orjson.dumps(wrong))
    removed = files(REMOVES, [a_file("a", 10) | {"deletionTimestamp": NOW}])
    with caplog.at_level(logging.WARNING):
        run(store, Transaction(operation="DELETE", removes=removed))
    assert "is inconsistent" in caplog.text
    assert stored(store, 2)["numFiles"] == 1


def test_histograms_with_other_bins_are_updated():
    store = MemoryStore()
    run(store, create())
    appended(store, ["a", "b"])
    bins = {"sortedBinBoundaries": [0, 5, 50], "fileCounts": [0, 2, 0], "totalBytes": [0, 20, 0]}
    theirs = stored(store, 1) | {"histogramOpt": bins}
    del theirs["fileSizeHistogram"]
    break_checksum(store, 1, orjson.dumps(theirs))
    appended(store, ["c"])
    assert stored(store, 2)["fileSizeHistogram"] == bins | {
        "fileCounts": [0, 3, 0],
        "totalBytes": [0, 30, 0],
    }


@pytest.mark.parametrize(
    "name", ["setTransactions", "domainMetadata", "fileSizeHistogram", "numDeletionVectorsOpt"]
)
def test_fields_that_the_previous_checksum_lacks_are_omitted(name):
    store = MemoryStore()
    run(store, create())
    appended(store, ["a"])
    theirs = stored(store, 1)
    del theirs[name]
    break_checksum(store, 1, orjson.dumps(theirs))
    appended(store, ["b"])
    assert name not in stored(store, 2)
    assert check_table(store, CONFIG).checksum.status == "matches"


def test_enabling_deletion_vectors_starts_at_zero():
    store = MemoryStore()
    run(store, create(("appendOnly",)))
    appended(store, ["a"])
    assert "numDeletionVectorsOpt" not in stored(store, 1)
    protocol = replace(create().protocol)
    run(store, Transaction(operation="UPGRADE", protocol=protocol))
    checksum = stored(store, 2)
    assert (checksum["numDeletionVectorsOpt"], checksum["numDeletedRecordsOpt"]) == (0, 0)
    assert checksum["deletedRecordCountsHistogramOpt"]["deletedRecordCounts"][0] == 1


def test_too_many_transactions_are_not_listed(monkeypatch):
    monkeypatch.setattr(tuning, "LISTED_ACTIONS", 2)
    store = MemoryStore()
    run(store, create())
    txns = tuple(SetTransaction(app_id=f"a{n}", version=1) for n in range(3))
    run(store, Transaction(operation="WRITE", txns=txns))
    assert "setTransactions" not in stored(store, 1)


def test_expired_transactions_are_dropped():
    store = MemoryStore()
    run(store, create(configuration={"delta.setTransactionRetentionDuration": "interval 1 days"}))
    old = SetTransaction(app_id="old", version=1, last_updated=NOW)
    new = SetTransaction(app_id="new", version=1)
    run(store, Transaction(operation="WRITE", txns=(old, new)))
    assert "old" not in {txn["appId"] for txn in stored(store, 1)["setTransactions"]}
    assert "new" in {txn["appId"] for txn in stored(store, 1)["setTransactions"]}


def test_the_checksum_equals_that_of_the_builder():
    store, builder = built()
    builder.commit("+a +b#dv !txn !domainMetadata").crc()
    theirs = orjson.loads(builder.read("00000000000000000000.crc"))
    ours = counted(store, 0)
    assert {name: ours[name] for name in theirs} == theirs
