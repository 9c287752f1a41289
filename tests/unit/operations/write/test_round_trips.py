"""Round trips of appends to a remote store, and appends of handles whose snapshot is outdated."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
import time
from fnmatch import fnmatchcase

import pyarrow as pa
import pytest

import lazydelta as ld
from lazydelta import Config, Table
from lazydelta.errors import (
    SchemaMismatchError,
    StoreAccessError,
    StoreError,
    TransientStoreError,
)
from lazydelta.store import MemoryStore
from lazydelta.store.layers import cached_store
from lazydelta.transaction.background import flush

HINT = "_delta_log/_last_checkpoint"
CONFIG = Config(retry_base_seconds=0, retry_cap_seconds=0, commit_attempts=5)


class Remote:
    """A memory store without native files; calls that should overlap wait for each other.

    Each of `overlaps` is two calls: the first one ends after the second one has started.
    """

    def __init__(self, inner, overlaps=(), failures=()):
        self.inner = inner
        self.overlaps = [(first, second, threading.Event()) for first, second in overlaps]
        self.failures = dict(failures)
        self.calls = []
        self.latency = 0.0

    native_files = False
    root = "memory://bucket/table"

    def _begin(self, operation, path):
        call = f"{operation} {path}"
        self.calls.append(call)
        for pattern, error in self.failures.items():
            if fnmatchcase(call, pattern):
                raise error(path, "injected")  # a new one: its traceback would keep the store
        for _, second, started in self.overlaps:
            if fnmatchcase(call, second):
                started.set()
        for first, _, started in self.overlaps:
            if fnmatchcase(call, first):
                started.wait(10)
        time.sleep(self.latency)

    def list_from(self, directory, *, after=None):
        self._begin("list", directory)
        yield from self.inner.list_from(directory, after=after)

    def head(self, path):
        self._begin("head", path)
        return self.inner.head(path)

    def read(self, path):
        self._begin("read", path)
        return self.inner.read(path)

    def read_ranges(self, path, ranges):
        self._begin("read", path)
        return self.inner.read_ranges(path, ranges)

    def open_input(self, path, *, size=None):
        raise AssertionError("an object store reads ranges")

    def write(self, path, data, *, overwrite):
        self._begin("write", path)
        self.inner.write(path, data, overwrite=overwrite)

    def delete(self, paths):
        self.inner.delete(paths)


def opened(remote, config=CONFIG):
    """Return a table on a store, and the meter below its cache."""
    store = cached_store(
        remote, config, directory="_delta_log", mutable=(HINT,), unique="_delta_log/_sidecars"
    )
    return Table(store, config), store.inner


def table_with(versions, **properties):
    inner = MemoryStore()
    table, _ = opened(Remote(inner))
    for n in range(versions):
        table.write({"x": [n]}, properties=properties or None if n == 0 else None)
    return inner


def rows(inner):
    return sorted(Table(inner, CONFIG).to_arrow()["x"].to_pylist())


def warm(inner, overlaps=(), config=CONFIG, versions=1):
    """Return a handle that has written already, its store and its meter."""
    remote = Remote(inner)
    table, meter = opened(remote, config)
    for _ in range(versions + 1):  # the first write loads the table
        table.write({"x": [-1]})
    flush()
    remote.overlaps = [(first, second, threading.Event()) for first, second in overlaps]
    remote.calls.clear()
    meter.reset()
    return table, remote, meter


LISTING_BESIDE_DATA = ("list _delta_log", "write part-*")


def test_a_warm_append_takes_three_round_trips():
    inner = table_with(12)
    table, remote, meter = warm(inner, [LISTING_BESIDE_DATA])
    assert table.write({"x": [99]}).version == 14
    assert sorted(call.split("-")[0] for call in remote.calls) == [
        "list _delta_log",
        "write _delta_log/00000000000000000014.crc",
        "write _delta_log/00000000000000000014.json",
        "write part",
    ]
    assert meter.depth == 3
    assert rows(inner) == sorted([*range(12), -1, -1, 99])


def test_in_the_background_the_caller_waits_for_two():
    inner = table_with(12)
    config = Config(post_commit="background")
    answered = ("* *.crc", "answered *")
    table, remote, meter = warm(inner, [LISTING_BESIDE_DATA, answered], config)
    assert table.write({"x": [99]}).version == 14
    assert meter.depth == 2
    remote._begin("answered", "now")
    flush()
    assert ld.Table(inner, CONFIG).snapshot().num_files == 15


@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_an_append_with_a_checkpoint_takes_eight_round_trips(policy):
    inner = table_with(12, **{"delta.checkpointPolicy": policy})
    table, remote, meter = warm(inner, [LISTING_BESIDE_DATA], versions=7)
    remote.latency = 0.05  # requests that start together overlap
    assert table.write({"x": [99]}).warnings == ()
    assert any(call.startswith("write") and "20.checkpoint" in call for call in remote.calls)
    assert meter.depth <= 8
    assert meter.requests <= 14
    reads = [call for call in remote.calls if call.startswith("read")]
    assert not [call for call in reads if fnmatchcase(call, "*/[0-9]*[0-9].json")]
    assert opened(Remote(inner))[0].snapshot().segment.base_version == 20


def test_a_handle_replays_from_its_own_checkpoint():
    """The tail of a handle does not grow with every commit."""
    inner = table_with(12)
    table, _, _ = warm(inner, versions=30)
    assert len(table._latest.segment.commits) <= 10


# --- outdated handles -------------------------------------------------------------------------


def test_an_outdated_handle_follows_newer_commits():
    inner = table_with(3)
    table, _, _ = warm(inner)
    other, _ = opened(Remote(inner))
    other.write({"x": [7]})
    assert table.write({"x": [8]}).version == 6
    assert rows(inner) == [-1, -1, 0, 1, 2, 7, 8]


def test_an_outdated_handle_writes_a_column_that_another_writer_added():
    inner = table_with(3)
    table, _, _ = warm(inner)
    opened(Remote(inner))[0].alter.add_columns("y long")
    table.write({"x": [8]})
    table.write({"x": [9], "y": [1]})
    read = Table(inner, CONFIG).to_arrow()
    assert read.num_rows == 7
    assert sorted(filter(None, read["y"].to_pylist())) == [1]


def test_an_outdated_handle_obeys_a_constraint_that_another_writer_added():
    inner = table_with(3)
    table, _, _ = warm(inner)
    opened(Remote(inner))[0].alter.add_constraint("positive", "x < 100")
    before = set(inner._objects)
    with pytest.raises(ld.errors.ConstraintViolationError):
        table.write({"x": [500]})
    assert set(inner._objects) == before


def test_rows_that_the_table_refuses_leave_no_file():
    inner = table_with(3)
    table, _, _ = warm(inner)
    before = set(inner._objects)
    with pytest.raises(SchemaMismatchError):
        table.write({"z": ["?"]})
    assert set(inner._objects) == before


def test_no_version_is_written_between_cleaned_up_ones():
    """A put of the next version would succeed, and no reader would list it."""
    inner = table_with(3)
    table, _, _ = warm(inner)
    other, _ = opened(Remote(inner))
    for n in range(20):
        other.write({"x": [n]})
    inner.delete([f"_delta_log/{version:020d}.json" for version in range(15)])
    assert table.write({"x": [99]}).version == 25
    assert 99 in rows(inner)


@pytest.mark.parametrize("commits", [1, 5, 9])
def test_another_table_under_the_same_url_is_noticed(commits):
    inner = table_with(3)
    table, _, _ = warm(inner)
    inner.delete(list(inner._objects))
    for n in range(commits):
        opened(Remote(inner))[0].write({"y": [n]})
    with pytest.raises(SchemaMismatchError):
        table.write({"x": [8]})
    assert table.write({"y": [8]}).version == commits


def test_a_deleted_table_is_created_anew():
    inner = table_with(3)
    table, _, _ = warm(inner)
    inner.delete(list(inner._objects))
    assert table.write({"y": [8]}).version == 0


def test_a_stream_is_read_once():
    inner = table_with(3)
    table, _, _ = warm(inner)
    opened(Remote(inner))[0].alter.add_columns("y long")
    batches = pa.table({"x": [7, 8]}).to_reader(1)
    table.write(batches)
    assert rows(inner) == [-1, -1, 0, 1, 2, 7, 8]


# --- nothing is lost --------------------------------------------------------------------------


class Empty(Remote):
    """A store whose listings are empty: a proxy's error page with status 200."""

    def list_from(self, directory, *, after=None):
        self._begin("list", directory)
        return iter(())


