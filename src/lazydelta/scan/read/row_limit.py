"""How many files a read with a limit opens."""

from __future__ import annotations

import threading

__all__ = ["RowLimit"]


class RowLimit:
    """Admits the files that a limit needs, if all of their rows count toward it. Thread-safe.

    One file is admitted first. If its rows are not enough, their number tells how many more files
    to open in parallel; the log may have no statistics, and reading them costs bytes.

    Args:
        rows: The limit; None admits all files.
    """

    def __init__(self, rows: int | None) -> None:
        self._limit = rows
        self._rows = 0
        self._admitted = 1
        self._counted = 0
        self._max_files = 1
        self._is_stopped = False
        self._changed = threading.Condition()

    @property
    def is_active(self) -> bool:
        """Whether there is a limit."""
        return self._limit is not None

    def is_met_by(self, rows: int) -> bool:
        """Whether so many rows are enough."""
        return self._limit is not None and rows >= self._limit

    def admit(self) -> bool:
        """Whether a file after the first is needed; waits for the rows of those before it."""
        limit = self._limit
        if limit is None:
            return True
        with self._changed:
            self._changed.wait_for(lambda: self._is_decided(limit))
            if self._is_stopped or self._rows >= limit:
                return False
            if self._admitted == self._max_files:
                rows_per_file = max(self._rows // self._admitted, 1)
                self._max_files += -(-(limit - self._rows) // rows_per_file)
            self._admitted += 1
            return True

    def count(self, rows: int) -> None:
        """Count the rows of an admitted file."""
        with self._changed:
            self._rows += rows
            self._counted += 1
            self._changed.notify_all()

    def stop(self) -> None:
        """Admit no more files: the consumer stopped, or a file failed."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()

    def _is_decided(self, limit: int) -> bool:
        return (
            self._is_stopped
            or self._rows >= limit
            or self._admitted < self._max_files
            or self._counted == self._admitted
        )
