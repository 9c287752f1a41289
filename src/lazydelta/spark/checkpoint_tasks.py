"""What the tasks of a checkpoint do: read what counts of the old one, cut it, sort it, write it.

Rows are those of `checkpoint.CheckpointParts`: actions with their place in the order of the layout.
"""

from __future__ import annotations

import pickle
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as t

from lazydelta._arrow import selection
from lazydelta.checkpoint import TombstonePart
from lazydelta.errors import ObjectExistsError
from lazydelta.scan.plan import conformed
from lazydelta.spark.checkpoint_ranges import sample_of, whole_ranges
from lazydelta.spark.tasks import spoken_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lazydelta.checkpoint import CheckpointParts, PartFile
    from lazydelta.scan.plan import CheckpointPart, PartReader
    from lazydelta.spark.checkpoint_ranges import Ranges
    from lazydelta.spark.shipped import ShippedSnapshot

    OldPart = tuple[CheckpointPart, ...] | TombstonePart
    """A part of the old checkpoint: where it has adds, or where it has tombstones."""

__all__ = ["REPORT", "CheckpointTasks"]

REPORT = t.StructType([t.StructField("range", t.LongType()), t.StructField("part", t.BinaryType())])
"""What a task tells: the number of a range, and a file that it became; nothing if it was there."""
_ROWS_TOGETHER = 32_768


@dataclass(frozen=True)
class CheckpointTasks:
    """The work; it can be pickled."""

    shipped: ShippedSnapshot
    parts: CheckpointParts
    reader: PartReader

    # --- rows

    def read_old(self, part: OldPart) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part of the old checkpoint about files that no commit speaks of."""
        keyed = (
            self.parts.tombstones(self.shipped.open(), part)
            if isinstance(part, TombstonePart)
            else self._read_adds(part)
        )
        with closing(spoken_of(self.reader, self.shipped.segment)) as newer:
            for batch in keyed:
                keys = pc.coalesce(batch.column("key"), batch.column("path"))
                rows = batch.filter(selection(~newer.contains(keys)))
                yield rows.select(self.parts.schema.names)

    def read_tombstones(self, part: TombstonePart) -> Iterator[pa.RecordBatch]:
        """Yield the tombstones of commits."""
        for batch in self.parts.tombstones(self.shipped.open(), part):
            yield batch.select(self.parts.schema.names)

    def place_adds(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield live files of commits with their place in the order."""
        for batch in batches:
            if batch.num_rows:
                yield self.parts.add_rows(batch)

    def _read_adds(self, parts: tuple[CheckpointPart, ...]) -> Iterator[pa.RecordBatch]:
        for batch in self.reader.read_checkpoint(parts):
            rows = self.parts.add_rows(batch.select(self.reader.schema.names))
            yield rows.append_column("key", batch.column("key"))

    # --- ranges

    def sample(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what a few of the rows are sorted by."""
        found = sample_of(rows, self.parts.order)
        if found is not None:
            yield from found.to_batches()

    def sample_old(self, part: OldPart) -> Iterator[pa.RecordBatch]:
        """Yield the same for a part of the old checkpoint."""
        return self.sample(self.read_old(part))

    def cut_old(self, ranges: Ranges, part: OldPart) -> Iterator[pa.RecordBatch]:
        """Yield a part of the old checkpoint in chunks."""
        return ranges.chunks(self.read_old(part))

    def cut_new(
        self, ranges: Ranges, batches: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows of commits, which come by way of Spark, in chunks."""
        schema = self.parts.schema
        return ranges.chunks(
            pa.RecordBatch.from_arrays(
                [conformed(batch.column(item.name), item.type) for item in schema], schema=schema
            )
            for batch in batches
        )

    # --- files

    def write(self, expected: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write all rows, which come sorted, to one file, and tell what became of it."""
        rows = (batch for batch in batches if batch.num_rows)
        try:
            for part in self.parts.write(self.shipped.open(), rows, expected=expected):
                yield _report(0, part)
        except ObjectExistsError:
            yield _report(0, None)

    def write_ranges(self, chunks: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write ranges, one after the other, and tell of their files."""
        for number, rows in whole_ranges(chunks, self.parts.order):
            batches = rows.to_batches(max_chunksize=_ROWS_TOGETHER)
            for part in self.parts.write(self.shipped.open(), batches, expected=-1):
                yield _report(number, part)


def _report(number: int, part: PartFile | None) -> pa.RecordBatch:
    columns = [pa.array([number], pa.int64()), pa.array([pickle.dumps(part)], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, names=REPORT.names)
