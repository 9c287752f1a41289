"""The source of a MERGE in chunks of bounded size; a source of several is spooled to disk.

Rows get the Arrow types of their Delta types. A spooled source is a temporary file that is read
once for each pass.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

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
        self._first: pa.RecordBatch | None = None  # the only chunk, if there is no spool
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
        self._first = None
        self._stack.close()

    @property
    def num_chunks(self) -> int:
        """The number of chunks; one if there are no rows."""
        return max(1, len(self._batches))

    def __iter__(self) -> Iterator[SourceChunk]:
        if self._first is not None:
            yield SourceChunk(0, self._first)
            return
        if self._spool is None:
            return
        with pa.OSFile(str(self._spool), "rb") as file, pa.ipc.open_stream(file) as reader:
            for index, count in enumerate(self._batches):
                batches = [reader.read_next_batch() for _ in range(count)]
                yield SourceChunk(index, _combined(batches, self._arrow_schema))

    def _consume(self) -> None:
        chunks = self._chunks()
        first = next(chunks, [])
        second = next(chunks, None)
        if second is None:
            self._first = _combined(first, self._arrow_schema)
            return
        directory = tempfile.TemporaryDirectory(prefix="lazydelta-merge-")
        self._spool = Path(self._stack.enter_context(directory)) / "source.arrow"
        with self._writer(self._spool) as writer:
            for chunk in self._with(first, second, chunks):
                self._batches.append(len(chunk))
                for batch in chunk:
                    writer.write_batch(batch)

    @staticmethod
    def _with(
        first: list[pa.RecordBatch],
        second: list[pa.RecordBatch],
        rest: Iterable[list[pa.RecordBatch]],
    ) -> Iterator[list[pa.RecordBatch]]:
        yield first
        yield second
        yield from rest

    @contextmanager
    def _writer(self, path: Path) -> Iterator[pa.RecordBatchWriter]:
        with (
            pa.OSFile(str(path), "wb") as file,
            pa.ipc.new_stream(file, self._arrow_schema, options=_SPOOL_OPTIONS) as writer,
        ):
            yield writer

    def _chunks(self) -> Iterator[list[pa.RecordBatch]]:
        chunk: list[pa.RecordBatch] = []
        size = 0
        for batch in self._source.batches:
            for part in self._parts(batch):
                if chunk and size + part.nbytes > self._chunk_bytes:
                    yield chunk
                    chunk, size = [], 0
                chunk.append(part)
                size += part.nbytes
        if chunk:
            yield chunk

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


def _combined(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    combined = pa.Table.from_batches(batches, schema).combine_chunks().to_batches()
    if combined:
        return combined[0]
    return pa.RecordBatch.from_arrays([pa.nulls(0, t) for t in schema.types], schema=schema)
