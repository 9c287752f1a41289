from __future__ import annotations

import json

import pytest

from lazydelta import Config, Table
from lazydelta.errors import LogCorruptError, SchemaError
from lazydelta.metrics import SegmentListed
from lazydelta.store.layers.metered_store import MeteredStore
from tests.builders import TableBuilder
from tests.support import memory_store


def snapshot_of(store, version=None):
    return Table(store, Config()).snapshot(version)


@pytest.mark.parametrize("kind", ["classic", "multipart", "v2-json", "v2-parquet", "v2-classic"])
@pytest.mark.parametrize("changed_at", [0, 2, 4])
@pytest.mark.parametrize("checkpoint", [None, 1, 3, 5])
def test_the_newest_protocol_and_metadata_win(kind, changed_at, checkpoint):
    store = memory_store()
    table = TableBuilder(store)
    for version in range(6):
        changed = table.metadata | {"name": f"at {version}"}
        table.commit(*([{"metaData": changed}] if version == changed_at and version else []))
    if checkpoint is not None:
        table.checkpoint(kind, version=checkpoint).clean_up(checkpoint + 1)
    expected = f"at {changed_at}" if changed_at else None
    assert snapshot_of(store).metadata.name == expected


def test_a_checksum_saves_reading_the_checkpoint():
    store = memory_store()
    TableBuilder(store).commit("+a").checkpoint().commit("+b").crc()
    counted = MeteredStore(store)
    snapshot = snapshot_of(counted)
    assert snapshot.num_files == 2
    assert not [path for path in counted.bytes_by_path() if "checkpoint.parquet" in path]


def test_a_hint_with_v2_actions_saves_reading_the_checkpoint():
    store = memory_store()
    table = TableBuilder(store).commit("+a").checkpoint("v2-parquet")
    name = next(name for name in table.names() if ".checkpoint." in name)
    actions = [{"protocol": table.protocol}, {"metaData": table.metadata}]
    table.hint(0, v2Checkpoint={"path": name, "nonFileActions": actions})
    counted = MeteredStore(store)
    assert snapshot_of(counted).version == 0
    assert not [path for path in counted.bytes_by_path() if ".checkpoint." in path]


def test_transactions_and_domains_are_the_newest_of_each():
    store = memory_store()
    table = TableBuilder(store)
    table.commit({"txn": {"appId": "a", "version": 1}}, {"txn": {"appId": "b", "version": 5}})
    table.commit({"domainMetadata": {"domain": "x", "configuration": "1"}})
    table.checkpoint()
    table.commit(
        {"txn": {"appId": "a", "version": 2, "lastUpdated": 9}},
        {"domainMetadata": {"domain": "x", "configuration": "2"}},
        {"domainMetadata": {"domain": "delta.y", "configuration": "3"}},
    )
    snapshot = snapshot_of(store)
    assert {app: txn.version for app, txn in snapshot.transactions().items()} == {"a": 2, "b": 5}
    assert snapshot.transactions()["a"].last_updated == 9
    domains = snapshot.domain_metadata()
    assert {name: domain.configuration for name, domain in domains.items()} == {
        "x": "2",
        "delta.y": "3",
    }
    assert domains["delta.y"].is_system
    table.commit({"domainMetadata": {"domain": "x", "configuration": "", "removed": True}})
    assert list(snapshot_of(store).domain_metadata()) == ["delta.y"]


def _protocol(reader, writer, readers=None, writers=None):
    lists = {"readerFeatures": readers, "writerFeatures": writers}
    versions = {"minReaderVersion": reader, "minWriterVersion": writer}
    return versions | {name: given for name, given in lists.items() if given is not None}


_MAPPING = ["columnMapping"]
_UNSUPPORTED = "the protocol does not support columnMapping"


@pytest.mark.parametrize(
    ("protocol", "expected"),
    [
        (_protocol(1, 2), _UNSUPPORTED),
        (_protocol(1, 4), _UNSUPPORTED),
        (_protocol(1, 5), _UNSUPPORTED),
        (_protocol(1, 6), _UNSUPPORTED),
        (_protocol(2, 2), "name"),
        (_protocol(2, 5), "name"),
        (_protocol(2, 6), "name"),
        (_protocol(1, 7, None, []), _UNSUPPORTED),
        (_protocol(1, 7, None, _MAPPING), "columnMapping in writerFeatures, but readers"),
        (_protocol(2, 7, None, []), "name"),
        (_protocol(2, 7, None, _MAPPING), "name"),
        (_protocol(2, 7, [], _MAPPING), "name"),
        (_protocol(2, 7, None, ["appendOnly", "columnMapping", "invariants"]), "name"),
        (_protocol(2, 7, _MAPPING, _MAPPING), "readerFeatures but minReaderVersion 2"),
        (_protocol(3, 7, [], []), _UNSUPPORTED),
        (_protocol(3, 7, [], _MAPPING), "columnMapping in writerFeatures, but readers"),
        (_protocol(3, 7, _MAPPING, []), "columnMapping in readerFeatures, not in writerFeatures"),
        (_protocol(3, 7, _MAPPING, _MAPPING), "name"),
        (_protocol(3, 7, ["deletionVectors"], ["deletionVectors"]), _UNSUPPORTED),
    ],
    ids=json.dumps,
)
def test_columns_are_mapped_or_the_table_is_refused(protocol, expected):
    """Columns with physical names never read as null, whatever the protocol."""
    store = memory_store()
    TableBuilder(store, protocol=protocol, column_mapping="name").commit("+a")
    if expected == "name":
        assert snapshot_of(store).column_mapping_mode == "name"
        return
    with pytest.raises((SchemaError, LogCorruptError), match=expected):
        snapshot_of(store)


def test_a_mapping_mode_without_support_is_ignored_where_columns_have_no_physical_names():
    store = memory_store()
    mode = {"delta.columnMapping.mode": "name"}
    TableBuilder(store, protocol=_protocol(1, 2), configuration=mode).commit("+a")
    assert snapshot_of(store).column_mapping_mode == "none"


def test_partition_values_have_logical_names():
    store = memory_store()
    table = TableBuilder(
        store, schema={"id": "long", "day": "date"}, partition_by=["day"], column_mapping="name"
    )
    table.commit("+day=2026-01-01/a").checkpoint().commit("+day=2026-01-02/b")
    for strategy in ("reverse", "forward"):
        with snapshot_of(store).scan("day = '2026-01-02'", strategy=strategy).files() as files:
            (file,) = files
        assert file.raw_partition_values == {"day": "2026-01-02"}
        assert str(file.partition_values["day"]) == "2026-01-02"


def test_the_observer_receives_the_segment():
    store = memory_store()
    TableBuilder(store).commit("+a").checkpoint().commit("+b")
    events = []
    Table(store, Config(observer=events.append)).snapshot()
    (listed,) = [event for event in events if isinstance(event, SegmentListed)]
    assert (listed.version, listed.checkpoint_version, listed.commits) == (1, 0, 1)


def test_estimated_files():
    store = memory_store()
    table = TableBuilder(store).commit("+a +b").checkpoint()
    assert snapshot_of(store).num_files is None
    table.hint()
    assert snapshot_of(store).estimated_files() == 2
    table.crc()
    assert snapshot_of(store).num_files == 2
