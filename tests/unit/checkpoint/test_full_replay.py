"""A full replay holds the whole state of a version, and refuses to be used incompletely."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from lazydelta import Table
from lazydelta._parallel import start_thread
from lazydelta.checkpoint.checkpoint_writer import checkpoint_from
from lazydelta.checkpoint.full_replay import FullReplay, full_replay
from lazydelta.errors import InternalError, LogCorruptError
from lazydelta.store import MemoryStore
from tests.builders import remove
from tests.builders.strategies import histories
from tests.unit.checkpoint.checkpoint_cases import NOW, built, expected_state, snapshot_of, state_of

DAY = 86_400_000


@given(histories())
@settings(max_examples=50)
def test_state_of_any_history(history):
    store = MemoryStore()
    builder = history.build(store)
    assert state_of(store) == expected_state(builder)


def test_a_scan_cannot_be_the_source(tmp_path):
    built(str(tmp_path))[1].commit("+a +b")
    table = Table.open(tmp_path)
    with pytest.raises(TypeError, match="needs a Snapshot, not a Scan"):
        full_replay(table.scan("id > 3"))
    with pytest.raises(TypeError, match="needs a Snapshot, not a Table"):
        full_replay(table)


def test_only_full_replay_creates_one():
    store, builder = built()
    builder.commit("+a")
    with pytest.raises(InternalError, match="only full_replay"):
        FullReplay(snapshot_of(store), NOW, _key=object())


def test_a_partly_read_replay_is_refused():
    store, builder = built()
    builder.commit("+a").checkpoint().commit("+b")
    with full_replay(snapshot_of(store)) as replay:
        next(iter(replay.adds()))
        with pytest.raises(InternalError, match="before all its files were read"):
            list(replay.removes())
        with pytest.raises(InternalError, match="before all its files were read"):
            replay.require_complete()


def test_a_replay_is_not_read_twice():
    """The second pass finds every key seen, so its counts differ."""
    store, builder = built()
    builder.commit("+a +b")
    with full_replay(snapshot_of(store)) as replay:
        list(replay.adds())
        with pytest.raises(InternalError):
            checkpoint_from(replay, start_thread(lambda: None))
    assert builder.names() == ["00000000000000000000.json"]


@pytest.mark.parametrize(
    ("configuration", "age", "kept"),
    [
        pytest.param({}, 6 * DAY, True, id="a-week-by-default"),
        pytest.param({}, 8 * DAY, False, id="expired-after-a-week"),
        pytest.param({"delta.deletedFileRetentionDuration": "interval 2 days"}, 3 * DAY, False, id="by-property"),
        pytest.param({"delta.deletedFileRetentionDuration": "interval 4 days"}, 3 * DAY, True, id="by-property-kept"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("in_checkpoint", [False, True])
def test_tombstones_expire(configuration, age, kept, in_checkpoint):
    store, builder = built(configuration=configuration)
    builder.commit("+a +b").commit(remove("a", deletionTimestamp=NOW - age))
    if in_checkpoint:
        builder.checkpoint()
    assert bool(state_of(store)["removes"]) is kept


def test_a_tombstone_without_a_timestamp_is_expired():
    store, builder = built()
    builder.commit("+a +b").commit({"remove": {"path": "a", "dataChange": True}})
    assert state_of(store)["removes"] == {}


def test_transactions_expire_only_by_table_property():
    configuration = {"delta.setTransactionRetentionDuration": "interval 1 days"}
    old = {"txn": {"appId": "old", "version": 1, "lastUpdated": NOW - 2 * DAY}}
    new = {"txn": {"appId": "new", "version": 1, "lastUpdated": NOW - DAY // 2}}
    timeless = {"txn": {"appId": "timeless", "version": 1}}
    for configured, expected in (
        (configuration, {"new", "timeless"}),
        ({}, {"old", "new", "timeless"}),
    ):
        store, builder = built(configuration=configured)
        builder.commit("+a", old, new, timeless)
        assert set(state_of(store)["txns"]) == expected


def test_every_field_of_a_tombstone_is_kept():
    store, builder = built()
    gone = {
        "path": "a",
        "deletionTimestamp": NOW,
        "dataChange": False,
        "extendedFileMetadata": True,
        "partitionValues": {"day": None},
        "size": 7,
        "tags": {"k": "v"},
        "baseRowId": 3,
        "defaultRowCommitVersion": 1,
    }
    builder.commit("+a").commit({"remove": gone})
    (found,) = state_of(store)["removes"].values()
    assert found == {name: value for name, value in gone.items() if name != "dataChange"}


def test_a_checksum_with_other_metadata_is_an_error():
    store, builder = built()
    builder.commit("+a")
    other = builder.metadata | {"name": "another"}
    builder.crc(metadata=other)
    with pytest.raises(
        LogCorruptError, match=r"\.crc.*differs from that of commits and checkpoint"
    ):
        full_replay(snapshot_of(store))
