"""The source of a MERGE in chunks of bounded size; a source of several is spooled to disk.

Rows get the Arrow types of their Delta types. A spooled source is a temporary file that is read
once for each pass.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from lazydelta._memory import release_memory
from lazydelta.errors import SchemaMismatchError
from lazydelta.schema import from_arrow_schema, to_arrow_schema
from lazydelta.writer import as_source
from lazydelta.writer.enforcement import cast_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lazydelta.schema import StructType
    from lazydelta.writer import RowSource

__all__ = ["MergeSource", "SourceChunk", "SourceChunks"]

_SPOOL_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


@dataclass(frozen=True, slots=True)
class SourceChunk:
    """Consecutive rows of the source."""

    index: int
    rows: pa.RecordBatch


class MergeSource:
    """Rows to merge, opened on first use: a plan needs their schema before a run their rows.

    Args:
        data: The rows, in any form that `Table.write` accepts.
    """

    def __init__(self, data: Any) -> None:
        self._data = data
        self._opened: RowSource | None = None

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        self._opened = self._opened or as_source(self._data)
        return self._opened.schema

    def take(self) -> RowSource:
        """Return the rows; a stream can be taken once."""
        opened, self._opened = self._opened, None
        return opened or as_source(self._data)


class SourceChunks:
    """The rows of a source, which can be iterated any number of times.

    Use it as a context manager: closing it deletes the temporary file.

    Args:
        source: The rows; consumed on entry.
        chunk_bytes: Size of a chunk in memory, approximately.
    """

    def __init__(self, source: RowSource, *, chunk_bytes: int) -> None:
        self.schema: StructType = from_arrow_schema(source.schema)
        self._arrow_schema = to_arrow_schema(self.schema)
        self._source = source
        self._chunk_bytes = chunk_bytes
        self._stack = ExitStack()
        self._only: pa.RecordBatch | None = None  # the only chunk, if there is no spool
        self._spool: Path | None = None
        self._batches: list[int] = []  # of each spooled chunk
        self.num_rows = 0

    def __enter__(self) -> Self:
        try:
            self._consume()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._only = None
        self._stack.close()

    @property
    def num_chunks(self) -> int:
        """The number of chunks; one if there are no rows."""
        return max(1, len(self._batches))

    def __iter__(self) -> Iterator[SourceChunk]:
        if self._only is not None:
            yield SourceChunk(0, self._only)
            return
        if self._spool is None:
            return
        with pa.OSFile(str(self._spool), "rb") as file, pa.ipc.open_stream(file) as reader:
            for index, count in enumerate(self._batches):
                release_memory()  # of the chunk before
                batches = [reader.read_next_batch() for _ in range(count)]
                rows = _combined(batches, self._arrow_schema)
                del batches
                yield SourceChunk(index, rows)
                del rows

    def _consume(self) -> None:
        """Read all rows: into memory, or into the spool once they are more than a chunk."""
        parts = (part for batch in self._source.batches for part in self._parts(batch))
        buffered: list[pa.RecordBatch] = []
        size = 0
        for part in parts:
            buffered.append(part)
            size += part.nbytes
            if size > self._chunk_bytes:
                self._write_spool(buffered, parts)
                return
        self._only = _combined(buffered, self._arrow_schema)

    def _write_spool(self, buffered: list[pa.RecordBatch], parts: Iterable[pa.RecordBatch]) -> None:
        directory = tempfile.TemporaryDirectory(prefix="lazydelta-merge-")
        self._spool = Path(self._stack.enter_context(directory)) / "source.arrow"
        size = 0
        with (
            pa.OSFile(str(self._spool), "wb") as file,
            pa.ipc.new_stream(file, self._arrow_schema, options=_SPOOL_OPTIONS) as writer,
        ):
            for part in chain(_drained(buffered), parts):
                if not self._batches or size + part.nbytes > self._chunk_bytes:
                    self._batches.append(0)
                    size = 0
                self._batches[-1] += 1
                size += part.nbytes
                writer.write_batch(part)

    def _parts(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield a batch in the source's types, in parts that fit in a chunk."""
        self.num_rows += batch.num_rows
        rows = self._cast(batch)
        rows_per_part = max(1, rows.num_rows * self._chunk_bytes // max(1, rows.nbytes))
        for start in range(0, rows.num_rows, rows_per_part):
            yield rows.slice(start, rows_per_part)

    def _cast(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        try:
            columns = [
                cast_values(column, field.type)
                for column, field in zip(batch.columns, self.schema, strict=True)
            ]
        except pa.ArrowInvalid as error:
            raise SchemaMismatchError("the source", (str(error),), "Cast the column.") from None
        return pa.RecordBatch.from_arrays(columns, schema=self._arrow_schema)


def _drained(items: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield items, and release each before the next."""
    while items:
        yield items.pop(0)


def _combined(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    combined = pa.Table.from_batches(batches, schema).combine_chunks().to_batches()
    if combined:
        return combined[0]
    return pa.RecordBatch.from_arrays([pa.nulls(0, t) for t in schema.types], schema=schema)
