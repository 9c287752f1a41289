"""Share one lazy stream of batches among several reader threads: each batch goes to one reader.

Knows batches and threads, nothing about tables. Engines list the fragments of a dataset at planning
time and read each in its own thread. A lazy scan knows no files at that time, so a fixed number of
fragments share its stream.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    import pyarrow as pa

__all__ = ["SharedRows"]

_POLL_SECONDS = 0.001
_EXIT_SECONDS = 0.02
"""Grace period for a DataFusion thread to return from Python after its last batch."""
_CLOSE_TIMEOUT_SECONDS = 5.0


class SharedRows:
    """The rows of one dataset, for `width` readers numbered from 0.

    A reader that reads again starts a second round: a new stream, which the other readers join
    when they read again. Every round returns every row once.
    """

    def __init__(self) -> None:
        self.width = max(_cores(), 2)
        self._lock = threading.Lock()
        self._waiting = 0  # readers blocked on a batch
        self._rounds: Counter[tuple[int, Hashable]] = Counter()
        self._streams: dict[tuple[Hashable, int], _SharedStream] = {}

    def batches(
        self, index: int, key: Hashable, start: Callable[[], Iterator[pa.RecordBatch]]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the batches that one reader gets.

        Args:
            index: The reader's number, below `width`.
            key: Equal for reads of the same rows; only those share a stream.
            start: Starts the stream.
        """
        round_key, stream = self._join(index, key, start)
        try:
            while (batch := self._next(stream)) is not None:
                yield batch
        finally:
            self._leave(round_key, stream)

    def close(self) -> None:
        """Close all streams; their readers see the end of the rows.

        Waits for the readers to return. They are DataFusion threads, and one that is still inside
        Python when the interpreter exits aborts the process.
        """
        with self._lock:
            streams = list(self._streams.values())
        for stream in streams:
            stream.close()
        until = time.monotonic() + _CLOSE_TIMEOUT_SECONDS
        while self._waiting and time.monotonic() < until:
            time.sleep(_POLL_SECONDS)
        if streams:
            time.sleep(_EXIT_SECONDS)

    def _next(self, stream: _SharedStream) -> pa.RecordBatch | None:
        with self._lock:
            self._waiting += 1
        try:
            return stream.next_batch()
        finally:
            with self._lock:
                self._waiting -= 1

    def _join(
        self, index: int, key: Hashable, start: Callable[[], Iterator[pa.RecordBatch]]
    ) -> tuple[tuple[Hashable, int], _SharedStream]:
        with self._lock:
            round_key = (key, self._rounds[index, key])
            self._rounds[index, key] += 1
            if round_key not in self._streams:
                self._streams[round_key] = _SharedStream(start())
            return round_key, self._streams[round_key]

    def _leave(self, round_key: tuple[Hashable, int], stream: _SharedStream) -> None:
        """Close the stream after its last reader.

        Not earlier: a reader that stops at a LIMIT leaves the remaining rows to the others.
        """
        with self._lock:
            stream.finished_readers += 1
            is_last = stream.finished_readers == self.width
            if is_last:
                del self._streams[round_key]
        if is_last:
            stream.close()


class _SharedStream:
    """A stream that several threads pull from, one at a time."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._lock = threading.Lock()
        self.finished_readers = 0

    def next_batch(self) -> pa.RecordBatch | None:
        """Return the next batch; None at the end."""
        with self._lock:
            return next(self._batches, None)

    def close(self) -> None:
        """Close the stream."""
        with self._lock:
            close = getattr(self._batches, "close", None)
            if close is not None:
                close()


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
