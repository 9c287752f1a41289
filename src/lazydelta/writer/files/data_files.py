"""Write rows to data files and return their add actions. No log, no commit.

Runs in the committing process or in a Spark executor. Independent of the number of partitions,
memory is bounded by twice `WriteOptions.memory_limit` (one part is buffered while another is
encoded), and open files by `open_files`.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import time
import uuid
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lazydelta._arrow import from_numpy
from lazydelta._failpoints import failpoint
from lazydelta.errors import StoreError, from_os_error
from lazydelta.parquet.write import FileSchema, ParquetEncoder, dictionary_columns
from lazydelta.schema import PrimitiveType, StructType
from lazydelta.schema.values import build_array
from lazydelta.store import is_local, open_output
from lazydelta.transaction import ADDS
from lazydelta.writer import tuning
from lazydelta.writer.files.file_roll import FileRoll
from lazydelta.writer.files.partition_router import Partition, PartitionRouter, encode_path
from lazydelta.writer.files.partition_spool import PartitionSpool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from lazydelta.parquet.write import Encoding, StatisticsPlan
    from lazydelta.store import Store
    from lazydelta.writer.files.layout import DataLayout

__all__ = ["CHANGE_DIRECTORY", "write_data_files"]

CHANGE_DIRECTORY = "_change_data"
"""Directory of change data files, as the protocol names it."""

_STRING, _LONG, _BOOLEAN = (PrimitiveType(name) for name in ("string", "long", "boolean"))


def write_data_files(
    batches: Iterable[pa.RecordBatch], *, store: Store, layout: DataLayout, directory: str = ""
) -> pa.Table:
    """Write rows to new files and return their add actions in the schema of `ADDS`.

    If the write fails, the files written so far are deleted where possible; none of them was part
    of the table.

    Args:
        batches: Rows in the table's logical schema.
        store: The table's store.
        layout: The layout of the table's data files.
        directory: Parent directory of the files, as `CHANGE_DIRECTORY`.
    """
    writer = _DataFileWriter(store, layout, directory)
    try:
        for batch in batches:
            writer.write(batch)
        return writer.finish()
    except BaseException:
        writer.abort()
        raise


@dataclass(frozen=True, slots=True)
class _Written:
    """A published data file."""

    path: str
    values: tuple[tuple[str, str | None], ...]
    size: int
    modified_ms: int
    stats: str


class _OpenFile:
    """A data file that is being written; used by one thread at a time."""

    def __init__(self, store: Store, path: str, partition: Partition, settings: _Settings) -> None:
        self.path = path
        self._full_path = f"{store.root}/{path}"
        self._partition = partition
        self.rows_left = settings.max_rows
        self._output = open_output(store, path)
        try:
            with self._typed_errors():
                self._encoder = ParquetEncoder(
                    self._output.file,
                    settings.file_schema.schema,
                    settings.encoding,
                    settings.statistics,
                )
        except BaseException:
            self._output.discard()
            raise

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return self._encoder.size

    def write(self, rows: pa.Table) -> None:
        with self._typed_errors():
            self._encoder.write(rows)
        self.rows_left -= rows.num_rows

    def finish(self) -> _Written:
        """Publish the file."""
        with self._typed_errors():
            encoded = self._encoder.close()
        self._output.publish()
        failpoint("data-file-written")
        now = time.time_ns() // 1_000_000
        return _Written(self.path, self._partition.values, encoded.size, now, encoded.stats)

    @contextlib.contextmanager
    def _typed_errors(self) -> Iterator[None]:
        """Convert an OSError of pyarrow into a typed error that names the file."""
        try:
            yield
        except StoreError:
            raise
        except OSError as error:
            raise from_os_error(error, self._full_path) from error

    def discard(self) -> None:
        """Close the file without publishing it."""
        self._encoder.abandon()
        with contextlib.suppress(StoreError):
            self._output.discard()


@dataclass(frozen=True, slots=True)
class _Settings:
    """Encoder settings that all files of a write share."""

    file_schema: FileSchema
    encoding: Encoding
    statistics: StatisticsPlan
    max_rows: int


class _DataFileWriter:
    """Buffers rows, splits them by partition, and encodes them in threads."""

    def __init__(self, store: Store, layout: DataLayout, directory: str) -> None:
        self._store = store
        self._layout = layout
        self._directory = directory
        partitions = set(layout.partition_columns)
        data = StructType(tuple(f for f in layout.schema if f.name not in partitions))
        file_schema = FileSchema(data, layout.mapping_mode)
        statistics = layout.statistics(file_schema.physical)
        most = layout.options.max_rows_per_file or sys.maxsize
        self._settings = _Settings(file_schema, layout.encoding, statistics, most)
        self._has_dictionary = False
        self._router = PartitionRouter(layout.schema, layout.partition_columns, layout.mapping_mode)
        self._unsorted: list[pa.RecordBatch] = []
        self._buffered: dict[Partition, list[pa.RecordBatch]] = {}
        self._buffered_rows = self._buffered_bytes = 0
        self._open: dict[Partition, _OpenFile] = {}
        self._roll = FileRoll(layout.target_file_bytes)
        self._written: list[_Written] = []
        self._tasks: list[Future[None]] = []
        self._pool: ThreadPoolExecutor | None = None
        self._numbers = itertools.count()
        options = layout.options
        self._threads = options.files_at_once or min(_cores(), tuning.MAX_THREADS)
        default = tuning.LOCAL_OPEN_FILES if is_local(store) else tuning.REMOTE_OPEN_FILES
        self._max_open = options.open_files or default
        self._may_spool = layout.optimizes_writes
        self._spool: PartitionSpool | None = None

    # --- input

    def write(self, batch: pa.RecordBatch) -> None:
        """Buffer rows; flushes full buffers."""
        options = self._layout.options
        if not self._layout.partition_columns:
            for start in range(0, batch.num_rows, options.row_group_rows):
                self._buffer(batch.slice(start, options.row_group_rows))
                if self._buffered_rows >= options.row_group_rows:
                    self._flush()
        elif batch.num_rows:
            self._unsorted.append(batch)
            count = sum(part.num_rows for part in self._unsorted)
            size = sum(part.nbytes for part in self._unsorted)
            if count >= tuning.ROUTED_ROWS or size >= options.memory_limit:
                self._route()
        if self._buffered_bytes >= options.memory_limit:
            self._flush()

    def _route(self) -> None:
        """Split the unsorted batches by partition in one sort."""
        if self._unsorted:
            parts, self._unsorted = self._unsorted, []
            self._buffer(parts[0] if len(parts) == 1 else pa.concat_batches(parts))

    def _buffer(self, batch: pa.RecordBatch) -> None:
        for partition, rows in self._router.split(batch, self._settings.file_schema.of(batch)):
            self._buffered.setdefault(partition, []).append(rows)
        self._buffered_rows += batch.num_rows
        self._buffered_bytes += batch.nbytes

    # --- output

    def _flush(self) -> None:
        """Submit all buffered rows to threads, once those have written the previous ones."""
        self._join()
        buffered, self._buffered = self._buffered, {}
        self._buffered_rows = self._buffered_bytes = 0
        if not buffered:
            return
        if self._may_spool and (self._spool or len(buffered) > self._max_open):
            self._append_to_spool(buffered)
            return
        self._choose_dictionary(buffered)
        keep_open = self._close_idle(buffered)
        for partition, parts in buffered.items():
            self._run(self._write, partition, parts, partition in keep_open)

    def _append_to_spool(self, buffered: dict[Partition, list[pa.RecordBatch]]) -> None:
        """Store rows of more partitions than open files, to be written by partition."""
        self._spool = self._spool or PartitionSpool()
        for partition, parts in buffered.items():
            for rows in parts:
                self._spool.append(partition, rows)

    def _flush_spool(self, spool: PartitionSpool) -> None:
        for partition, rows in spool.drain():
            self._buffered.setdefault(partition, []).append(rows)
            self._buffered_bytes += rows.nbytes
            if self._buffered_bytes >= self._layout.options.memory_limit:
                self._flush()

    def _close_idle(self, buffered: dict[Partition, list[pa.RecordBatch]]) -> set[Partition]:
        """Close idle files over the limit; return the partitions whose files may stay open."""
        idle = [partition for partition in self._open if partition not in buffered]
        excess = len(idle) + len(buffered) - self._max_open
        for partition in idle[: max(excess, 0)]:
            self._run(self._close, partition)
        self._join()
        return set(list(buffered)[-self._max_open :])  # of sorted rows, the last ones continue

    def _write(self, partition: Partition, parts: list[pa.RecordBatch], keep_open: bool) -> None:
        """Write rows of one partition, starting a new file at each target size."""
        rows = pa.Table.from_batches(parts)
        while rows.num_rows:
            file = self._open.pop(partition, None)
            if file is None:
                file = _OpenFile(self._store, self._new_path(partition), partition, self._settings)
            self._open[partition] = file  # last: files are in order of their latest write
            failpoint("data-file-started")
            before = file.size
            part = rows.slice(0, min(self._roll.rows_that_fit(rows, before), file.rows_left))
            file.write(part)
            self._roll.observe(part, file.size - before)
            rows = rows.slice(part.num_rows)
            if self._roll.is_full(file.size) or not file.rows_left:
                self._close(partition)
        if not keep_open and partition in self._open:
            self._close(partition)

    def _close(self, partition: Partition) -> None:
        file = self._open[partition]
        encoded = file.size
        written = file.finish()
        self._roll.footer_bytes = written.size - encoded
        self._written.append(written)
        del self._open[partition]

    def _new_path(self, partition: Partition) -> str:
        codec = self._settings.encoding.codec
        suffix = "" if codec == "none" else f".{codec}"
        kind = "cdc" if self._directory == CHANGE_DIRECTORY else "part"
        name = f"{kind}-{next(self._numbers):05d}-{uuid.uuid4()}-c000{suffix}.parquet"
        return "/".join(filter(None, (self._directory, partition.directory, name)))

    def _choose_dictionary(self, buffered: dict[Partition, list[pa.RecordBatch]]) -> None:
        if self._has_dictionary:
            return
        self._has_dictionary = True
        largest = max(buffered.values(), key=lambda parts: sum(part.num_rows for part in parts))
        columns = dictionary_columns(pa.Table.from_batches(largest))
        encoding = replace(self._settings.encoding, dictionary=columns)
        self._settings = replace(self._settings, encoding=encoding)

    # --- threads

    def _run(self, work: Callable[..., None], *arguments: Any) -> None:
        if self._threads == 1:
            work(*arguments)
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="lazydelta-write")
        self._tasks.append(self._pool.submit(work, *arguments))

    def _join(self) -> None:
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.result()

    # --- completion

    def finish(self) -> pa.Table:
        """Write all buffered rows, close all files and return their add actions."""
        self._route()
        if self._pool is None and len(self._buffered) == 1:
            self._threads = 1  # a single small file needs no thread pool
        self._may_spool = self._spool is not None
        self._flush()
        self._may_spool = False
        if self._spool is not None:
            self._flush_spool(self._spool)
            self._flush()
        self._join()
        for partition in list(self._open):
            self._run(self._close, partition)
        self._join()
        if self._pool is not None:
            self._pool.shutdown()
        return _adds(sorted(self._written, key=lambda file: file.path))

    def abort(self) -> None:
        """Stop, and delete every file of this write."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        if self._spool is not None:
            self._spool.close()
        for file in self._open.values():
            file.discard()
        # An open file may already be published, if the failure followed immediately.
        published = [file.path for file in self._written]
        published += [file.path for file in self._open.values()]
        with contextlib.suppress(StoreError):
            self._store.delete(published)


def _cores() -> int:
    usable = (
        os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    )
    return len(usable)


def _adds(files: list[_Written]) -> pa.Table:
    columns = {
        "path": build_array([encode_path(file.path) for file in files], _STRING),
        "partitionValues": _partition_values(files),
        "size": build_array([file.size for file in files], _LONG),
        "modificationTime": build_array([file.modified_ms for file in files], _LONG),
        "dataChange": build_array([True] * len(files), _BOOLEAN),
        "stats": build_array([file.stats for file in files], _STRING),
    }
    arrays = [
        columns[name] if name in columns else pa.nulls(len(files), kind)
        for name, kind in zip(ADDS.names, ADDS.types, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=ADDS)


def _partition_values(files: list[_Written]) -> pa.MapArray:
    names = [name for file in files for name, _ in file.values]
    values = [value for file in files for _, value in file.values]
    offsets = np.cumsum([0, *(len(file.values) for file in files)], dtype=np.int32)
    return pa.MapArray.from_arrays(
        from_numpy(offsets), build_array(names, _STRING), build_array(values, _STRING)
    )
