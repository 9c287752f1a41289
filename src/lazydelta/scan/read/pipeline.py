"""Several files read at once, their batches handed to one consumer, in bounded memory.

Knows threads and batches; nothing of tables. Tasks are pulled one by one by whichever thread is
free, so later tasks may still be found while the first are worked on.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Generic, TypeVar

import pyarrow as pa

from lazydelta.store import is_local

if TYPE_CHECKING:
    from lazydelta.store import Store

__all__ = ["read_ahead", "threads_for"]

T = TypeVar("T")

_REMOTE_FILES = 8
"""Files of a remote store read at once, however few cores there are: most of it is waiting."""

Read = Callable[[T], Iterator[pa.RecordBatch]]


def threads_for(store: Store, asked: int | None) -> int:
    """Return how many files to read at once.

    Args:
        store: Where they are.
        asked: What the caller wants; None leaves it to us.
    """
    if asked is not None:
        return asked
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(cores or 1, 1 if is_local(store) else _REMOTE_FILES)


class _StoppedError(Exception):
    """The consumer has gone, or another thread failed."""


class _Slot:
    """The batches of one task that wait for the consumer; in any order, all tasks share one."""

    __slots__ = ("batches", "is_done")

    def __init__(self) -> None:
        self.batches: deque[tuple[pa.RecordBatch, int]] = deque()
        """Each with its size."""
        self.is_done = False


def read_ahead(
    tasks: Iterator[T], read: Read[T], *,
    width: int, memory_limit: int, ordered: bool, keeps_all: bool = False,
) -> Iterator[pa.RecordBatch]:  # fmt: skip
    """Yield the batches of all tasks, up to `width` of which are read at the same time.

    Closing the iterator ends the threads before `close()` returns. An error ends the iteration
    at once, whichever task it is from.

    Args:
        tasks: Pulled under a lock, by one thread at a time; closed at the end.
        read: Gives the batches of a task; called in a thread, closed if not used up.
        width: How many threads read.
        memory_limit: Bytes of finished batches that may wait; past them the threads wait. With
            `keeps_all` there is no bound: the consumer holds every batch anyway.
        ordered: Whether batches come in the order of the tasks, or as they are ready.
        keeps_all: Whether nothing is done with batches before the last has come. Then the
            consumer sleeps while some wait: to wake it takes a core away from who reads.
    """
    exchange = _Exchange(
        tasks, read, width=width, memory_limit=memory_limit, ordered=ordered, keeps_all=keeps_all
    )
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


class _Exchange(Generic[T]):
    """What threads and consumer share; `_changed` guards all of it but the tasks."""

    def __init__(
        self, tasks: Iterator[T], read: Read[T], *,
        width: int, memory_limit: int, ordered: bool, keeps_all: bool,
    ) -> None:  # fmt: skip
        self._tasks = tasks
        self._pulling = threading.Lock()
        self._read = read
        self._width = width
        self._memory_limit = memory_limit
        self._ordered = ordered
        self._keeps_all = keeps_all
        self._woken_at = memory_limit // 2 if keeps_all else 0
        self._changed = threading.Condition()
        self._slots: deque[_Slot] = deque() if ordered else deque([_Slot()])
        self._waiting_bytes = 0
        self._stopped = False
        self._error: BaseException | None = None
        self._running = 0
        self.workers: list[threading.Thread] = []
        """Threads that were started; no more are once it was stopped."""

    def start_worker(self) -> None:
        """Start one more thread, unless there are enough."""
        with self._changed:
            if self._stopped or len(self.workers) >= self._width:
                return
            name = f"lazydelta-read-{len(self.workers)}"
            worker = threading.Thread(target=self._work, name=name, daemon=True)
            worker.start()  # it waits for the lock before it could end
            self.workers.append(worker)
            self._running += 1

    def _work(self) -> None:
        """Read task after task until there are none, or nobody wants them."""
        try:
            while (pulled := self._pull()) is not None:
                self.start_worker()  # there may be more to read: few files do not take many threads
                self._carry_out(*pulled)
        except _StoppedError:
            pass
        except BaseException as error:  # noqa: BLE001 - it is raised again in the consumer
            with self._changed:
                self._error = self._error or error
                self._stopped = True
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def _pull(self) -> tuple[T, _Slot] | None:
        with self._pulling:
            if self._stopped:
                return None
            for task in self._tasks:
                with self._changed:
                    if self._ordered:
                        self._slots.append(_Slot())
                    return task, self._slots[-1]
        return None

    def _carry_out(self, task: T, slot: _Slot) -> None:
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

    def _put(self, slot: _Slot, batch: pa.RecordBatch) -> None:
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
        """Wake the consumer, if enough waits for it; who ends wakes it whatever waits."""
        if self._waiting_bytes >= self._woken_at:
            self._changed.notify_all()

    def _has_room(self, slot: _Slot) -> bool:
        if self._keeps_all:
            return True
        # The batch that the consumer waits for always has room, or all threads would deadlock.
        is_next = not slot.batches and slot is self._slots[0]
        return is_next or self._waiting_bytes < self._memory_limit

    def get(self) -> pa.RecordBatch | None:
        """Return the next batch, waiting for it; None at the end."""
        with self._changed:
            while True:
                if self._error is not None:
                    raise self._error
                while self._slots and self._slots[0].is_done and not self._slots[0].batches:
                    self._slots.popleft()
                    self._changed.notify_all()  # the next task may put its batches now
                if self._slots and self._slots[0].batches:
                    batch, size = self._slots[0].batches.popleft()
                    self._waiting_bytes -= size
                    self._changed.notify_all()
                    return batch
                if not self._running:
                    return None
                self._changed.wait()

    def stop(self) -> None:
        """Let the threads go: they end at their next batch."""
        with self._changed:
            self._stopped = True
            for slot in self._slots:
                slot.batches.clear()
            self._changed.notify_all()
