"""Threads, in two shapes only: an ordered bounded map, and a bounded read-ahead of an iterator."""

from __future__ import annotations

import queue
import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from itertools import islice
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

__all__ = ["Started", "ordered_map", "prefetch"]

T = TypeVar("T")
R = TypeVar("R")

_POLL_SECONDS = 0.1


def ordered_map(function: Callable[[T], R], items: Iterable[T], *, width: int) -> Iterator[R]:
    """Yield `function(item)` in the order of `items`, at most `width` of them under way.

    Nothing runs ahead of a consumer that stopped: closing the iterator cancels what has not begun.
    """
    items = iter(items)
    if width <= 1:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(width, thread_name_prefix="lazydelta-io") as pool:
        waiting: deque[Future[R]] = deque()
        try:
            for item in islice(items, width):
                waiting.append(pool.submit(function, item))
            while waiting:
                result = waiting.popleft().result()
                for item in islice(items, 1):
                    waiting.append(pool.submit(function, item))
                yield result
        finally:
            for future in waiting:
                future.cancel()


class _StoppedError(Exception):
    """The consumer has gone."""


class _Handover(Generic[T]):
    """A bounded queue between one producer and one consumer, either of which may end it."""

    def __init__(self, depth: int) -> None:
        self._ready: queue.Queue[tuple[bool, T | BaseException | None]] = queue.Queue(depth)
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
            except BaseException as error:  # noqa: BLE001 - it is raised again in the consumer
                self._put((False, error))
        close = getattr(source, "close", None)
        if close is not None:
            close()

    def items(self) -> Iterator[T]:
        """Yield what was produced; raise what the producer raised, in its place."""
        while True:
            more, item = self._ready.get()
            if more:
                yield item  # type: ignore[misc]
            elif item is not None:
                raise item  # type: ignore[misc]
            else:
                return

    def stop(self) -> None:
        """Make the producer end at its next item, however full the queue is."""
        self._stopped.set()
        with suppress(queue.Empty):
            while True:
                self._ready.get_nowait()

    def _put(self, entry: tuple[bool, T | BaseException | None]) -> None:
        while not self._stopped.is_set():
            with suppress(queue.Full):
                self._ready.put(entry, timeout=_POLL_SECONDS)
                return
        raise _StoppedError


class Started(Generic[T]):
    """What `produce()` yields, made by a thread that runs already, at most `depth` items ahead.

    To be closed by whoever made it, also if nothing was taken from it.
    """

    def __init__(self, produce: Callable[[], Iterator[T]], *, depth: int) -> None:
        self._handover: _Handover[T] = _Handover(depth)
        self._items = self._handover.items()
        self._worker = threading.Thread(
            target=self._handover.run, args=(produce,), name="lazydelta-prefetch", daemon=True
        )
        self._worker.start()

    def __iter__(self) -> Iterator[T]:
        return self._items

    def close(self) -> None:
        """End the thread, which closes the producer, before this returns."""
        self._handover.stop()
        self._worker.join()


def prefetch(produce: Callable[[], Iterator[T]], *, depth: int) -> Generator[T]:
    """Yield what `produce()` yields, made by a thread that is at most `depth` items ahead.

    Nothing runs before the first item is asked for. A consumer that stalls only leaves `depth`
    items waiting; one that closes the iterator ends the thread, which closes the producer, before
    `close()` returns. An error of the producer is raised in its place in the order.
    """
    with closing(Started(produce, depth=depth)) as items:
        yield from items
