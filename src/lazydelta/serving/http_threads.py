"""The threads of the HTTP server: those that read batches, and those that close scans."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from lazydelta.serving import tuning

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazydelta.serving.streams import ScanStream

__all__ = ["Threads"]

T = TypeVar("T")


class Threads:
    """Two bounded pools. A batch occupies a thread while it is read, never while it is sent.

    Args:
        reading: The number of threads that read.
    """

    def __init__(self, reading: int) -> None:
        self._reading = ThreadPoolExecutor(reading, thread_name_prefix="serving-read")
        self._closing = ThreadPoolExecutor(
            tuning.CLOSING_THREADS, thread_name_prefix="serving-close"
        )

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """Call a function in a thread that reads."""
        return self._reading.submit(call)

    async def run(self, call: Callable[[], T]) -> T:
        """Call a function in a thread that reads, and wait for it."""
        return await asyncio.get_running_loop().run_in_executor(self._reading, call)

    def close(self, stream: ScanStream) -> None:
        """Close a scan in another thread: that may wait for the engine's threads."""
        self._closing.submit(stream.close)

    def shutdown(self) -> Any:
        """Wait for all threads."""
        self._reading.shutdown()
        self._closing.shutdown()
