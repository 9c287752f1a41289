"""Compactions: what the commits of a range said, in one file that readers may take instead."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lazydelta import Config
from lazydelta.checkpoint.log_compaction import compact_log
from lazydelta.errors import (
    ConfigError,
    LogGapError,
    UnsupportedActionError,
    UnsupportedFeatureError,
)
from lazydelta.scan import Scan
from lazydelta.store import MemoryStore
from lazydelta.testing.strategies import histories
from tests.unit.checkpoint.checkpoint_cases import built, snapshot_of

CONFIG = Config()


def lines(store, result):
    return [orjson.loads(line) for line in bytes(store.read(result.path)).splitlines()]


def test_it_has_one_action_for_each_thing():
    store, builder = built()
    builder.commit("+a").commit("+b !txn").commit("-a +c !domainMetadata").commit("-b +b#v !txn")
    result = compact_log(store, CONFIG, 1, 3)
    kinds = [next(iter(line)) for line in lines(store, result)]
    assert sorted(kinds) == ["add", "add", "domainMetadata", "remove", "remove", "txn"]
    assert result.actions == len(kinds)
    assert result.path == "_delta_log/00000000000000000001.00000000000000000003.compacted.json"


def test_actions_are_kept_to_the_letter():
    """Fields that no version of this engine knows, nulls in maps, and numbers past 2**53."""
    store, builder = built()
    odd = {
        "path": "x%20y",
        "partitionValues": {"p": None},
        "size": 2**60 + 1,
        "modificationTime": 1,
        "dataChange": True,
        "new": {"deep": [1.50]},
    }
    builder.commit("+a").commit({"add": odd}).commit("+b")
    assert {"add": odd} in lines(store, compact_log(store, CONFIG, 1, 2))


def test_tombstones_stay_however_old_they_are():
    store, builder = built()
    builder.commit("+a").commit(
        {"remove": {"path": "a", "deletionTimestamp": 1, "dataChange": True}}
    ).commit("+b")
    compact_log(store, CONFIG, 1, 2)
    with_compaction = snapshot_of(store)
    assert len(with_compaction.segment.tail) == 2
    assert live(store) == {"b"}


def test_a_removed_domain_stays_removed():
    store, builder = built()
    gone = {"domainMetadata": {"domain": "d", "configuration": "", "removed": True}}
    builder.commit("+a !domainMetadata").commit(gone).commit("+b")
    compact_log(store, CONFIG, 1, 2)
    assert snapshot_of(store).domain_metadata() == {}


def live(store, **config):
    snapshot = snapshot_of(store, **config)
    with Scan(snapshot).file_batches() as batches:
        return {path for batch in batches for path in batch.column("path").to_pylist()}


@given(histories(others=False), st.data())
@settings(max_examples=40)
def test_readers_find_the_same_through_it(history, data):
    store = MemoryStore()
    builder = history.build(store)
    first = 0
    if history.layout.cleaned_up and history.layout.checkpoints:
        first = min(version for version, *_ in history.layout.checkpoints)
    if builder.version - first < 1:
        return
    start = data.draw(st.integers(first, builder.version - 1))
    end = data.draw(st.integers(start + 1, builder.version))
    before = live(store, use_log_compaction=False)
    result = compact_log(store, CONFIG, start, end)
    expected = builder.state(end)
    if start == 0:
        kept = {line["add"]["path"] for line in lines(store, result) if "add" in line}
        assert kept == {path for path, _ in expected.adds}
    assert live(store) == before == {path for path, _ in builder.live()}


@pytest.mark.parametrize(("first", "last"), [(1, 1), (2, 1), (-1, 1)])
def test_a_range_is_two_versions_at_least(first, last):
    store, builder = built()
    builder.commit("+a").commit("+b")
    with pytest.raises(ConfigError, match="at least two versions"):
        compact_log(store, CONFIG, first, last)


def test_a_missing_commit_is_named():
    store, builder = built()
    builder.commit("+a").commit("+b").checkpoint().commit("+c")
    builder.delete("00000000000000000000.json")
    with pytest.raises(LogGapError):
        compact_log(store, CONFIG, 0, 2)


def test_an_action_that_nobody_knows_is_not_thrown_away():
    store, builder = built()
    builder.commit("+a").commit("+b !somethingNew").commit("+c")
    with pytest.raises(UnsupportedActionError, match="Compact the versions before it"):
        compact_log(store, CONFIG, 0, 2)


def test_a_table_that_we_may_not_write_is_left_alone():
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["somethingNew"]}
    store, builder = built(protocol=protocol)
    builder.commit("+a").commit("+b")
    with pytest.raises(UnsupportedFeatureError, match="somethingNew"):
        compact_log(store, CONFIG, 0, 1)


def test_one_that_is_there_stays():
    store, builder = built()
    builder.commit("+a").commit("+b").compact(0, 1)
    before = builder.read("00000000000000000000.00000000000000000001.compacted.json")
    assert compact_log(store, CONFIG, 0, 1).is_new is False
    assert builder.read("00000000000000000000.00000000000000000001.compacted.json") == before


def test_commits_that_say_nothing_make_no_file():
    store, builder = built()
    builder.commit("+a").commit().commit()
    result = compact_log(store, CONFIG, 1, 2)
    assert (result.is_new, result.actions) == (False, 0)
    assert not [name for name in builder.names() if "compacted" in name]