@pytest.mark.parametrize("mode", ["append", "overwrite", "error", "ignore"])
@pytest.mark.parametrize("is_cleaned", [False, True])
def test_an_empty_listing_creates_no_table(mode, is_cleaned):
    inner = table_with(12)
    if is_cleaned:
        inner.delete([f"_delta_log/{version:020d}.json" for version in range(10)])
    before = set(inner._objects)
    with pytest.raises(StoreError, match="listing is empty"):
        opened(Empty(inner))[0].write({"x": [1]}, mode)
    assert set(inner._objects) == before


def test_an_empty_listing_does_not_fool_a_handle():
    inner = table_with(12)
    table, remote, _ = warm(inner)
    remote.list_from = Empty(inner).list_from
    inner.delete([f"_delta_log/{version:020d}.json" for version in range(10)])
    before = set(inner._objects)
    with pytest.raises(StoreError, match="listing is empty"):
        table.write({"x": [1]})
    assert set(inner._objects) == before


def test_an_empty_listing_creates_no_table_by_create(monkeypatch):
    inner = table_with(12)
    inner.delete([f"_delta_log/{version:020d}.json" for version in range(10)])
    monkeypatch.setattr(Table, "open", lambda *_, **__: opened(Empty(inner))[0])
    before = set(inner._objects)
    with pytest.raises(StoreError, match="listing is empty"):
        Table.create("memory://bucket/table", "x long")
    assert set(inner._objects) == before


