from __future__ import annotations

import pytest

from lazydelta import Config, Table
from lazydelta.errors import RetentionGuardError, UnsupportedActionError
from lazydelta.metrics import FallbackTriggered
from lazydelta.testing import TableBuilder
from tests.support import listed, memory_store


def run(*commits, **config):
    store = memory_store()
    table = TableBuilder(store)
    for line in commits:
        table.commit(line)
    events = []
    config = Config(observer=events.append, **config)
    scan = Table(store, config).scan(strategy="reverse")
    found = sorted(listed(scan))
    return found, [event for event in events if isinstance(event, FallbackTriggered)], scan


@pytest.mark.parametrize(
    "action", ["!txn", "!metaData", "!protocol", "!domainMetadata", "!cdc", "+b#v1"]
)
def test_TRIP_01_strict_mode_falls_back_for_all_but_add_and_remove(action):
    _, (event,), scan = run("+a", f"+c {action}", "+d", tripwire="strict")
    assert event.version == 1
    assert event.action == ("deletionVector" if "#" in action else action[1:])
    assert scan.metrics["delta.lazy.fallback_triggered"] == 1


def test_F8_commit_info_and_the_first_commit_never_trip():
    found, events, scan = run("+a", "+b", tripwire="strict")
    assert found == ["a", "b"]
    assert events == []
    assert scan.metrics["delta.lazy.commits_scanned"] == 2


@pytest.mark.parametrize(
    "action", ["!txn", "!metaData", "!protocol", "!domainMetadata", "!cdc", "+b#v1"]
)
def test_TRIP_10_the_protocol_aware_mode_passes_what_it_understands(action):
    _, events, _ = run("+a", f"+c {action}", "+d")
    assert events == []


def test_TRIP_09_an_unknown_action_falls_back_in_both_modes():
    for mode in ("protocol", "strict"):
        found, (event,), _ = run("+a", "+c !newThing", "+d", tripwire=mode)
        assert (event.version, event.action) == (1, "unknown")
        assert found == ["a", "c", "d"]


def test_TRIP_05_without_fallback_it_raises_with_version_and_action():
    with pytest.raises(UnsupportedActionError) as raised:
        run("+a", "+c !txn", "+d", tripwire="strict", enable_fallback=False)
    assert (raised.value.version, raised.value.action) == (1, "txn")


def test_SCAN_15_the_retention_guard_may_refuse_a_floor():
    floors = []

    def guard(floor):
        floors.append(floor)
        return False

    with pytest.raises(RetentionGuardError):
        run("+a", retention_guard=guard)
    assert floors == [-1]
