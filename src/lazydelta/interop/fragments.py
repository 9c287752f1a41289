"""One lazy stream of rows drawn by several readers at once: each batch goes to one of them.

Knows batches and threads; nothing of tables. Engines list the fragments of a dataset when they
plan and read each in a thread of its own; a lazy scan has no fragments yet at that time, so a
fixed number of them share whatever it finds.
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

_A_MOMENT, _ON_THE_WAY_OUT, _MOST_SECONDS = 0.001, 0.02, 5.0


class SharedRows:
    """The rows of one dataset, for `width` readers that each have a number.

    A reader that comes a second time starts the second round, which is a new stream that the
    others join when they come a second time too. So every round gives every row once.
    """

    def __init__(self) -> None:
        self.width = max(_cores(), 2)
        self._lock = threading.Lock()
        self._inside = 0  # readers that wait for a batch just now
        self._rounds: Counter[tuple[int, Hashable]] = Counter()
        self._flows: dict[tuple[Hashable, int], _Flow] = {}

    def batches(
        self, at: int, key: Hashable, start: Callable[[], Iterator[pa.RecordBatch]]
    ) -> Iterator[pa.RecordBatch]:
        """Yield what falls to the reader `at`.

        Args:
            at: The reader's number, below `width`.
            key: Equal for reads of the same rows; others do not share a stream.
            start: Starts the stream.
        """
        place, flow = self._join(at, key, start)
        try:
            while (batch := self._taken(flow)) is not None:
                yield batch
        finally:
            self._leave(place, flow)

    def close(self) -> None:
        """End all streams, whoever may still hold them; the readers see the end of the rows.

        Waits for readers that are under way to be gone: they are threads of DataFusion's, and one
        that is still on its way out when the process ends aborts it.
        """
        with self._lock:
            flows = list(self._flows.values())
        for flow in flows:
            flow.close()
        until = time.monotonic() + _MOST_SECONDS
        while self._inside and time.monotonic() < until:
            time.sleep(_A_MOMENT)
        if flows:
            time.sleep(_ON_THE_WAY_OUT)

    def _taken(self, flow: _Flow) -> pa.RecordBatch | None:
        with self._lock:
            self._inside += 1
        try:
            return flow.take()
        finally:
            with self._lock:
                self._inside -= 1

    def _join(
        self, at: int, key: Hashable, start: Callable[[], Iterator[pa.RecordBatch]]
    ) -> tuple[tuple[Hashable, int], _Flow]:
        with self._lock:
            place = (key, self._rounds[at, key])
            self._rounds[at, key] += 1
            if place not in self._flows:
                self._flows[place] = _Flow(start())
            return place, self._flows[place]

    def _leave(self, place: tuple[Hashable, int], flow: _Flow) -> None:
        """Close the stream once nobody can come any more.

        Not before: a reader that has enough (a LIMIT) leaves its siblings the rest.
        """
        with self._lock:
            flow.left += 1
            is_last = flow.left == self.width
            if is_last:
                del self._flows[place]
        if is_last:
            flow.close()


class _Flow:
    """A stream that several threads take from."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._lock = threading.Lock()
        self.left = 0

    def take(self) -> pa.RecordBatch | None:
        """Return the next batch, None at the end."""
        with self._lock:
            return next(self._batches, None)

    def close(self) -> None:
        """End the stream."""
        with self._lock:
            close = getattr(self._batches, "close", None)
            if close is not None:
                close()


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
