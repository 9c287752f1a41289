"""Commit attempts: requests, phases, retries and post-commit hooks."""

from __future__ import annotations

import pytest

from lazydelta.protocol.features import with_features
from lazydelta.scan import Scan
from lazydelta.snapshot import load_snapshot
from lazydelta.store import open_store
from lazydelta.store.layers.metered_store import MeteredStore
from lazydelta.transaction import commit
from lazydelta.transaction.retry import Clock
from tests.unit.transaction.support import (
    CONFIG,
    PROTOCOL,
    add,
    append,
    base_of,
    make_table,
    put,
    run,
)

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


def test_an_old_base_is_refreshed_before_the_put():
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
    store = make_table(protocol=with_features(PROTOCOL, ["rowTracking"]))
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
    with Scan(snapshot).file_batches() as batches:
        return [batch.column("path").to_pylist() for batch in batches]


def test_the_observer_receives_phases_in_order():
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
