"""The changes of a verb: files that are written and not committed yet."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from lazydelta._arrow import empty_table
from lazydelta.transaction import CHANGE_FILES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lazydelta.operations.dml.row_deletion import RowDeletion
    from lazydelta.protocol import TableMetadata, TableProtocol

__all__ = ["RowChanges", "WrittenChanges"]

T = TypeVar("T", bound="RowDeletion | WrittenChanges")


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenChanges:
    """The files of a verb that are written and not committed yet."""

    adds: pa.Table
    """New data files."""
    marked: pa.Table
    """Files with new deletion vectors, in the order of `RowDeletion.marked`."""
    changes: pa.Table = field(default_factory=lambda: empty_table(CHANGE_FILES))
    copied_rows: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChanges:
    """What a verb does to some files of the table."""

    deletion: RowDeletion
    written: WrittenChanges
    metrics: Mapping[str, int | None]
    """The numbers of rows; None is unknown."""
    protocol: TableProtocol | None = None
    """The new protocol; None if it does not change."""
    metadata: TableMetadata | None = None
    """The new metadata; None if they do not change."""

    def timed(self, phases: Mapping[str, int]) -> RowChanges:
        """Return these changes with the times of the phases."""
        return replace(self, metrics={**self.metrics, **phases})

    def joined(self, other: RowChanges) -> RowChanges:
        """Return these changes together with those of other files."""
        names = self.metrics.keys() | other.metrics.keys()
        return replace(
            self,
            deletion=_joined(self.deletion, other.deletion),
            written=_joined(self.written, other.written),
            metrics={
                name: _sum(self.metrics.get(name, 0), other.metrics.get(name, 0))
                for name in sorted(names)
            },
        )


def _joined(first: T, second: T) -> T:
    """Return a dataclass whose tables, arrays, tuples and numbers are those of both."""
    values = {
        part.name: _concatenated(getattr(first, part.name), getattr(second, part.name))
        for part in fields(first)
    }
    return type(first)(**values)


def _concatenated(first: Any, second: Any) -> Any:
    if isinstance(first, pa.Table):
        return pa.concat_tables([first, second]).combine_chunks()
    if isinstance(first, pa.Array | pa.ChunkedArray):
        return pa.chunked_array([*_chunks(first), *_chunks(second)], first.type).combine_chunks()
    return first + second


def _chunks(array: pa.Array | pa.ChunkedArray) -> list[pa.Array]:
    return array.chunks if isinstance(array, pa.ChunkedArray) else [array]


def _sum(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first + second
