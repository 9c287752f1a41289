"""Threads, in two shapes only: an ordered bounded map, and a bounded read-ahead of an iterator."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

__all__ = ["ordered_map", "prefetch"]

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


class _Stop(Exception):
    """The consumer has gone."""


def prefetch(produce: Callable[[], Iterator[T]], *, depth: int) -> Iterator[T]:
    """Yield what `produce()` yields, made by a thread that is at most `depth` items ahead.

    A consumer that stalls only leaves `depth` items waiting; one that closes the iterator ends
    the thread, which closes the producer, before `close()` returns. An error of the producer is
    raised in its place in the order.
    """
    ready: queue.Queue[tuple[bool, T | BaseException | None]] = queue.Queue(depth)
    stopped = threading.Event()

    def put(entry: tuple[bool, T | BaseException | None]) -> None:
        while not stopped.is_set():
            try:
                return ready.put(entry, timeout=_POLL_SECONDS)
            except queue.Full:
                continue
        raise _Stop

    def run() -> None:
        source: Iterator[T] | None = None
        try:
            source = produce()
            for item in source:
                put((True, item))
            put((False, None))
        except _Stop:
            pass
        except BaseException as error:  # noqa: BLE001 - it is raised again in the consumer
            try:
                put((False, error))
            except _Stop:
                pass
        finally:
            close = getattr(source, "close", None)
            if close is not None:
                close()

    worker = threading.Thread(target=run, name="lazydelta-prefetch", daemon=True)
    worker.start()
    try:
        while True:
            more, item = ready.get()
            if not more:
                if item is not None:
                    raise item  # type: ignore[misc]
                return
            yield item  # type: ignore[misc]
    finally:
        stopped.set()
        try:
            while True:
                ready.get_nowait()
        except queue.Empty:
            pass
        worker.join()
