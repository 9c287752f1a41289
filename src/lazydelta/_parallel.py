"""Threads: an ordered bounded map, and bounded read-aheads of one iterator or of several."""

from __future__ import annotations

import queue
import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from itertools import islice
from typing import TYPE_CHECKING, Generic, TypeVar

from lazydelta._cancellation import inherited

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

__all__ = ["BackgroundIterator", "ordered_map", "prefetch", "start_thread", "unordered_merge"]

T = TypeVar("T")
R = TypeVar("R")

_POLL_SECONDS = 0.1


def ordered_map(function: Callable[[T], R], items: Iterable[T], *, width: int) -> Generator[R]:
    """Yield `function(item)` in the order of `items`; at most `width` calls run concurrently.

    Closing the iterator cancels the calls that have not started.
    """
    items = iter(items)
    if width <= 1:
        yield from map(function, items)
        return
    function = inherited(function)
    with ThreadPoolExecutor(width, thread_name_prefix="lazydelta-io") as pool:
        pending: deque[Future[R]] = deque()
        try:
            for item in islice(items, width):
                pending.append(pool.submit(function, item))
            while pending:
                result = pending.popleft().result()
                for item in islice(items, 1):
                    pending.append(pool.submit(function, item))
                yield result
        finally:
            for future in pending:
                future.cancel()


def start_thread(function: Callable[[], R]) -> Future[R]:
    """Call a function in a new thread; the future has its result or its error."""
    future: Future[R] = Future()
    function = inherited(function)

    def run() -> None:
        try:
            future.set_result(function())
        except BaseException as error:  # noqa: BLE001 - raised where the result is used
            future.set_exception(error)

    threading.Thread(target=run, name="lazydelta-io", daemon=True).start()
    return future


class _StoppedError(Exception):
    """The consumer has stopped."""


class _Channel(Generic[T]):
    """A bounded queue between producers and one consumer, closed by either of them."""

    def __init__(self, depth: int) -> None:
        self._queue: queue.Queue[tuple[bool, T | BaseException | None]] = queue.Queue(depth)
        self._stopped = threading.Event()

    def run(self, produce: Callable[[], Iterator[T]]) -> None:
        """Produce until done, failed or stopped; then close the producer."""
        source: Iterator[T] | None = None
        with suppress(_StoppedError):
            try:
                source = produce()
                for item in source:
                    self._put((True, item))
                self._put((False, None))
            except _StoppedError:
                raise
            except BaseException as error:  # noqa: BLE001 - raised again in the consumer
                self._put((False, error))
        close = getattr(source, "close", None)
        if close is not None:
            close()

    def items(self) -> Iterator[T]:
        """Yield items until a producer ends; raise a producer's error in its place."""
        while True:
            is_item, item = self._queue.get()
            if is_item:
                yield item  # type: ignore[misc]
            elif item is not None:
                raise item  # type: ignore[misc]
            else:
                return

    def stop(self) -> None:
        """Make the producer end at its next item, even if the queue is full."""
        self._stopped.set()
        with suppress(queue.Empty):
            while True:
                self._queue.get_nowait()

    def _put(self, entry: tuple[bool, T | BaseException | None]) -> None:
        while not self._stopped.is_set():
            with suppress(queue.Full):
                self._queue.put(entry, timeout=_POLL_SECONDS)
                return
        raise _StoppedError


class BackgroundIterator(Generic[T]):
    """Iterates over `produce()` in a thread that starts at once, at most `depth` items ahead.

    The creator must close it, even if no item is consumed.
    """

    def __init__(self, produce: Callable[[], Iterator[T]], *, depth: int) -> None:
        self._channel: _Channel[T] = _Channel(depth)
        self._items = self._channel.items()
        self._worker = threading.Thread(
            target=inherited(self._channel.run),
            args=(produce,),
            name="lazydelta-prefetch",
            daemon=True,
        )
        self._worker.start()

    def __iter__(self) -> Iterator[T]:
        return self._items

    def close(self) -> None:
        """Stop the thread, which closes the producer, and wait for it."""
        self._channel.stop()
        self._worker.join()


def prefetch(produce: Callable[[], Iterator[T]], *, depth: int) -> Generator[T]:
    """Iterate over `produce()` in a thread that is at most `depth` items ahead.

    The thread starts with the first item requested. `close()` stops the thread, which closes the
    producer, and waits for it. An error of the producer is raised after the items before it. With
    a depth of 0 there is no thread.
    """
    if depth == 0:
        yield from produce()
        return
    with closing(BackgroundIterator(produce, depth=depth)) as items:
        yield from items


def unordered_merge(
    sources: Iterable[Callable[[], Iterator[T]]], *, width: int, depth: int
) -> Generator[T]:
    """Yield the items of several iterators as they arrive; `width` of them run concurrently.

    At most `depth` items wait for the consumer. Closing it stops the iterators. The first error of
    one is raised, and the others are stopped.
    """
    channel: _Channel[T] = _Channel(depth)
    with ThreadPoolExecutor(width, thread_name_prefix="lazydelta-io") as pool:
        try:
            running = [pool.submit(inherited(channel.run), source) for source in sources]
            for _ in running:
                yield from channel.items()  # until one of them ends
        finally:
            channel.stop()
            pool.shutdown(cancel_futures=True)
