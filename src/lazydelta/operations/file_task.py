"""Write new rows to data files, in this process or in a Spark executor. No commit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lazydelta.operations.row_tracking import NO_ROW_TRACKING, RowTracking
from lazydelta.writer.columns import high_water_marks
from lazydelta.writer.files import write_data_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow as pa

    from lazydelta.operations.replace_where import Replacement
    from lazydelta.store import Store
    from lazydelta.writer.enforcement import Enforcement
    from lazydelta.writer.files import DataLayout

__all__ = ["FileTask", "WrittenRows"]


@dataclass(frozen=True, slots=True)
class WrittenRows:
    """New rows in data files that are not committed yet."""

    adds: pa.Table
    """Add actions of the files, in the schema of `transaction.ADDS`."""
    rows: int
    high_water_marks: Mapping[str, int] = field(default_factory=dict)
    """The furthest value of each identity column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTask:
    """Enforces the schema on new rows and writes them to data files. Pickles."""

    enforcement: Enforcement
    layout: DataLayout
    replacement: Replacement | None = None
    """Only its predicate, which new rows must match."""
    tracking: RowTracking = NO_ROW_TRACKING
    """Row ids that rows keep: the last column of the input, if they are tracked."""
    row_number: str | None = None
    """Name of the last column of the input, if it has the number of each row in the write; for new
    rows only, which keep no row ids."""

    @property
    def input_columns(self) -> list[str]:
        """Column names of the input."""
        extra = self.tracking.row_id or self.row_number
        return [*self.enforcement.input_columns, *([] if extra is None else [extra])]

    def __call__(self, batches: Iterable[pa.RecordBatch], store: Store) -> WrittenRows:
        """Write rows of the planned schema."""
        rows, marks = 0, dict[str, int]()

        def enforced() -> Iterator[pa.RecordBatch]:
            nonlocal rows, marks
            for batch in batches:
                given = batch.select(self.enforcement.input_columns)
                offset = batch.column(-1) if self.row_number is not None else rows
                output = self.enforcement(given, row_offset=offset)
                rows += batch.num_rows
                marks = high_water_marks(self.enforcement.identity, output, marks)
                if self.replacement is not None:
                    output = self.replacement.checked(output, self.enforcement.table)
                tracked = self.tracking.row_id is not None
                yield self.tracking.updated(output, batch.column(-1)) if tracked else output

        adds = write_data_files(enforced(), store=store, layout=self.layout)
        return WrittenRows(adds, rows, marks)
