from __future__ import annotations

import pytest

from lazydelta import Config, Table
from lazydelta.errors import RetentionGuardError, UnsupportedActionError
from lazydelta.metrics import FallbackTriggered
from tests.builders import TableBuilder
from tests.support import listed, memory_store


def run(*commits, **config):
    store = memory_store()
    table = TableBuilder(store)
    for line in commits:
        table.commit(line)
    events = []
    config = Config(observer=events.append, **config)
    scan = Table(store, config).scan(strategy="reverse")
    paths = sorted(listed(scan))
    return paths, [event for event in events if isinstance(event, FallbackTriggered)], scan


@pytest.mark.parametrize(
    "action", ["!txn", "!metaData", "!protocol", "!domainMetadata", "!cdc", "+b#v1"]
)
def test_strict_mode_falls_back_for_all_but_add_and_remove(action):
    _, (event,), scan = run("+a", f"+c {action}", "+d", tripwire="strict")
    assert event.version == 1
    assert event.action == ("deletionVector" if "#" in action else action[1:])
    assert scan.metrics["delta.lazy.fallback_triggered"] == 1


def test_commit_info_and_the_first_commit_never_trip():
    paths, events, scan = run("+a", "+b", tripwire="strict")
    assert paths == ["a", "b"]
    assert events == []
    assert scan.metrics["delta.lazy.commits_scanned"] == 2


@pytest.mark.parametrize(
    "action", ["!txn", "!metaData", "!protocol", "!domainMetadata", "!cdc", "+b#v1"]
)
def test_protocol_mode_accepts_known_actions(action):
    _, events, _ = run("+a", f"+c {action}", "+d")
    assert events == []


def test_an_unknown_action_falls_back_in_both_modes():
    for mode in ("protocol", "strict"):
        paths, (event,), _ = run("+a", "+c !newThing", "+d", tripwire=mode)
        assert (event.version, event.action) == (1, "unknown")
        assert paths == ["a", "c", "d"]


def test_without_fallback_the_error_has_version_and_action():
    with pytest.raises(UnsupportedActionError) as raised:
        run("+a", "+c !txn", "+d", tripwire="strict", enable_fallback=False)
    assert (raised.value.version, raised.value.action) == (1, "txn")


def test_the_retention_guard_may_refuse_a_base_version():
    base_versions = []

    def guard(base_version):
        base_versions.append(base_version)
        return False

    with pytest.raises(RetentionGuardError):
        run("+a", retention_guard=guard)
    assert base_versions == [-1]
