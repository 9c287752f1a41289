"""Resources of scans that are closed early, stalled or very large."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time

import pytest

from lazydelta import Config, Table
from lazydelta._stream import Stream
from lazydelta.errors import LogCorruptError
from lazydelta.store.layers.metered_store import MeteredStore
from tests.builders import TableBuilder
from tests.support import listed, memory_store

FILES = 2000


def built(*, local=True, tail=0):
    store = memory_store(local=local)
    table = TableBuilder(store)
    table.commit(" ".join(f"+f{number:05d}" for number in range(FILES)))
    table.checkpoint(row_group_rows=50)
    for number in range(tail):
        table.commit(f"+t{number:03d}")
    return MeteredStore(store)


def engine_threads():
    """Return the threads of scans; the event loop of requests stays, one for each process."""
    names = [t for t in threading.enumerate() if t.name.startswith("lazydelta-")]
    return [thread for thread in names if thread.name != "lazydelta-requests"]


def until(condition, seconds=5.0):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.005)
    return condition()


@pytest.mark.parametrize("local", [True, False])
@pytest.mark.parametrize("strategy", ["reverse", "forward"])
def test_closing_a_scan_stops_threads_and_reads(local, strategy):
    store = built(local=local, tail=50)
    config = Config(batch_rows=10, prefetch_batches=1, checkpoint_row_groups_per_batch=1)
    files = Table(store, config).scan(strategy=strategy).files()
    next(files)
    files.close()
    assert not engine_threads()
    after = store.requests
    time.sleep(0.05)
    assert store.requests == after
    assert list(files) == []


def test_leaving_a_with_block_stops_the_threads():
    store = built()
    with Table(store, Config(batch_rows=10)).scan().file_batches() as batches:
        for _ in batches:
            break
        assert engine_threads()
    assert not engine_threads()


def test_a_garbage_collected_iterator_stops_its_threads():
    store = built()
    files = Table(store, Config(batch_rows=10)).scan().files()
    next(files)
    del files
    assert until(lambda: not engine_threads())


def test_a_stalled_consumer_buffers_few_batches():
    store = built()
    config = Config(batch_rows=50, prefetch_batches=1, checkpoint_row_groups_per_batch=1)
    scan = Table(store, config).scan(strategy="forward")
    found = []
    with scan.file_batches() as batches:
        found += next(batches).column("path").to_pylist()
        quiet = store.requests
        until(lambda: False, 0.3)
        settled = store.requests
        until(lambda: False, 0.3)
        assert store.requests == settled, "it reads on for a stalled consumer"
        assert scan.explain()["checkpoint"]["row_groups_read"] < 20
        assert quiet <= settled
        for batch in batches:
            found += batch.column("path").to_pylist()
    assert sorted(found) == [f"f{number:05d}" for number in range(FILES)]


def test_a_background_error_is_raised_in_order():
    store = memory_store()
    table = TableBuilder(store).commit("+a").commit("+b").commit("+c")
    table.write(f"{1:020d}.json", b"oops\n")
    # The newest commit has the metadata, so that only the scan reads the corrupt file.
    table.write(
        f"{2:020d}.json", table.read(f"{0:020d}.json").replace(b'"path":"a"', b'"path":"c"')
    )
    files = Table(store, Config(reverse_window_commits=1)).scan(strategy="reverse").files()
    assert next(files).path == "c"
    with pytest.raises(LogCorruptError):
        next(files)
    assert not engine_threads()


def test_async_iteration_of_files():
    async def collect():
        return [file.path async for file in Table(built(), Config()).scan().files(limit=7)]

    assert len(asyncio.run(collect())) == 7
    assert not engine_threads()


def test_the_event_loop_is_not_blocked_and_closing_stops_the_work():
    async def first():
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        ticker = asyncio.create_task(tick())
        stream = Table(built(), Config(batch_rows=10)).scan().files()
        async for file in stream:
            found = file.path
            break
        await asyncio.to_thread(stream.close)
        ticker.cancel()
        return found, ticks

    found, ticks = asyncio.run(first())
    assert found.startswith("f")
    assert ticks > 1
    assert until(lambda: not engine_threads())


def test_a_scan_is_repeatable_and_keeps_its_version():
    store = memory_store()
    table = TableBuilder(store).commit("+a")
    scan = Table(store, Config()).scan()
    assert listed(scan) == ["a"]
    table.commit("+b")
    assert listed(scan) == ["a"]
    assert sorted(listed(Table(store, Config()).scan())) == ["a", "b"]


def test_two_scans_of_one_snapshot_are_independent():
    snapshot = Table(built(tail=20), Config(batch_rows=10)).snapshot()
    one, two = snapshot.scan(strategy="reverse").files(), snapshot.scan(strategy="forward").files()
    with one, two:
        pairs = [(a.path, b.path) for a, b in zip(one, two, strict=True)]
    assert len({a for a, _ in pairs}) == len({b for _, b in pairs}) == FILES + 20


_PEAK = """
import resource, sys
from pathlib import Path
import pyarrow as pa
from lazydelta import Config, Table
from tests.builders import TableBuilder

