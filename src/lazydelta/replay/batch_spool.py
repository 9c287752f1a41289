"""A queue of batches that spills to disk beyond a memory limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.ipc

if TYPE_CHECKING:
    import tempfile
    from collections.abc import Iterator

__all__ = ["BatchSpool"]


class BatchSpool:
    """Stores batches of one schema in order; all are appended before any is read.

    Args:
        memory_limit: Bytes held in memory before the rest is written to a temporary file.
        compression: The codec of that file; none for batches that compress little.
    """

    def __init__(self, *, memory_limit: int, compression: str | None = None) -> None:
        self._limit = memory_limit
        self._compression = compression
        self._held: list[pa.RecordBatch] = []
        self._bytes = 0
        self._file: tempfile._TemporaryFileWrapper[bytes] | None = None
        self._writer: pa.ipc.RecordBatchFileWriter | None = None

    def append(self, batch: pa.RecordBatch) -> None:
        """Append a batch."""
        if self._writer is None and self._bytes + batch.nbytes <= self._limit:
            self._held.append(batch)
            self._bytes += batch.nbytes
            return
        if self._writer is None:
            import tempfile  # slow to import, and few spools spill

            self._file = tempfile.NamedTemporaryFile(prefix="lazydelta-spool-")  # noqa: SIM115
            options = pa.ipc.IpcWriteOptions(compression=self._compression)
            self._writer = pa.ipc.new_file(self._file, batch.schema, options=options)
        self._writer.write_batch(batch)

    def drain(self) -> Iterator[pa.RecordBatch]:
        """Yield all batches in order; afterwards the spool is closed."""
        try:
            while self._held:
                yield self._held.pop(0)
            if self._writer is not None and self._file is not None:
                self._writer.close()
                self._file.flush()
                with pa.OSFile(self._file.name) as source:
                    reader = pa.ipc.open_file(source)
                    for index in range(reader.num_record_batches):
                        yield reader.get_batch(index)
        finally:
            self.close()

    def close(self) -> None:
        """Drop the remaining batches."""
        self._held.clear()
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        if self._file is not None:
            self._file.close()
            self._file = None
