"""Counters of a scan, updated once per batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lazydelta.store.layers import request_totals

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazydelta.store import Store
    from lazydelta.store.layers import RequestTotals

__all__ = ["ScanMetrics"]


@dataclass(slots=True)
class ScanMetrics:
    """Counters of one run of a scan."""

    commits_scanned: int = 0
    commit_bytes: int = 0
    checkpoint_leaves: int = 0
    sidecars_skipped: int = 0
    """Checkpoint leaves that were not opened, because their zone maps exclude a match."""
    checkpoint_bytes: int = 0
    row_groups: int = 0
    row_groups_read: int = 0
    files_emitted: int = 0
    files_taken: int | None = None
    """Files of those that a row reader consumed; None if the scan only lists files."""
    files_pruned: int = 0
    """Adds pruned by the predicate; some of them in a checkpoint may be superseded as well."""
    files_superseded: int = 0
    fallback_triggered: int = 0
    remove_set_size: int = 0
    remove_set_bytes: int = 0
    remove_set_spilled_runs: int = 0
    time_to_first_file_ms: float | None = None
    seconds: float = 0.0
    complete: bool = False
    reached_end: bool = False
    """Whether the scan read the whole log, and was not stopped by a limit."""
    requests: RequestTotals | None = None
    """Requests to the store since the run started; None if the store does not count them."""
    live_files: int | None = None
    """Number of files of the version, if known exactly."""

    @property
    def files_scanned(self) -> int:
        """The files that the row reader consumed, or that were listed if there is none."""
        return self.files_emitted if self.files_taken is None else self.files_taken

    def count_requests(self, store: Store) -> Callable[[], None]:
        """Return a function that sets `requests` to those since this call."""
        start = request_totals(store)

        def update() -> None:
            totals = request_totals(store)
            if start is not None and totals is not None:
                self.requests = totals.since(start)

        return update

    def take(self, files: int) -> None:
        """Count files that a row reader consumed."""
        self.files_taken = (self.files_taken or 0) + files

    def named(self) -> dict[str, float]:
        """Return the metrics by their public names, for observers and dashboards."""
        named: dict[str, float] = {
            "delta.lazy.commits_scanned": self.commits_scanned,
            "delta.lazy.files_emitted": self.files_emitted,
            "delta.lazy.fallback_triggered": self.fallback_triggered,
            "delta.lazy.remove_set_size": self.remove_set_size,
            "files_scanned": self.files_emitted,
        }
        if self.live_files is not None:
            named["files_pruned"] = self.live_files - self.files_emitted
        if self.time_to_first_file_ms is not None:
            named["delta.lazy.time_to_first_file_ms"] = self.time_to_first_file_ms
        return named
