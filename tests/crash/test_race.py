"""Concurrent writer processes, locally and on emulated object stores."""

from __future__ import annotations

import threading
import uuid
from dataclasses import replace
from itertools import chain

import pytest

from lazydelta import Config, Table, write
from lazydelta.errors import ObjectExistsError
from lazydelta.store import open_store
from lazydelta.store.layers.retrying_store import RetryingStore
from lazydelta.transaction import commit
from tests.crash import harness, verbs
from tests.crash.writer import ROWS
from tests.emulators import servers
from tests.emulators.conftest import azurite, emulator, moto, versitygw
from tests.unit.transaction.support import append, base_of, info_of, make_table, versions

__all__ = ["azurite", "emulator", "moto", "versitygw"]


def _processes(tmp_path, writers, each):
    url = harness.make_table(tmp_path)
    _check(url, _race(url, writers, each), writers, each)


def _race(url, writers, each, options=None):
    running = [
        harness.Writer(url, 1000 * number, each, options=options) for number in range(writers)
    ]
    return [one.finish() for one in running]


def _check(url, output, writers, each):
    """Check a local table after a race: nothing is lost, nothing is duplicated."""
    assert [one.returncode for one in output] == [0] * writers  # none failed
    harness.check_log(url)
    all_numbers = [number for one in output for number in one.acks]
    assert len(all_numbers) == writers * each
    acknowledged = [version for one in output for version in one.acks.values()]
    assert sorted(acknowledged) == list(range(1, writers * each + 1))
    last = harness.run(url, 900_000, 0)
    harness.check_rows(url, last.rows[-1], output)


def test_concurrent_appends(tmp_path):
    _processes(tmp_path, writers=4, each=5)


@pytest.mark.long
def test_concurrent_appends_long(tmp_path):
    _processes(tmp_path, writers=8, each=100)


def _racing_verbs(tmp_path, writers, each):
    """Delete, update and merge rows of the same files; each change is made exactly once."""
    url = verbs.make_table(tmp_path)
    firsts = [100 * number for number in range(writers)]
    running = [harness.Writer(url, first, each, "racing-verbs") for first in firsts]
    assert all(len(one.finish().acks) == each for one in running)
    harness.check_log(url)
    expected = verbs.FIRST
    for changes in chain.from_iterable(verbs.random_rows(first, each) for first in firsts):
        row, incremented, *merged = changes
        expected = verbs.after_merge(expected, [incremented], [row])
        expected = verbs.after_merge(expected, *merged)
    table = Table.open(url)
    assert verbs.rows_of(table) == expected
    assert table.version == verbs.FILES - 1 + 3 * writers * each
    assert table.check().ok
    verbs.check_feed(url)


def test_concurrent_deletes_updates_and_merges(tmp_path):
    _racing_verbs(tmp_path, writers=3, each=3)


@pytest.mark.long
def test_concurrent_deletes_updates_and_merges_long(tmp_path):
    _racing_verbs(tmp_path, writers=8, each=10)


# --- object stores ----------------------------------------------------------------------------


def _together(count, work):
    """Run `work(number)` in threads that start together; return their results."""
    start, found = threading.Barrier(count), [None] * count

    def one(number):
        start.wait()
        found[number] = work(number)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def _is_arbiter(store, rounds, writers=4):
    """Whether exactly one of several concurrent conditional puts succeeds."""
    for number in range(rounds):

        def claim(who, path=f"arbiter/{uuid.uuid4().hex}-{number}"):
            try:
                store.write(path, f"{who}".encode(), overwrite=False)
            except ObjectExistsError:
                return False
            return True  # also if another writer's object exists: the put must have failed

        if sum(_together(writers, claim)) != 1:
            return False
    return True


def _storm(emulator, writers, each, rounds):
    config = Config()
    store = RetryingStore(
        open_store(f"{emulator.url}/{uuid.uuid4().hex}", emulator.options), config
    )
    assert _is_arbiter(store, rounds), "the emulator itself lets two writers win: nothing is shown"
    make_table(store, config=config)
    base = base_of(store, config)

    def work(number):
        mine = [append(f"{number}-{step}") for step in range(each)]
        return [(one, commit(one, store=store, config=config, base=base)) for one in mine]

    done = [pair for pairs in _together(writers, work) for pair in pairs]
    assert versions(store) == list(range(writers * each + 1))
    for mine, result in done:
        assert info_of(store, result.version)["txnId"] == mine.txn_id
    assert len({result.version for _, result in done}) == writers * each


@pytest.mark.sample(3)
@pytest.mark.emulator
def test_object_stores(emulator):
    _storm(emulator, writers=4, each=3, rounds=10)


@pytest.mark.emulator
@pytest.mark.long
def test_object_stores_long(emulator):
    _storm(emulator, writers=8, each=25, rounds=200)


def _processes_on(emulator, tmp_path, writers, each):
    """Race in the store, then check a copy of the table in a local directory."""
    url, options = f"{emulator.url}/{uuid.uuid4().hex}", emulator.options
    store = open_store(url, options)
    assert _is_arbiter(store, 10, writers), "the emulator lets two writers win: nothing is shown"
    write(f"{url}/t", {"id": [-1] * ROWS}, properties=harness.PROPERTIES, storage_options=options)
    output = _race(f"{url}/t", writers, each, options)
    servers.download_table(f"{url}/t", options, tmp_path / "t")
    _check(str(tmp_path / "t"), output, writers, each)


@pytest.mark.sample(3)
@pytest.mark.emulator
def test_processes_on_object_stores(emulator, tmp_path):
    _processes_on(emulator, tmp_path, writers=8, each=5)


@pytest.mark.emulator
@pytest.mark.long
@pytest.mark.timeout(1800)
def test_processes_on_object_stores_long(emulator, tmp_path):
    _processes_on(emulator, tmp_path, writers=8, each=100)


def test_concurrent_creates(tmp_path):
    """Exactly one creator commits version 0; the others get an error that the table exists."""
    from lazydelta.errors import TableExistsError

    store = open_store(tmp_path)

    def create(number):
        try:
            make_table(store, config=replace(Config(), commit_attempts=5))
        except TableExistsError:
            return False
        return True

    assert sum(_together(6, create)) == 1
    assert versions(store) == [0]
