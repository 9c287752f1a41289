"""`Snapshot`: one version of a table, as users hold it.

The state that a scan needs is `SnapshotState`, a room below `scan`; this class adds what is above
it: scans, outputs and bundles.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar

from lazydelta import protocol, scan
from lazydelta.errors import ConfigError
from lazydelta.outputs import Outputs
from lazydelta.snapshot import SnapshotState

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    import pyarrow as pa

    from lazydelta.config import ReadOptions, Strategy
    from lazydelta.protocol import RetentionCheck
    from lazydelta.scan import Bundle, Scan, Where

__all__ = ["Snapshot"]


@dataclass(frozen=True, kw_only=True, repr=False)
class Snapshot(SnapshotState, Outputs):
    """One version of a table: immutable, and cheap because its files are not part of it."""

    requested_timestamp: datetime | str | None = None
    """The timestamp that selected this version; None if a version number did, or neither."""

    _internal_names: ClassVar[frozenset[str]] = frozenset(
        {
            *("store", "config", "segment", "resolver", "commits", "checksum", "hint", "footers"),
            *("listed_ms", "tail_keys"),
            *("column_mapping_mode", "generates_columns", "in_commit_timestamps"),
            *("open_checkpoint", "requested_timestamp"),
        }
    )

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the top-level columns, in the schema's order."""
        return self.schema.names

    def scan(
        self,
        where: Where = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        strategy: Strategy = "auto",
        *,
        options: ReadOptions | None = None,
    ) -> Scan:
        """Describe a scan of this version; nothing is read until it is iterated.

        Args:
            where: A predicate: a SQL string, `ld.col(...)` expressions, DNF tuples or an equality
                map. Rows match it exactly; files are listed if they may hold a matching row.
            columns: The columns to read, in this order; None means all.
            limit: The maximum number of rows to read. To list fewer files, use
                `scan().files(limit=...)`.
            strategy: The order in which files are found: `reverse` (newest first), `forward`
                (checkpoint first) or `auto`. It never changes which files are found.
            options: How rows are read and presented; by default `Config.read`.

        Raises:
            ColumnNotFoundError: `columns` or `where` names a column that does not exist.
            PredicateError: `where` cannot be parsed, or does not fit the types of its columns.
        """
        return scan.Scan(
            self, where=where, columns=columns, limit=limit, strategy=strategy, options=options
        )

    def count(self, where: Where = None) -> int:
        """Return the number of matching rows, from the log alone where that is exact."""
        return self.scan(where).count()

    def head(self, n: int = 10) -> pa.Table:
        """Return the first `n` rows; no more files are read than they need."""
        return self.scan(limit=n).to_arrow()

    def to_reader(self, options: ReadOptions | None = None) -> pa.RecordBatchReader:
        """Return all rows of this version as a `RecordBatchReader`."""
        return self.scan().to_reader(options)

    def to_arrow(self, options: ReadOptions | None = None) -> pa.Table:
        """Return all rows of this version as one Arrow table."""
        return self.scan().to_arrow(options)

    def pin(self) -> Bundle:
        """Return a small JSON-able bundle that opens exactly this snapshot again, anywhere."""
        return scan.pin(self, timestamp=self.requested_timestamp)

    def check_retention(self, window: timedelta) -> RetentionCheck:
        """Check whether versions as old as `window` stay readable under the table's retention."""
        if not isinstance(window, timedelta):
            raise ConfigError("window", f"must be a timedelta, not {window!r}")
        return protocol.Retention.parse(self.metadata.configuration).check(window)