def test_a_store_without_conditional_put_is_refused_at_once():
    inner = table_with(3)

    def error(path, _):
        return StoreError(path, "501: no conditional put. Use a store that supports it")

    remote = Remote(inner, failures={"write _delta_log/*.json": error})
    table, _ = opened(remote)
    with pytest.raises(StoreError, match="Use a store that supports it"):
        table.write({"x": [1]})
    assert len([call for call in remote.calls if call.startswith("write _delta_log")]) == 1


# --- post-commit hooks ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        "write *.crc",
        "read *.crc",
        "write *.checkpoint.parquet",
        "head *.checkpoint.parquet",
        "read *20.checkpoint.parquet",
        f"read {HINT}",
        f"write {HINT}",
    ],
)
@pytest.mark.parametrize("error", [StoreAccessError, TransientStoreError])
def test_hooks_never_fail_a_write(call, error):
    inner = table_with(12)
    table, remote, _ = warm(inner, versions=7)
    remote.failures = {call: error}
    result = table.write({"x": [99]})
    assert result.version == 20
    # The handle knows the checksum, and a hint that cannot be read is replaced.
    assert bool(result.warnings) == (call not in ("read *.crc", f"read {HINT}"))
    assert 99 in rows(inner)


_WRITER = """
import sys
import lazydelta as ld
table = ld.Table.open(sys.argv[1], config=ld.Config(post_commit="background"))
for n in range(11):
    table.write({"x": [n]})
"""


def test_background_hooks_end_before_the_interpreter(tmp_path):
    subprocess.run([sys.executable, "-c", textwrap.dedent(_WRITER), str(tmp_path)], check=True)
    names = sorted(path.name for path in (tmp_path / "_delta_log").iterdir())
    assert [name for name in names if name.endswith(".crc")] == [f"{v:020d}.crc" for v in range(11)]
    assert f"{10:020d}.checkpoint.parquet" in names
    assert "_last_checkpoint" in names


# --- races ------------------------------------------------------------------------------------


class NoChecksums(Remote):
    """A store to which the checksums of all writers are still under way."""

    def write(self, path, data, *, overwrite):
        if not path.endswith(".crc"):
            super().write(path, data, overwrite=overwrite)


def test_racing_writers_without_checksums_read_no_checkpoint_for_each_commit():
    inner, writers, each = table_with(12), 4, 10
    inner.delete([path for path in inner._objects if path.endswith(".crc")])
    stores = [NoChecksums(inner) for _ in range(writers)]

    def write(remote):
        table = Table(remote, Config())  # without a cache, which would hide repeated reads
        for _ in range(each):
            assert table.write({"x": [1]}).warnings == ()

    threads = [threading.Thread(target=write, args=(store,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(rows(inner)) == 12 + writers * each
    calls = [call for store in stores for call in store.calls]
    checkpoints = [call for call in calls if fnmatchcase(call, "read *.checkpoint.parquet")]
    # About 35, to load the table and to write four checkpoints; a replay per commit makes it 100.
    assert len(checkpoints) < 60
