"""`LazyDeltaScanner` and `LazyScanConfig`, the source design's names: a thin door to `Table`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lazydelta.config import Config, Strategy
from lazydelta.table import Table

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from lazydelta._stream import Stream
    from lazydelta.scan import Scan, Where
    from lazydelta.scan.plan import Explanation, ScanFile

__all__ = ["LazyDeltaScanner", "LazyScanConfig"]

_DEFAULTS = Config()


@dataclass(frozen=True, slots=True, kw_only=True)
class LazyScanConfig:
    """One scan's wishes and limits; all but the first four are `Config` fields of like name."""

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
    """Scans the files of a table lazily, newest first unless told otherwise."""

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

    def scan_files(self) -> Stream[ScanFile]:
        """Return the files as they are found; the version is pinned at the first call."""
        return self._planned().files()

    def explain(self) -> Explanation:
        """Return what was chosen, read and pruned."""
        return self._planned().explain()

    def _planned(self) -> Scan:
        if self._scan is None:
            asked = self._config
            snapshot = self._table.snapshot(asked.version)
            self._scan = snapshot.scan(asked.predicate, None, asked.limit, asked.strategy)
        return self._scan