where, limit = Path(sys.argv[1]), int(sys.argv[2])
scan = Table.open(where, config=Config(remove_set_memory_limit=limit, remove_set_capacity=1000)).scan()
count = sum(batch.num_rows for batch in scan.file_batches())
explained = scan.explain()["seen_set"]
print(count, explained["keys"], explained["memory_bytes"], explained["spilled_runs"],
      pa.default_memory_pool().max_memory())
"""


def test_the_seen_set_respects_its_memory_limit(tmp_path):
    removes, files = 60_000, 5
    table = TableBuilder(tmp_path).commit(" ".join(f"+keep{n}" for n in range(files))).checkpoint()
    width = 10_000
    for start in range(0, removes, width):
        line = (
            b'{"remove":{"path":"part-%07d-0123456789abcdef0123456789abcdef","dataChange":true}}\n'
        )
        table.write(
            f"{1 + start // width:020d}.json",
            b"".join(line % n for n in range(start, start + width)),
        )
    results = {}
    for limit in (100_000, 1 << 30):
        done = subprocess.run(
            [sys.executable, "-c", _PEAK, str(tmp_path), str(limit)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        results[limit] = [int(word) for word in done.stdout.split()]
    count, keys, held, spilled, _ = results[100_000]
    assert (count, keys) == (files, removes)
    assert spilled >= 1
    assert held < 1_000_000
    count, keys, held, spilled, _ = results[1 << 30]
    assert (count, keys, spilled) == (files, removes, 0)
    assert held > 2_000_000


def test_temporary_files_are_deleted_when_a_scan_ends(tmp_path, monkeypatch):
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    store = built(tail=30)
    config = Config(remove_set_memory_limit=0, batch_rows=10, reverse_window_commits=3)
    for strategy in ("reverse", "forward"):
        assert len(listed(Table(store, config).scan(strategy=strategy))) == FILES + 30
        assert list(tmp_path.iterdir()) == []
        files = Table(store, config).scan(strategy=strategy).files()
        next(files)
        files.close()
        assert list(tmp_path.iterdir()) == []


class Gate:
    """An iterator of numbers that blocks at one of them until it is released."""

    def __init__(self, at: int) -> None:
        self.at, self.opened, self.waits, self.closed = at, *(threading.Event() for _ in range(3))

    def numbers(self):
        try:
            for number in range(10):
                if number == self.at:
                    self.waits.set()
                    self.opened.wait(30)
                yield number
        finally:
            self.closed.set()


async def consume(stream, found):
    with stream:
        async for item in stream:
            found.append(item)


@pytest.mark.parametrize("how", ["cancel", "wait_for"])
def test_a_cancelled_async_loop_raises_at_once(how):
    gate, found = Gate(at=3), []

    async def run():
        task = asyncio.create_task(consume(Stream(gate.numbers()), found))
        await asyncio.to_thread(gate.waits.wait, 30)
        if how == "wait_for":
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(task, 0.01)
        else:
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert not gate.closed.is_set(), "it is in the middle of a read"
        gate.opened.set()

    asyncio.run(run())
    assert gate.closed.wait(30)
    assert found == [0, 1, 2]


def test_a_stream_closed_while_awaited_ends():
    gate, found = Gate(at=3), []

    async def run():
        stream = Stream(gate.numbers())
        task = asyncio.create_task(consume(stream, found))
        await asyncio.to_thread(gate.waits.wait, 30)
        stream.close()
        gate.opened.set()
        await task

    asyncio.run(run())
    assert gate.closed.wait(30)
    assert found == [0, 1, 2, 3]


def test_a_second_close_waits_for_the_first():
    """A cancelled `async for` closes the stream in a thread, and `with` closes it here."""
    closing, opened = threading.Event(), threading.Event()

    def numbers():
        try:
            yield 1
        finally:
            closing.set()
            opened.wait(30)

    stream = Stream(numbers())
    next(stream)
    first = threading.Thread(target=stream.close)
    first.start()
    assert closing.wait(30)
    threading.Timer(0.05, opened.set).start()
    stream.close()
    assert opened.is_set()
    first.join()


def test_a_cancelled_scan_leaves_no_thread_behind():
    async def run():
        stream = Table(built(), Config(batch_rows=10)).scan().files()
        task = asyncio.create_task(consume(stream, []))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert until(lambda: not engine_threads())


def test_async_iteration_switches_threads_once_per_batch(monkeypatch):
    hops = []
    to_thread = asyncio.to_thread

    async def counted(function, *args):
        hops.append(function)
        return await to_thread(function, *args)

    monkeypatch.setattr(asyncio, "to_thread", counted)

    async def collect():
        scan = Table(built(), Config()).scan()
        return [file.path async for file in scan.files()], len(list(scan.file_batches()))

    found, batches = asyncio.run(collect())
    assert len(set(found)) == FILES
    assert len(hops) <= batches + 1


def test_an_async_loop_continues_after_sync_iteration():
    async def collect():
        files = Table(built(), Config()).scan().files()
        first = [next(files).path for _ in range(3)]
        return first + [file.path async for file in files]

    found = asyncio.run(collect())
    assert len(found) == len(set(found)) == FILES
