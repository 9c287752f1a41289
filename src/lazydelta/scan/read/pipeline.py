"""Read several files in parallel and pass their batches to one consumer, in bounded memory.

Knows threads and batches, nothing about tables. Each worker thread pulls one task at a time, so
later tasks may still be planned while the first are read.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from lazydelta.scan import tuning
from lazydelta.store import is_local

if TYPE_CHECKING:
    from lazydelta.store import Store

__all__ = ["B", "HasSize", "read_ahead", "threads_for"]


class HasSize(Protocol):
    """What tasks are read to: record batches, or something around them."""

    @property
    def nbytes(self) -> int:
        """The size in bytes."""


T = TypeVar("T")
B = TypeVar("B", bound=HasSize)

Read = Callable[[T], Iterator[B]]


def threads_for(store: Store, requested: int | None) -> int:
    """Return how many files to read in parallel.

    Args:
        store: The store of the files.
        requested: The caller's choice; None chooses by the store and the number of cores.
    """
    if requested is not None:
        return requested
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(cores or 1, 1 if is_local(store) else tuning.REMOTE_FILES)


class _StoppedError(Exception):
    """The consumer stopped, or another thread failed."""


class _Slot(Generic[B]):
    """Finished batches of one task. In unordered reads all tasks share one slot."""

    __slots__ = ("batches", "is_done")

    def __init__(self) -> None:
        self.batches: deque[tuple[B, int]] = deque()
        """Each with its size in bytes."""
        self.is_done = False


def read_ahead(
    tasks: Iterator[T], read: Read[T, B], *,
    width: int, memory_limit: int, ordered: bool, keeps_all: bool = False,
    may_start: Callable[[int], bool] = lambda _: True,
) -> Iterator[B]:  # fmt: skip
    """Yield the batches of all tasks, up to `width` of which are read in parallel.

    Closing the iterator stops the threads before `close()` returns. An error of any task ends the
    iteration at once.

    Args:
        tasks: Pulled under a lock, by one thread at a time; closed at the end.
        read: Returns the batches of a task. Called in a worker thread; closed if not exhausted.
        width: Maximum number of worker threads.
        memory_limit: Maximum bytes of finished batches; above it the workers wait. With
            `keeps_all` there is no bound: the consumer holds every batch anyway.
        ordered: Whether batches keep the order of the tasks, or are returned as they are ready.
        keeps_all: Whether the consumer only collects all batches. Then it is woken less often:
            each wake-up takes a core from the workers.
        may_start: Whether to start another worker thread, given the number of those that run.
    """
    exchange = _Exchange(
        tasks, read, width=width, memory_limit=memory_limit, ordered=ordered, keeps_all=keeps_all,
        may_start=may_start,
    )  # fmt: skip
    exchange.start_worker()
    try:
        while True:
            batch = exchange.get()
            if batch is None:
                return
            yield batch
    finally:
        exchange.stop()
        for worker in exchange.workers:
            worker.join()
        close = getattr(tasks, "close", None)
        if close is not None:
            close()


class _Exchange(Generic[T, B]):
    """State shared by workers and consumer; `_changed` guards all of it but the tasks."""

    def __init__(
        self, tasks: Iterator[T], read: Read[T, B], *,
        width: int, memory_limit: int, ordered: bool, keeps_all: bool,
        may_start: Callable[[int], bool] = lambda _: True,
    ) -> None:  # fmt: skip
        self._tasks = tasks
        self._pulling = threading.Lock()
        self._read = read
        self._width = width
        self._may_start = may_start
        self._memory_limit = memory_limit
        self._ordered = ordered
        self._keeps_all = keeps_all
        self._wake_bytes = memory_limit // 2 if keeps_all else 0
        self._changed = threading.Condition()
        self._slots: deque[_Slot[B]] = deque() if ordered else deque([_Slot()])
        self._waiting_bytes = 0
        self._stopped = False
        self._error: BaseException | None = None
        self._running = 0
        self.workers: list[threading.Thread] = []
        """The threads started so far; none are started after `stop()`."""

    def start_worker(self) -> None:
        """Start one more thread, up to the maximum."""
        with self._changed:
            if self._stopped or len(self.workers) >= self._width:
                return
            if self.workers and not self._may_start(self._running):
                return
            name = f"lazydelta-read-{len(self.workers)}"
            worker = threading.Thread(target=self._work, name=name, daemon=True)
            worker.start()  # it waits for the lock before it can finish
            self.workers.append(worker)
            self._running += 1

    def _work(self) -> None:
        """Read tasks until none are left or the exchange is stopped."""
        try:
            while (pulled := self._pull()) is not None:
                self.start_worker()  # one thread per task found: few files start few threads
                self._run(*pulled)
        except _StoppedError:
            pass
        except BaseException as error:  # noqa: BLE001 - raised again in the consumer
            with self._changed:
                self._error = self._error or error
                self._stopped = True
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def _pull(self) -> tuple[T, _Slot[B]] | None:
        with self._pulling:
            if self._stopped:
                return None
            for task in self._tasks:
                with self._changed:
                    if self._ordered:
                        self._slots.append(_Slot())
                    return task, self._slots[-1]
        return None

    def _run(self, task: T, slot: _Slot[B]) -> None:
        batches = self._read(task)
        try:
            for batch in batches:
                self._put(slot, batch)
        finally:
            close = getattr(batches, "close", None)
            if close is not None:
                close()
        if self._ordered:
            with self._changed:
                slot.is_done = True
                self._wake()

    def _put(self, slot: _Slot[B], batch: B) -> None:
        size = batch.nbytes
        with self._changed:
            while not self._stopped and not self._has_room(slot):
                self._changed.wait()
            if self._stopped:
                raise _StoppedError
            slot.batches.append((batch, size))
            self._waiting_bytes += size
            self._wake()

    def _wake(self) -> None:
        """Wake the consumer if enough bytes wait; a finished worker wakes it in any case."""
        if self._waiting_bytes >= self._wake_bytes:
            self._changed.notify_all()

    def _has_room(self, slot: _Slot[B]) -> bool:
        if self._keeps_all:
            return True
        # The batch that the consumer waits for is always accepted, or all would deadlock.
        is_next = not slot.batches and slot is self._slots[0]
        return is_next or self._waiting_bytes < self._memory_limit

    def get(self) -> B | None:
        """Return the next batch, waiting for it; None at the end."""
        with self._changed:
            while True:
                if self._error is not None:
                    raise self._error
                while self._slots and self._slots[0].is_done and not self._slots[0].batches:
                    self._slots.popleft()
                    self._changed.notify_all()  # a worker of the next task may now add its batch
                if self._slots and self._slots[0].batches:
                    batch, size = self._slots[0].batches.popleft()
                    self._waiting_bytes -= size
                    self._changed.notify_all()
                    return batch
                if not self._running:
                    return None
                self._changed.wait()

    def stop(self) -> None:
        """Stop the threads; each ends at its next batch."""
        with self._changed:
            self._stopped = True
            for slot in self._slots:
                slot.batches.clear()
            self._changed.notify_all()
