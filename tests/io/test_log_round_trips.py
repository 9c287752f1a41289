"""Round trips to the log of a remote table: dependency depth, and what optional objects cost.

`RoundTripStore` answers the requests that are sent together at once, and counts the rounds.
"""

from __future__ import annotations

import threading

import pytest

from lazydelta import Config, Table
from lazydelta.errors import (
    LogCorruptError,
    ObjectNotFoundError,
    StoreAccessError,
    StoreError,
    TransientStoreError,
)
from lazydelta.log import LOG_DIRECTORY
from lazydelta.log import tuning as log_tuning
from lazydelta.store.layers import cached_store
from tests.builders import TableBuilder, add
from tests.support import RoundTripStore, listed

HINT = f"{LOG_DIRECTORY}/_last_checkpoint"


class Remote(RoundTripStore):
    """A remote store whose reads can be made to fail, and whose listing can be empty."""

    def __init__(self):
        super().__init__()
        self.errors = {}

    def list_from(self, directory, *, after=None):
        pages = super().list_from(directory, after=after)
        return iter(()) if "list" in self.errors else pages

    def read(self, path):
        data = super().read(path)
        error = self.errors.get(path)
        if isinstance(error, list):
            error = error.pop() if error else None
        if error is not None:
            raise error
        return data


def opened(build):
    """Return a handle on a remote table, its store and the meter."""
    remote = Remote()
    remote.is_remote = False
    build(TableBuilder(remote, schema={"id": "long"}))
    return handle(remote)


def handle(remote):
    remote.is_remote = True
    config = Config(retry_base_seconds=0.001)
    store = cached_store(
        remote,
        config,
        directory=LOG_DIRECTORY,
        mutable=(HINT,),
        unique=f"{LOG_DIRECTORY}/_sidecars",
    )
    return Table(store, config), remote, store.inner


def with_checkpoint(table):
    table.commit(*(add(f"{n:04d}", stats={"numRecords": 10}) for n in range(200)))
    table.checkpoint(version=0, row_group_rows=20).hint(0)
    return table


def with_tail(table):
    with_checkpoint(table)
    for number in range(30):
        table.commit(f"+new{number}")
    return table


@pytest.mark.parametrize("build", [with_checkpoint, with_tail, lambda t: with_tail(t).crc()])
def test_all_files_take_two_round_trips_of_a_small_log(build):
    table, remote, meter = opened(build)
    assert len(listed(table.scan())) >= 200
    assert remote.round_trips == meter.depth == 2


def test_the_first_file_of_a_large_checkpoint_takes_three_round_trips(monkeypatch):
    monkeypatch.setattr("lazydelta.parquet.footer.file_footer.WHOLE_FILE_BYTES", 0)

    def build(table):
        table.commit(*(add(f"{n:04d}-" + "x" * 90, stats={"id": n}) for n in range(4000)))
        table.checkpoint(version=0, row_group_rows=1000).hint(0)

    table, _, meter = opened(build)
    assert len(listed(table.scan(), limit=1)) == 1
    assert meter.depth == 3


def test_sidecars_are_opened_side_by_side():
    def build(table):
        table.commit(*(add(f"{n:04d}") for n in range(100)))
        table.checkpoint(version=0, kind="v2-parquet", parts=10).hint(0)

    table, _, meter = opened(build)
    assert len(listed(table.scan())) == 100
    assert meter.depth <= 4


def test_a_second_snapshot_lists_only_what_is_newer():
    built = []
    table, _, meter = opened(lambda builder: built.append(with_tail(builder)))
    first = table.snapshot()
    meter.reset()
    assert table.snapshot().segment == first.segment
    assert meter.requests_by_operation() == {"list": 1}
    built[0].commit("+newer")
    meter.reset()
    assert "newer" in listed(table.scan())
    assert table.version == first.version + 1
    commits = [path for path in meter.bytes_by_path() if path.endswith(".json")]
    assert commits == [f"{LOG_DIRECTORY}/{first.version + 1:020d}.json"]


def test_a_table_that_was_replaced_is_listed_again():
    table, remote, _ = opened(with_tail)
    table.snapshot()
    remote.is_remote = False
    remote.delete(list(remote._objects))
    TableBuilder(remote, schema={"other": "string"}).commit("+a")
    assert table.snapshot().schema.names == ("other",)


@pytest.mark.parametrize("error", [StoreAccessError("hint", "403"), StoreError("hint", "500")])
def test_hint_and_checksum_that_cannot_be_read_are_ignored(error):
    _, remote, _ = opened(lambda table: with_tail(table).crc())
    expected = listed(handle(remote)[0].scan())
    checksum = next(path for path in remote._objects if path.endswith(".crc"))
    remote.errors = {HINT: error, checksum: error}
    assert listed(handle(remote)[0].scan()) == expected


@pytest.mark.parametrize(
    "hint",
    [
        pytest.param(None, id="valid"),
        pytest.param(StoreAccessError("hint", "403"), id="denied"),
        pytest.param(TransientStoreError("hint", "reset"), id="failing"),
    ],
)
def test_an_empty_listing_beside_a_hint_is_not_a_missing_table(hint):
    table, remote, _ = opened(with_checkpoint)
    remote.errors = {"list": True, HINT: hint}
    with pytest.raises(StoreError, match="listing is empty"):
        table.snapshot()


def test_an_empty_listing_beside_an_invalid_hint_is_not_a_missing_table():
    table, remote, _ = opened(with_checkpoint)
    remote.write(HINT, b"<html>", overwrite=True)
    remote.errors = {"list": True}
    with pytest.raises(StoreError, match="listing is empty"):
        table.snapshot()


def test_a_checksum_that_another_thread_waits_for_is_ignored_after_a_while(monkeypatch):
    _, remote, _ = opened(lambda table: with_tail(table).crc())
    checksum = next(path for path in remote._objects if path.endswith(".crc"))
    answer, read = threading.Event(), remote.read

    def read_late(path):
        if path == checksum:
            answer.wait()
        return read(path)

    remote.read = read_late
    monkeypatch.setattr(log_tuning, "OPTIONAL_SECONDS", 0.01)
    try:
        assert "new29" in listed(handle(remote)[0].scan())
    finally:
        answer.set()


def test_a_listed_commit_that_is_missing_once_is_read_again():
    table, remote, _ = opened(with_tail)
    path = f"{LOG_DIRECTORY}/{30:020d}.json"
    remote.errors = {path: [ObjectNotFoundError(path, "404")]}
    assert "new29" in listed(table.scan())
    remote.errors = {path: ObjectNotFoundError(path, "404")}
    with pytest.raises(LogCorruptError, match="listed but does not exist"):
        handle(remote)[0].snapshot()


def test_explain_has_requests_bytes_and_depth():
    table, _, _ = opened(with_tail)
    scan = table.scan()
    listed(scan)
    requests = scan.explain()["store"]
    assert set(requests) == {"requests", "bytes", "dependency_depth"}
    assert requests["dependency_depth"] <= 1
