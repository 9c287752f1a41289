"""Auto compaction: after writes, tables with `delta.autoOptimize.autoCompact` compact small files.

A post-commit hook. It looks for small files every tenth version, after the checkpoint, so that the
cost of a write does not grow with the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta.checkpoint import post_commit_hooks
from lazydelta.operations import optimize

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lazydelta.config import Config
    from lazydelta.transaction import Committed, Hook

__all__ = ["write_hooks"]

_EVERY_VERSIONS = 10
_SMALL_FILES = 50  # of a partition, as in Delta Spark


def write_hooks(config: Config) -> tuple[Hook, ...]:
    """Return the hooks of a commit that adds rows."""
    return (*post_commit_hooks(config), _auto_compact)


def _auto_compact(committed: Committed) -> None:
    """Compact partitions with many small files, as commits of their own."""
    snapshot = committed.snapshot
    if snapshot is None or committed.version % _EVERY_VERSIONS:
        return
    if not _is_enabled(snapshot.metadata.configuration):
        return
    request = optimize.OptimizeRequest(min_files=_SMALL_FILES, cluster=False, auto=True)
    optimize.optimize_table(committed.store, committed.config, request, known=snapshot)


def _is_enabled(configuration: Mapping[str, str]) -> bool:
    """Return whether the table's properties request it; the older property wins, as in Spark."""
    if configuration.get("delta.autoOptimize", "false").lower() == "true":
        return True
    return configuration.get("delta.autoOptimize.autoCompact", "false").lower() != "false"
