"""When a data file is full: its encoded size is predicted from what was encoded before.

Encoded size is known only after a row group is written, so the rows of the next one are chosen by
the compression ratio of the last one. Files of typical data land within a quarter of the target.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["FileRoll"]

_SLACK = 0.15
"""Share of the target that a file may miss or exceed, rather than get a tiny row group."""
_LEAST_BYTES = 64 << 10
"""In-memory bytes of the smallest part that rows are cut into, however small the target is."""


@dataclass
class FileRoll:
    """Chooses how many rows go into a file. Threads share one; a stale ratio does no harm."""

    target_bytes: int
    ratio: float = 1.0
    """Encoded bytes per in-memory byte of the last row group. Initially the usual worst case."""
    footer_bytes: int = 0
    """Size of the footer of the last file."""

    def rows_that_fit(self, rows: pa.Table, written: int) -> int:
        """Return how many rows to write to a file with `written` bytes; at least one."""
        bytes_per_row = max(rows.nbytes / rows.num_rows, 1)
        room = self._room - written
        if rows.nbytes * self.ratio <= room + _SLACK * self._room:
            return rows.num_rows
        least = int(_LEAST_BYTES / bytes_per_row)
        fitting = int(room / (bytes_per_row * self.ratio))
        return min(max(fitting, least, 1), rows.num_rows)

    def observe(self, rows: pa.Table, encoded: int) -> None:
        """Learn the compression ratio from a row group."""
        self.ratio = max(encoded / max(rows.nbytes, 1), 0.001)

    def is_full(self, written: int) -> bool:
        """Whether a file with `written` bytes is to be finished."""
        return written >= self._room * (1 - _SLACK)

    @property
    def _room(self) -> int:
        return max(self.target_bytes - self.footer_bytes, 1)
