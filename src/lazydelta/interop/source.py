"""What every adapter is given, a table, a snapshot or a scan, brought to one thing: a `Scan`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lazydelta.errors import ConfigError
from lazydelta.scan import Scan
from lazydelta.snapshot import Snapshot
from lazydelta.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lazydelta.expr import Predicate

__all__ = ["Source", "as_scan", "narrowed", "shared_limit"]

Source = Table | Snapshot | Scan


def as_scan(source: Any) -> Scan:
    """Return the scan behind a source; a `Table` is pinned to the version it has now.

    Raises:
        ConfigError: It is none of the three.
    """
    if isinstance(source, Scan):
        return source
    if isinstance(source, Snapshot):
        return Scan(source)
    if isinstance(source, Table):
        return source.scan()
    kind = type(source).__name__
    raise ConfigError("source", f"give a Table, a Snapshot or a Scan, not a {kind}")


def narrowed(
    scan: Scan,
    *,
    where: Predicate | None = None,
    columns: Sequence[str] | None = None,
    limit: int | None = None,
) -> Scan:
    """Return the scan with a further condition, fewer columns or fewer rows.

    A condition on a scan that has a limit would change which rows the limit counts, so the
    caller must not give one.
    """
    kept = scan.predicate
    if where is not None:
        kept = where if kept is None else kept & where
    return Scan(
        scan.snapshot,
        where=kept,
        columns=scan.columns if columns is None else columns,
        limit=shared_limit(scan.limit, limit),
        strategy=scan.strategy,
    )


def shared_limit(first: int | None, second: int | None) -> int | None:
    """Return the lesser of two limits; None is no limit."""
    given = [limit for limit in (first, second) if limit is not None]
    return min(given, default=None)
