"""The component names of the lazydelta design document, mapped to the classes that do the work.

A thin door: aliases, and a scanner that is one call to `Table`. docs/reference/design-names.md
has the table.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lazydelta._stream import Stream as StreamingOutput
from lazydelta.config import Config, ScanStrategy, Strategy
from lazydelta.log import CommitReader as ReverseCommitReader
from lazydelta.replay import SeenFiles as RemoveSet
from lazydelta.replay import find_trip as FeatureTripwire  # noqa: N812 - the design's name
from lazydelta.replay.skipping import Pruner as PredicateEvaluator
from lazydelta.scan.plan import ScanFile as LogicalFileView
from lazydelta.table import Table

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from lazydelta.scan import Scan, Where
    from lazydelta.scan.plan import Explanation

__all__ = [
    "FeatureTripwire",
    "LazyDeltaScanner",
    "LazyScanConfig",
    "LogicalFileView",
    "PredicateEvaluator",
    "RemoveSet",
    "ReverseCommitReader",
    "ScanStrategy",
    "StreamingOutput",
]

_DEFAULTS = Config()


@dataclass(frozen=True, slots=True, kw_only=True)
class LazyScanConfig:
    """A scan's arguments: four of `scan` and `snapshot`, and `Config` fields by their own names.

    `limit` is the maximum number of files.
    """

    predicate: Where = None
    limit: int | None = None
    strategy: Strategy = "auto"
    version: int | None = None
    batch_size: int = _DEFAULTS.batch_rows
    remove_set_memory_limit: int = _DEFAULTS.remove_set_memory_limit
    enable_fallback: bool = _DEFAULTS.enable_fallback
    commit_read_parallelism: int = _DEFAULTS.commit_read_parallelism
    checkpoint_row_groups_per_batch: int = _DEFAULTS.checkpoint_row_groups_per_batch


class LazyDeltaScanner:
    """Lists the files of a table lazily, by default newest first."""

    def __init__(
        self,
        url: str | os.PathLike[str],
        config: LazyScanConfig | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        self._config = config = config or LazyScanConfig()
        engine = replace(
            Config.from_env(),
            batch_rows=config.batch_size,
            remove_set_memory_limit=config.remove_set_memory_limit,
            enable_fallback=config.enable_fallback,
            commit_read_parallelism=config.commit_read_parallelism,
            checkpoint_row_groups_per_batch=config.checkpoint_row_groups_per_batch,
        )
        self._table = Table.open(url, storage_options, engine)
        self._scan: Scan | None = None

    def scan_files(self) -> StreamingOutput[LogicalFileView]:
        """Return the files as they are found; the first call pins the version."""
        return self._planned().files(self._config.limit)

    def explain(self) -> Explanation:
        """Return the plan, and what the latest scan read and pruned."""
        return self._planned().explain()

    def _planned(self) -> Scan:
        if self._scan is None:
            requested = self._config
            snapshot = self._table.snapshot(requested.version)
            self._scan = snapshot.scan(requested.predicate, strategy=requested.strategy)
        return self._scan
