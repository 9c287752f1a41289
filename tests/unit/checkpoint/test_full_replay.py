"""A full replay is everything or nothing: what it holds, and what cannot pass for one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from lazydelta import Table
from lazydelta.checkpoint.checkpoint_writer import checkpoint_from
from lazydelta.checkpoint.full_replay import FullReplay, full_replay
from lazydelta.errors import InternalError, LogCorruptError
from lazydelta.store import MemoryStore
from lazydelta.testing import remove
from lazydelta.testing.strategies import histories
from tests.unit.checkpoint.checkpoint_cases import NOW, built, expected_state, snapshot_of, state_of

DAY = 86_400_000


@given(histories())
@settings(max_examples=50)
def test_it_holds_what_the_protocol_says(history):
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


def test_nobody_else_can_make_one():
    store, builder = built()
    builder.commit("+a")
    with pytest.raises(InternalError, match="full_replay alone"):
        FullReplay(snapshot_of(store), NOW, _key=object())


def test_a_replay_that_was_read_in_part_is_no_source():
    store, builder = built()
    builder.commit("+a").checkpoint().commit("+b")
    with full_replay(snapshot_of(store)) as replay:
        next(iter(replay.adds()))
        with pytest.raises(InternalError, match="before all its files were read"):
            list(replay.removes())
        with pytest.raises(InternalError, match="before all its files were read"):
            replay.require_complete()


def test_a_replay_is_not_read_twice_into_one_checkpoint():
    """The second reading finds every key seen, so its counts cannot agree."""
    store, builder = built()
    builder.commit("+a +b")
    with full_replay(snapshot_of(store)) as replay:
        list(replay.adds())
        with pytest.raises(InternalError):
            checkpoint_from(replay)
    assert builder.names() == ["00000000000000000000.json"]


@pytest.mark.parametrize(
    ("configuration", "age", "kept"),
    [
        pytest.param({}, 6 * DAY, True, id="a-week-by-default"),
        pytest.param({}, 8 * DAY, False, id="after-a-week-it-has-expired"),
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


def test_a_tombstone_without_a_time_is_as_old_as_can_be():
    store, builder = built()
    builder.commit("+a +b").commit({"remove": {"path": "a", "dataChange": True}})
    assert state_of(store)["removes"] == {}


def test_transactions_are_forgotten_only_where_the_table_says_so():
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


def test_every_field_of_a_tombstone_is_there():
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


def test_a_checksum_that_lies_about_the_schema_is_not_believed():
    store, builder = built()
    builder.commit("+a")
    other = builder.metadata | {"name": "another"}
    builder.crc(metadata=other)
    with pytest.raises(LogCorruptError, match=r"\.crc.*not what commits and checkpoint say"):
        full_replay(snapshot_of(store))
