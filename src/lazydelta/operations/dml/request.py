"""Options and results of DELETE and UPDATE."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from lazydelta.operations.write_request import WriteRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lazydelta.scan import Where

__all__ = ["DmlRequest", "DmlResult"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DmlRequest:
    """Options of a verb; see `Table.delete` for their meaning."""

    where: Where = None
    app_id: str | None = None
    app_version: int | None = None
    commit_metadata: Mapping[str, Any] = field(default_factory=dict)
    dry_run: bool = False
    now: int = field(default_factory=lambda: time.time_ns() // 1_000)
    """The time of the statement, for `current_timestamp()`: microseconds since 1970."""

    def as_write(self) -> WriteRequest:
        """Return the options that a write has too, validated.

        Raises:
            ConfigError: They are invalid or contradict each other.
        """
        return WriteRequest(
            app_id=self.app_id,
            app_version=self.app_version,
            commit_metadata=self.commit_metadata,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DmlResult:
    """Result of DELETE or UPDATE."""

    table: str
    version: int
    """The committed version; without a commit, the version that was read."""
    metrics: Mapping[str, int] = field(default_factory=dict)
    """`operationMetrics` of the commit, under the names of Delta Spark."""
    files_added: int = 0
    """New data files; files that only get a new deletion vector do not count."""
    files_removed: int = 0
    bytes: int = 0
    """Total size of the new data files."""
    dry_run: bool = False
    """Whether nothing was written: `metrics` say what would happen."""
    already_applied: bool = False
    """Whether the table has this application transaction, and nothing was written."""
    warnings: tuple[str, ...] = ()
    """Failures of post-commit hooks; the commit succeeded."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)
