"""Log compactions hold the reconciled actions of a range of commits."""

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
from tests.builders.strategies import histories
from tests.unit.checkpoint.checkpoint_cases import built, snapshot_of

CONFIG = Config()


def lines(store, result):
    return [orjson.loads(line) for line in bytes(store.read(result.path)).splitlines()]


def test_a_compaction_is_reconciled():
    store, builder = built()
    builder.commit("+a").commit("+b !txn").commit("-a +c !domainMetadata").commit("-b +b#v !txn")
    result = compact_log(store, CONFIG, 1, 3)
    kinds = [next(iter(line)) for line in lines(store, result)]
    assert sorted(kinds) == ["add", "add", "domainMetadata", "remove", "remove", "txn"]
    assert result.actions == len(kinds)
    assert result.path == "_delta_log/00000000000000000001.00000000000000000003.compacted.json"


def test_file_actions_are_copied_unchanged():
    """Unknown fields, nulls in maps, and integers beyond 2**53."""
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


def test_expired_tombstones_are_kept():
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
    removed = {"domainMetadata": {"domain": "d", "configuration": "", "removed": True}}
    builder.commit("+a !domainMetadata").commit(removed).commit("+b")
    compact_log(store, CONFIG, 1, 2)
    assert snapshot_of(store).domain_metadata() == {}


def live(store, **config):
    snapshot = snapshot_of(store, **config)
    with Scan(snapshot).file_batches() as batches:
        return {path for batch in batches for path in batch.column("path").to_pylist()}


@given(histories(others=False), st.data())
@settings(max_examples=40)
def test_scans_are_the_same_with_and_without_a_compaction(history, data):
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
def test_a_range_has_at_least_two_versions(first, last):
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


def test_an_unknown_action_is_refused():
    store, builder = built()
    builder.commit("+a").commit("+b !somethingNew").commit("+c")
    with pytest.raises(UnsupportedActionError, match="Compact the versions before it"):
        compact_log(store, CONFIG, 0, 2)


def test_an_unsupported_writer_feature_is_refused():
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["somethingNew"]}
    store, builder = built(protocol=protocol)
    builder.commit("+a").commit("+b")
    with pytest.raises(UnsupportedFeatureError, match="somethingNew"):
        compact_log(store, CONFIG, 0, 1)


def test_an_existing_compaction_is_not_rewritten():
    store, builder = built()
    builder.commit("+a").commit("+b").compact(0, 1)
    before = builder.read("00000000000000000000.00000000000000000001.compacted.json")
    assert compact_log(store, CONFIG, 0, 1).is_new is False
    assert builder.read("00000000000000000000.00000000000000000001.compacted.json") == before


def test_commits_without_actions_make_no_file():
    store, builder = built()
    builder.commit("+a").commit().commit()
    result = compact_log(store, CONFIG, 1, 2)
    assert (result.is_new, result.actions) == (False, 0)
    assert not [name for name in builder.names() if "compacted" in name]
