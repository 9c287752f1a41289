"""Encode new rows as data files, in this process or in another. Commits nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lazydelta.writer import high_water_marks, write_data_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow as pa

    from lazydelta.operations.replace_where import Replacement
    from lazydelta.store import Store
    from lazydelta.writer import DataLayout, Enforcement

__all__ = ["FileTask", "WrittenRows"]


@dataclass(frozen=True, slots=True)
class WrittenRows:
    """New rows that are in the store, and not yet in the table."""

    adds: pa.Table
    """The adds of their files, in the schema of `transaction.ADDS`."""
    rows: int
    reached: Mapping[str, int] = field(default_factory=dict)
    """How far the numbers of identity columns got, by column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTask:
    """Makes files of new rows, in this process or in another: it can be pickled."""

    intake: Enforcement
    layout: DataLayout
    replaced: Replacement
    """Only for the predicate that new rows must match."""

    def __call__(self, batches: Iterable[pa.RecordBatch], store: Store) -> WrittenRows:
        """Write rows of the schema that was planned for."""
        rows, reached = 0, dict[str, int]()

        def taken() -> Iterator[pa.RecordBatch]:
            nonlocal rows, reached
            for batch in batches:
                fitting = self.intake(batch, before=rows)
                rows += batch.num_rows
                reached = high_water_marks(self.intake.identity, fitting, reached)
                yield self.replaced.checked(fitting, self.intake.table)

        adds = write_data_files(taken(), store=store, layout=self.layout)
        return WrittenRows(adds, rows, reached)
