"""Roll data files at a target size, predicted from the compression ratio so far.

The encoded size is known only after a row group is written, so the number of rows of the next one
follows from the ratio of the last one. Files of typical data are within 25% of the target.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lazydelta.writer import tuning

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["FileRoll"]


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
        if rows.nbytes * self.ratio <= room + tuning.SIZE_SLACK * self._room:
            return rows.num_rows
        least = int(tuning.SMALLEST_PART_BYTES / bytes_per_row)
        fitting = int(room / (bytes_per_row * self.ratio))
        return min(max(fitting, least, 1), rows.num_rows)

    def observe(self, rows: pa.Table, encoded: int) -> None:
        """Learn the compression ratio from a row group."""
        self.ratio = max(encoded / max(rows.nbytes, 1), 0.001)

    def is_full(self, written: int) -> bool:
        """Whether a file with `written` bytes is to be finished."""
        return written >= self._room * (1 - tuning.SIZE_SLACK)

    @property
    def _room(self) -> int:
        return max(self.target_bytes - self.footer_bytes, 1)
