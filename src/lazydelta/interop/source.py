"""What every adapter is given, brought to one thing: a `Feed`, which can be narrowed and read.

A table, a snapshot and a scan are feeds of rows; a change feed is one of changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, Self

from lazydelta.changes import ChangeFeed
from lazydelta.errors import ConfigError
from lazydelta.scan import Scan
from lazydelta.snapshot import Snapshot
from lazydelta.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from lazydelta.expr import Predicate
    from lazydelta.scan import Explanation, Presentation, ReadOptions, Stream
    from lazydelta.schema import StructType

__all__ = ["Feed", "Source", "as_feed"]

Source = Table | Snapshot | Scan | ChangeFeed


class Feed(Protocol):
    """What adapters need of a source of rows; `Scan` and `ChangeFeed` have it."""

    limit: int | None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that it can be narrowed to."""

    def presentation(
        self, options: ReadOptions | None = None, *, views: bool = True
    ) -> Presentation:
        """Return how rows are shown."""

    def filterable(self, options: ReadOptions | None = None) -> StructType:
        """Return the columns on which a condition means the same here and elsewhere."""

    def narrowed(
        self,
        *,
        where: Predicate | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> Self:
        """Return the same with a further condition, fewer columns or fewer rows."""

    def to_batches(
        self, options: ReadOptions | None = None, *, encoded: bool = True
    ) -> Stream[pa.RecordBatch]:
        """Return the rows."""

    def count(self) -> int:
        """Return how many rows there are."""

    def explain(self) -> Explanation:
        """Return what the latest read chose, read and left out."""


def as_feed(source: Any) -> Feed:
    """Return the feed behind a source; a `Table` is pinned to the version it has now.

    Raises:
        ConfigError: It is none of them.
    """
    if isinstance(source, Scan | ChangeFeed):
        return source
    if isinstance(source, Snapshot):
        return Scan(source)
    if isinstance(source, Table):
        return source.scan()
    kind = type(source).__name__
    raise ConfigError("source", f"give a Table, a Snapshot, a Scan or a ChangeFeed, not a {kind}")
