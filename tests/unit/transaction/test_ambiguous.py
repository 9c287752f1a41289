"""Puts with an unknown outcome: never applied twice, never mistaken for another writer's."""

from __future__ import annotations

import threading
from itertools import product

import pytest

from lazydelta.config import Config
from lazydelta.errors import (
    CommitAttemptsError,
    CommitUnknownError,
    ConcurrentDeleteReadError,
    LogCorruptError,
    MetadataChangedError,
    StoreAccessError,
    TransientStoreError,
    VersionCleanedUpError,
)
from lazydelta.testing import Fault, FaultyStore, RandomFaults
from lazydelta.transaction import Transaction, commit, resolve_commit
from lazydelta.transaction.retry import Clock
from tests.unit.transaction.matrix import MINE, WIDER, WINNERS
from tests.unit.transaction.support import (
    CONFIG,
    FakeClock,
    append,
    base_of,
    commit_path,
    info_of,
    make_table,
    put,
    txn_ids,
    versions,
)

_PUT = commit_path(1)
FAULTS = {
    "fails-before": [Fault(operation="write", kind="before", path=_PUT)],
    "effect-then-5xx": [Fault(operation="write", kind="after", path=_PUT)],
    "effect-then-resets": [
        Fault(operation="write", kind="after", path=_PUT, nth=1),
        Fault(operation="write", kind="before", path=_PUT, nth=2),
        Fault(operation="read", kind="before", path=_PUT),
    ],
    "effect-then-hangs": [Fault(operation="write", kind="after", path=_PUT, seconds=1e6)],
    "409": [Fault(operation="write", kind="exists", path=_PUT)],
    "412-own": [
        Fault(operation="write", kind="after", path=_PUT, nth=1),
        Fault(operation="write", kind="exists", path=_PUT, nth=2),
    ],
    "412-foreign": [],
    "lands-late": [Fault(operation="write", kind="late", path=_PUT)],
}
# An operation, and a rival that it rebases over or conflicts with.
OPERATIONS = {
    "append": (append(), WINNERS["add-a"], None),
    "delete": (MINE["delete-a"], WINNERS["rm-a"], ConcurrentDeleteReadError),
    "alter": (
        Transaction(operation="ALTER", metadata=WIDER),
        WINNERS["alter"],
        MetadataChangedError,
    ),
}


@pytest.mark.parametrize("rival", [False, True], ids=["alone", "with-a-rival"])
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("fault", FAULTS)
def test_scripted(fault, operation, rival):
    clock = FakeClock()
    inner = make_table()
    base = base_of(inner)
    store = FaultyStore(inner, FAULTS[fault], sleep=clock.sleep)
    mine, (blind, actions), conflict = OPERATIONS[operation]
    if rival:
        put(inner, 1, *actions, blind=blind, txnId="the rival's")

    def attempt():
        return commit(
            mine,
            store=store,
            config=CONFIG,
            base=base,
            clock=Clock(sleep=clock.sleep, monotonic=clock.monotonic),
        )

    if fault == "effect-then-hangs":
        with pytest.raises(CommitUnknownError) as raised:
            attempt()
        assert (raised.value.version, raised.value.txn_id) == (1, mine.txn_id)
        resolved = resolve_commit(inner, mine.txn_id, 1)
        assert resolved == ("lost" if rival else "committed")
    elif rival and conflict:
        with pytest.raises(conflict):
            attempt()
    else:
        assert attempt().version == (2 if rival else 1)
    applied = txn_ids(inner).count(mine.txn_id)
    gone = rival and (conflict or fault == "effect-then-hangs")
    assert applied == (0 if gone else 1)
    wanted = {kind for each in FAULTS[fault] for kind in [each.kind]}
    assert wanted <= set(store.injected) or fault in {"effect-then-resets", "412-own"}


def test_there_are_48_scripted_cases():
    assert len(list(product(FAULTS, OPERATIONS, [False, True]))) == 48


def test_an_unknown_outcome_is_settled_by_committing_the_same_transaction_again():
    inner, clock, mine = make_table(), FakeClock(), append()
    base = base_of(inner)
    store = FaultyStore(
        inner, [Fault(operation="write", kind="after", path=_PUT, seconds=1e6)], sleep=clock.sleep
    )
    with pytest.raises(CommitUnknownError):
        commit(mine, store=store, config=CONFIG, base=base, clock=Clock(monotonic=clock.monotonic))
    put(inner, 2, *WINNERS["add-b"][1], blind=True)
    first = commit(mine, store=inner, config=CONFIG, base=base)
    assert first.version == 1
    assert txn_ids(inner).count(mine.txn_id) == 1


def test_a_store_that_only_fails_ends_the_commit_at_the_deadline_of_a_request():
    clock, inner = FakeClock(), make_table()
    busy = [Fault(operation="write", kind="before", path=_PUT, nth=n) for n in range(1, 500)]
    config = Config(commit_attempts=500, request_deadline_seconds=60, commit_seconds=300)
    with pytest.raises(CommitUnknownError):
        commit(
            append(),
            store=FaultyStore(inner, busy, sleep=clock.sleep),
            config=config,
            base=base_of(inner),
            clock=Clock(sleep=clock.sleep, monotonic=clock.monotonic),
        )
    assert clock.monotonic() <= 60 + config.retry_cap_seconds


def test_an_unresolved_version_is_open_until_it_is_committed():
    inner, mine = make_table(), append()
    assert resolve_commit(inner, mine.txn_id, 1) == "open"
    put(inner, 1, txnId="another's")
    assert resolve_commit(inner, mine.txn_id, 1) == "lost"


