"""Options and result of OPTIMIZE."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from lazydelta.config import validate_integer
from lazydelta.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lazydelta.scan import Where

__all__ = ["OptimizeRequest", "OptimizeResult"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizeRequest:
    """Options of OPTIMIZE; see `Table.optimize` for their meaning."""

    where: Where = None
    target_size: int | None = None
    min_file_size: int | None = None
    max_bytes: int | None = None
    batch_bytes: int | None = None
    z_order: tuple[str, ...] = ()
    cluster: bool | None = None
    full: bool = False
    min_files: int = 2
    """Files of a partition that are worth a rewrite."""
    auto: bool = False
    """Whether a post-commit hook runs it."""
    commit_metadata: Mapping[str, Any] = field(default_factory=dict)
    dry_run: bool = False
    progress: Callable[[int], None] | None = None

    def __post_init__(self) -> None:
        """Refuse invalid and contradicting options."""
        for name in ("target_size", "min_file_size", "max_bytes", "batch_bytes"):
            value = getattr(self, name)
            if value is not None:
                validate_integer(name, value, 0 if name == "min_file_size" else 1)
        if self.target_size is not None and (self.min_file_size or 0) > self.target_size:
            reason = f"cannot exceed target_size, which is {self.target_size}"
            raise ConfigError("min_file_size", reason)
        if self.z_order and self.cluster is not None:
            raise ConfigError("z_order", "give z_order or cluster, not both")
        if self.full and self.cluster is False:
            raise ConfigError("full", "clusters all files again, so it excludes cluster=False")


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizeResult:
    """Result of OPTIMIZE."""

    table: str
    version: int
    """The last committed version; without a commit, the version that was read."""
    versions: tuple[int, ...] = ()
    """The committed versions, one for each batch of bins."""
    metrics: Mapping[str, int] = field(default_factory=dict)
    """Totals of `operationMetrics` of these commits, under the names of Delta Spark."""
    bins: int = 0
    """Groups of files that were rewritten together."""
    quality: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Overlap depth of each clustering column `before` and `after`: how many files a reader of one
    value opens, by the statistics of the log. Empty for a compaction."""
    dry_run: bool = False
    """Whether nothing was written: `metrics` say what would be read."""
    warnings: tuple[str, ...] = ()
    """Bins that were left for a later run, and failures of post-commit hooks."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)
