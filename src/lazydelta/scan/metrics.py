"""What one scan counted, level by level; plain numbers, updated once per batch."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ScanMetrics"]


@dataclass(slots=True)
class ScanMetrics:
    """Counters of one run of a scan."""

    commits_scanned: int = 0
    commit_bytes: int = 0
    checkpoint_leaves: int = 0
    checkpoint_bytes: int = 0
    row_groups: int = 0
    row_groups_read: int = 0
    files_emitted: int = 0
    files_pruned: int = 0
    files_superseded: int = 0
    fallback_triggered: int = 0
    remove_set_size: int = 0
    remove_set_bytes: int = 0
    remove_set_spilled_runs: int = 0
    time_to_first_file_ms: float | None = None
    seconds: float = 0.0
    complete: bool = False

    def named(self) -> dict[str, float]:
        """Return the metrics under the names that dashboards know."""
        named: dict[str, float] = {
            "delta.lazy.commits_scanned": self.commits_scanned,
            "delta.lazy.files_emitted": self.files_emitted,
            "delta.lazy.fallback_triggered": self.fallback_triggered,
            "delta.lazy.remove_set_size": self.remove_set_size,
            "files_scanned": self.files_emitted,
            "files_pruned": self.files_pruned,
        }
        if self.time_to_first_file_ms is not None:
            named["delta.lazy.time_to_first_file_ms"] = self.time_to_first_file_ms
        return named
