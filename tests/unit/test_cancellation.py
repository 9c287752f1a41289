from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future

import pytest

from lazydelta._cancellation import Cancellation, is_cancelled
from lazydelta._parallel import BackgroundIterator, ordered_map, start_thread
from lazydelta._stream import FlatStream, Stream
from lazydelta.errors import ScanCancelledError
from lazydelta.store.cloud import requests
from lazydelta.store.deadlines import pause, wait_for

LONG = 3600.0  # no test waits for it


def started(entered, call):
    """Run a call in a thread, and wait until it has begun."""
    future = start_thread(call)
    assert entered.wait(20)
    return future


async def request(entered):
    entered.set()
    await asyncio.sleep(LONG)


WAITS = {
    "a request": lambda entered: requests.run(request(entered)),
    "a pause before a retry": lambda entered: (entered.set(), pause(LONG)),
    "a request of another thread": lambda entered: (entered.set(), wait_for(Future(), None)),
}


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_a_cancellation_ends_waits(wait):
    entered, work = threading.Event(), Cancellation()
    with work.active():
        waiting = started(entered, lambda: wait(entered))
    work.cancel()
    with pytest.raises(ScanCancelledError):
        waiting.result(20)


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_a_wait_that_begins_after_the_cancellation_ends_at_once(wait):
    work = Cancellation()
    work.cancel()
    with work.active(), pytest.raises(ScanCancelledError):
        wait(threading.Event())


def test_other_work_is_not_cancelled():
    entered, work, other = threading.Event(), Cancellation(), Cancellation()
    with other.active():
        waiting = started(entered, lambda: (entered.set(), pause(0.2), is_cancelled())[-1])
    work.cancel()
    assert waiting.result(20) is False


def test_threads_work_for_what_their_caller_works_for():
    outer, inner = Cancellation(), Cancellation()
    outer.cancel()

    def seen(_=None):
        return is_cancelled()

    with outer.active(), inner.active():
        assert list(ordered_map(seen, range(3), width=2)) == [True] * 3
        assert start_thread(seen).result() is True
        assert list(BackgroundIterator(lambda: iter([seen()]), depth=1)) == [True]
    assert not is_cancelled()


@pytest.mark.parametrize("kind", [Stream, FlatStream])
def test_closing_a_stream_ends_the_wait_of_the_thread_that_reads(kind):
    entered, ended = threading.Event(), threading.Event()

    def items():
        try:
            entered.set()
            pause(LONG)
            yield [1]
        finally:
            ended.set()

    stream = kind(items())
    reading = started(entered, lambda: next(stream))
    stream.close()
    with pytest.raises(ScanCancelledError):
        reading.result(20)
    assert ended.wait(20)
    assert list(stream) == []


def test_leaving_an_async_loop_ends_the_wait():
    entered, ended = threading.Event(), threading.Event()

    def items():
        try:
            entered.set()
            pause(LONG)
            yield 1
        finally:
            ended.set()

    async def read():
        async for _ in Stream(items()):
            pass

    async def main():
        reading = asyncio.create_task(read())
        await asyncio.to_thread(entered.wait, 20)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading

    asyncio.run(main())
    assert ended.wait(20)