def test_a_store_error_is_raised_when_no_put_is_unresolved():
    class Refusing(FaultyStore):
        def write(self, path, data, *, overwrite):
            raise StoreAccessError(path, "403")

    inner = make_table()
    with pytest.raises(StoreAccessError):
        commit(append(), store=Refusing(inner), config=CONFIG, base=base_of(inner))
    assert versions(inner) == [0]


def test_a_store_error_after_a_lost_response_is_unknown():
    class RefusingLater(FaultyStore):
        puts = 0

        def write(self, path, data, *, overwrite):
            self.puts += 1
            if self.puts == 1:
                self.inner.write(path, data, overwrite=overwrite)
                raise TransientStoreError(path, "reset")
            raise StoreAccessError(path, "403: the token has expired")

    inner, mine = make_table(), append()
    with pytest.raises(CommitUnknownError, match="token has expired"):
        commit(mine, store=RefusingLater(inner), config=CONFIG, base=base_of(inner))
    assert resolve_commit(inner, mine.txn_id, 1) == "committed"


def test_the_same_bytes_are_put_until_the_version_is_seen():
    class Recording(FaultyStore):
        def write(self, path, data, *, overwrite):
            puts.append((path, bytes(data)))
            super().write(path, data, overwrite=overwrite)

    puts: list = []
    inner = make_table()
    faults = [Fault(operation="write", kind="before", nth=n) for n in (1, 2, 3)]
    result = commit(append(), store=Recording(inner, faults), config=CONFIG, base=base_of(inner))
    assert result.attempts == len(puts) == 4
    assert len(set(puts)) == 1


def test_too_many_conflicts_are_a_typed_error():
    from dataclasses import replace

    store = make_table()
    base = base_of(store)
    config = replace(CONFIG, commit_attempts=3)
    clock = FakeClock()

    def observer(phase, version):
        if phase == "prepared":
            put(store, version, *WINNERS["add-b"][1], blind=True)

    with pytest.raises(CommitAttemptsError) as raised:
        commit(
            append(),
            store=store,
            config=config,
            base=base,
            observer=observer,
            clock=Clock(sleep=clock.sleep, monotonic=clock.monotonic),
        )
    assert (raised.value.attempts, raised.value.last_version) == (3, 3)
    assert versions(store) == [0, 1, 2, 3]


def test_a_torn_winner_is_read_again():
    inner = make_table()
    base = base_of(inner)
    put(inner, 1, *WINNERS["add-b"][1], blind=True)
    store = FaultyStore(inner, [Fault(operation="read", kind="torn", path=_PUT)])
    assert commit(append(), store=store, config=CONFIG, base=base).version == 2
    assert store.injected["torn"] == 1


def test_a_winner_that_stays_broken_is_an_error_that_names_it():
    inner = make_table()
    base = base_of(inner)
    inner.write(_PUT, b'{"commitInfo":', overwrite=False)
    with pytest.raises(LogCorruptError) as raised:
        commit(append(), store=inner, config=CONFIG, base=base)
    assert raised.value.file == _PUT


@pytest.mark.parametrize("kind", ["stale", "twice"])
def test_stale_listings(kind):
    inner = make_table()
    base = base_of(inner)
    for version in (1, 2, 3):
        put(inner, version, *WINNERS["add-b"][1], blind=True)
    store = FaultyStore(inner, [Fault(operation="list", kind=kind)])
    assert commit(append(), store=store, config=CONFIG, base=base).version == 4
    assert store.injected[kind] == 1


def test_a_base_that_was_cleaned_up_behind_is_refused_before_anything_is_put():
    store = make_table()
    base = base_of(store)
    for version in (1, 2, 3):
        put(store, version, *WINNERS["add-b"][1], blind=True)
    store.delete([commit_path(1), commit_path(2)])
    old = FakeClock(now_ms=base.segment.commits[-1].modified_ms + 3_600_000)
    with pytest.raises(VersionCleanedUpError):
        commit(append(), store=store, config=CONFIG, base=base, clock=Clock(now_ms=old.now_ms))


def _storm(store, writers, each, config=CONFIG):
    """Append from several threads; returns the transactions and their outcomes."""
    results: list = []

    def work():
        for _ in range(each):
            mine = append(f"{threading.get_ident()}-{len(results)}-{id(object())}")
            results.append((mine, commit(mine, store=store, config=config, base=base)))

    base = base_of(store.inner)
    threads = [threading.Thread(target=work) for _ in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def _check_storm(inner, results, expected):
    assert len(results) == expected  # no false failure
    assert versions(inner) == list(range(expected + 1))
    by_version = {result.version: mine.txn_id for mine, result in results}
    assert len(by_version) == expected
    for version, txn_id in by_version.items():
        assert info_of(inner, version)["txnId"] == txn_id


@pytest.mark.parametrize("seed", range(6))
def test_random_faults_lose_and_duplicate_nothing(seed):
    inner = make_table()
    faults = RandomFaults(seed=seed, before=0.1, after=0.1, stale=0.1, twice=0.1)
    store = FaultyStore(inner, random_faults=faults)
    _check_storm(inner, _storm(store, writers=3, each=5), expected=15)
    assert store.injected["before"]


@pytest.mark.long
@pytest.mark.parametrize("seed", range(200))
def test_random_faults_at_length(seed):
    inner = make_table()
    faults = RandomFaults(seed=seed, before=0.1, after=0.1, stale=0.1, twice=0.1)
    _check_storm(inner, _storm(FaultyStore(inner, random_faults=faults), 4, 12), expected=48)
