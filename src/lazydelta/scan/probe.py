"""Whether to look at a predicate's columns first, and read the others only where a row matches.

It pays where few row groups hold a match and the predicate's columns are the smaller part: those
are read twice then, but the others hardly at all. Whether few do is found out on the way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lazydelta.files import DataFile
    from lazydelta.scan.rows import FileFacts, FileFit

__all__ = ["Probe"]

_TRIES = 8
"""Row groups to try before the share of those without a match is looked at."""
_LEAST_SHARE = 0.5
"""Of the row groups tried, how many must be without a match for more to be tried."""
_MOST_BYTES = 0.5
"""The predicate's part of all bytes to read, beyond which nothing is tried."""


class Probe:
    """Finds row groups without a match. Shared by threads: a count that is off does no harm."""

    def __init__(self) -> None:
        self._tried = 0
        self._empty = 0

    def is_worth_it(self, file: DataFile, fit: FileFit, groups: Sequence[int]) -> bool:
        """Whether to look for matches first in these row groups of a file."""
        if not groups or not fit.filter_columns or fit.filter_columns == fit.columns:
            return False
        if self._tried >= _TRIES and self._empty < self._tried * _LEAST_SHARE:
            return False
        some = groups[:1]
        part = file.column_bytes(fit.filter_columns, some)
        return part <= _MOST_BYTES * file.column_bytes(fit.columns, some)

    def with_matches(
        self,
        file: DataFile,
        fit: FileFit,
        facts: FileFacts,
        groups: Sequence[int],
        *,
        batch_rows: int,
    ) -> list[int]:
        """Return the row groups that have a row that matches, deleted or not."""
        found = [at for at in groups if self._has_match(file, fit, facts, at, batch_rows)]
        self._tried += len(groups)
        self._empty += len(groups) - len(found)
        return found

    @staticmethod
    def _has_match(
        file: DataFile, fit: FileFit, facts: FileFacts, group: int, batch_rows: int
    ) -> bool:
        for rows in file.rows(fit.filter_columns, [group], batch_rows=batch_rows):
            matches = fit.matches(rows, facts)
            if matches is None or matches.true_count:
                return True
        return False
