"""File records: what a client needs to read a table's Parquet files right by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lazydelta.errors import ConfigError

__all__ = ["CAPABILITIES", "FileRecords"]

CAPABILITIES = ("deletionVectors", "columnMapping", "typeWidening")
"""Table features that change how a client reads the Parquet files that are listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRecords:
    """What file records contain, and what their client can read.

    A client that does not declare a capability that the table needs is refused.
    """

    capabilities: frozenset[str] = frozenset()
    """Names of table features that the client applies: `deletionVectors`, `columnMapping`, ..."""
    deletion_vectors: Literal["descriptor", "bitmap", "ranges"] = "descriptor"
    """Deletion vectors as descriptors of the log only, or also as Roaring bitmaps or row ranges."""
    statistics: bool = False
    """Whether records have the statistics of the log."""

    def __post_init__(self) -> None:
        """Validate the values."""
        kinds = ("descriptor", "bitmap", "ranges")
        if self.deletion_vectors not in kinds:
            reason = f"must be one of {', '.join(kinds)}, not {self.deletion_vectors!r}"
            raise ConfigError("deletion_vectors", reason)
