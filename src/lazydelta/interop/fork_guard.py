"""Refuse engines whose thread pools did not survive a `fork()`.

Polars and DataFusion start a global thread pool at their first query. A forked child inherits the
pool without its threads, so its first query waits forever.
"""

from __future__ import annotations

import os

from lazydelta.errors import ForkedProcessError

__all__ = ["DATAFUSION", "POLARS", "ForkGuard"]


class ForkGuard:
    """Tracks which process started the thread pool of one engine.

    Only queries over our tables are seen. A parent that used the engine in other ways is not
    detected.
    """

    def __init__(self, engine: str) -> None:
        self._engine = engine
        self._pid: int | None = None

    def check(self) -> None:
        """Raise if the pool was started before this process was forked.

        Raises:
            ForkedProcessError: The engine would hang.
        """
        if self._pid not in (None, os.getpid()):
            raise ForkedProcessError(self._engine)

    def start(self) -> None:
        """Record that this process starts the pool, after `check()`."""
        self.check()
        self._pid = os.getpid()


POLARS = ForkGuard("Polars")
DATAFUSION = ForkGuard("DataFusion")
