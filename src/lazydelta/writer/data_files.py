"""Rows -> data files and the add actions that will name them. No log, no commit.

Runs wherever rows are: in the process that commits, or in an executor of Spark. Memory is bounded
by what waits to be written (`WriteOptions.memory_limit`, twice: one part waits while another is
encoded), the number of files by `open_files`; both whatever the number of partitions.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import time
import uuid
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lazydelta._arrow import from_numpy
from lazydelta._failpoints import failpoint
from lazydelta.errors import StoreError
from lazydelta.parquet.write import FileSchema, ParquetEncoder, dictionary_columns
from lazydelta.schema import PrimitiveType, StructType
from lazydelta.schema.values import build_array
from lazydelta.store import from_os_error, is_local, open_output
from lazydelta.transaction import ADDS
from lazydelta.writer.file_roll import FileRoll
from lazydelta.writer.partition_router import Partition, PartitionRouter, logged_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from lazydelta.parquet.write import Encoding, StatisticsPlan
    from lazydelta.store import Store
    from lazydelta.writer.layout import DataLayout

__all__ = ["CHANGE_DIRECTORY", "write_data_files"]

CHANGE_DIRECTORY = "_change_data"
"""Where files that tell what changed lie; readers of rows do not look there."""

_ROUTED_ROWS = 1 << 19
"""Rows that are sorted by partition together: enough to be worth it, few enough for a cache."""
_LOCAL_FILES, _REMOTE_FILES = 512, 32
"""Files that may be open at once; one that is being uploaded holds a part of itself in memory."""
_MOST_THREADS = 4
_STRING, _LONG, _BOOLEAN = (PrimitiveType(name) for name in ("string", "long", "boolean"))


def write_data_files(
    batches: Iterable[pa.RecordBatch], *, store: Store, layout: DataLayout, directory: str = ""
) -> pa.Table:
    """Write rows into new files and return their adds, in the schema of `ADDS`.

    If anything fails, the files written so far are removed again as far as the store lets us;
    none of them was ever part of the table.

    Args:
        batches: Rows in the table's logical columns and types.
        store: Of the table.
        layout: How the table wants its files.
        directory: A folder for the files, `CHANGE_DIRECTORY` for instance.
    """
    writing = _Writing(store, layout, directory)
    try:
        for batch in batches:
            writing.take(batch)
        return writing.finish()
    except BaseException:
        writing.abandon()
        raise


@dataclass(frozen=True, slots=True)
class _Written:
    """A file that is in the store."""

    path: str
    values: tuple[tuple[str, str | None], ...]
    size: int
    modified_ms: int
    stats: str


class _OpenFile:
    """A data file that rows are being written to; used by one thread at a time."""

    def __init__(self, store: Store, path: str, partition: Partition, layout: _Shaped) -> None:
        self.path = path
        self._full_path = f"{store.root}/{path}"
        self._partition = partition
        self._output = open_output(store, path)
        try:
            with self._typed_errors():
                self._encoder = ParquetEncoder(
                    self._output.file, layout.shape.schema, layout.encoding, layout.statistics
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
        """Name the file in errors of the disk, which pyarrow raises as they are."""
        try:
            yield
        except StoreError:
            raise
        except OSError as error:
            raise from_os_error(error, self._full_path) from error

    def discard(self) -> None:
        """Leave no file."""
        self._encoder.abandon()
        with contextlib.suppress(StoreError):
            self._output.discard()


@dataclass(frozen=True, slots=True)
class _Shaped:
    """What all files of a write have in common."""

    shape: FileSchema
    encoding: Encoding
    statistics: StatisticsPlan


class _Writing:
    """One write: rows wait, are sorted into partitions, and flushed by threads."""

    def __init__(self, store: Store, layout: DataLayout, directory: str) -> None:
        self._store = store
        self._layout = layout
        self._directory = directory
        partitions = set(layout.partition_columns)
        data = StructType(tuple(f for f in layout.schema if f.name not in partitions))
        shape = FileSchema(data, layout.mapping_mode)
        self._shared = _Shaped(shape, layout.encoding, layout.statistics(shape.physical))
        self._has_dictionary = False
        self._router = PartitionRouter(layout.schema, layout.partition_columns, layout.mapping_mode)
        self._routed: list[pa.RecordBatch] = []
        self._waiting: dict[Partition, list[pa.RecordBatch]] = {}
        self._waiting_rows = self._waiting_bytes = 0
        self._open: dict[Partition, _OpenFile] = {}
        self._roll = FileRoll(layout.target_file_bytes)
        self._written: list[_Written] = []
        self._tasks: list[Future[None]] = []
        self._pool: ThreadPoolExecutor | None = None
        self._numbers = itertools.count()
        options = layout.options
        self._threads = options.files_at_once or min(_cores(), _MOST_THREADS)
        self._most_open = options.open_files or (_LOCAL_FILES if is_local(store) else _REMOTE_FILES)

    # --- rows come in

    def take(self, batch: pa.RecordBatch) -> None:
        """Add rows; writes when enough wait."""
        options = self._layout.options
        if not self._layout.partition_columns:
            for start in range(0, batch.num_rows, options.row_group_rows):
                self._wait(batch.slice(start, options.row_group_rows))
                if self._waiting_rows >= options.row_group_rows:
                    self._flush()
        elif batch.num_rows:
            self._routed.append(batch)
            count = sum(part.num_rows for part in self._routed)
            size = sum(part.nbytes for part in self._routed)
            if count >= _ROUTED_ROWS or size >= options.memory_limit:
                self._route()
        if self._waiting_bytes >= options.memory_limit:
            self._flush()

    def _route(self) -> None:
        """Sort what has come into partitions, a good number of rows at once."""
        if self._routed:
            parts, self._routed = self._routed, []
            self._wait(parts[0] if len(parts) == 1 else pa.concat_batches(parts))

    def _wait(self, batch: pa.RecordBatch) -> None:
        for partition, rows in self._router.split(batch, self._shared.shape.of(batch)):
            self._waiting.setdefault(partition, []).append(rows)
        self._waiting_rows += batch.num_rows
        self._waiting_bytes += batch.nbytes

    # --- rows go out

    def _flush(self) -> None:
        """Give all waiting rows to threads, once those have done with the rows before."""
        self._join()
        waiting, self._waiting = self._waiting, {}
        self._waiting_rows = self._waiting_bytes = 0
        if not waiting:
            return
        self._choose_dictionary(waiting)
        stays = self._make_room(waiting)
        for partition, parts in waiting.items():
            self._run(self._write, partition, parts, partition in stays)

    def _make_room(self, waiting: dict[Partition, list[pa.RecordBatch]]) -> set[Partition]:
        """Close files that are not needed now; return whose files may stay open after this."""
        idle = [partition for partition in self._open if partition not in waiting]
        excess = len(idle) + len(waiting) - self._most_open
        for partition in idle[: max(excess, 0)]:
            self._run(self._close, partition)
        self._join()
        return set(list(waiting)[: self._most_open])

    def _write(self, partition: Partition, parts: list[pa.RecordBatch], stays: bool) -> None:
        """Write rows, into as many files as the target size asks for."""
        rows = pa.Table.from_batches(parts)
        while rows.num_rows:
            file = self._open.pop(partition, None)
            if file is None:
                file = _OpenFile(self._store, self._new_path(partition), partition, self._shared)
            self._open[partition] = file  # at the end: the least recently written one is first
            failpoint("data-file-started")
            before = file.size
            part = rows.slice(0, self._roll.rows_that_fit(rows, before))
            file.write(part)
            self._roll.observe(part, file.size - before)
            rows = rows.slice(part.num_rows)
            if self._roll.is_full(file.size):
                self._close(partition)
        if not stays and partition in self._open:
            self._close(partition)

    def _close(self, partition: Partition) -> None:
        file = self._open[partition]
        encoded = file.size
        written = file.finish()
        self._roll.footer_bytes = written.size - encoded
        self._written.append(written)
        del self._open[partition]

    def _new_path(self, partition: Partition) -> str:
        codec = self._shared.encoding.codec
        suffix = "" if codec == "none" else f".{codec}"
        kind = "cdc" if self._directory == CHANGE_DIRECTORY else "part"
        name = f"{kind}-{next(self._numbers):05d}-{uuid.uuid4()}-c000{suffix}.parquet"
        return "/".join(filter(None, (self._directory, partition.directory, name)))

    def _choose_dictionary(self, waiting: dict[Partition, list[pa.RecordBatch]]) -> None:
        if self._has_dictionary:
            return
        self._has_dictionary = True
        largest = max(waiting.values(), key=lambda parts: sum(part.num_rows for part in parts))
        chosen = dictionary_columns(pa.Table.from_batches(largest))
        encoding = replace(self._shared.encoding, dictionary=chosen)
        self._shared = replace(self._shared, encoding=encoding)

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

    # --- the end

    def finish(self) -> pa.Table:
        """Write all that waits, close all files and return their adds."""
        self._route()
        if self._pool is None and len(self._waiting) == 1:
            self._threads = 1  # a single small file needs no other thread
        self._flush()
        self._join()
        for partition in list(self._open):
            self._run(self._close, partition)
        self._join()
        if self._pool is not None:
            self._pool.shutdown()
        return _adds(sorted(self._written, key=lambda file: file.path))

    def abandon(self) -> None:
        """Stop, and delete every file of this write: none of them is part of the table."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        for file in self._open.values():
            file.discard()
        # An open file may be published already, if the failure came right after that.
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
    given = {
        "path": build_array([logged_path(file.path) for file in files], _STRING),
        "partitionValues": _partition_values(files),
        "size": build_array([file.size for file in files], _LONG),
        "modificationTime": build_array([file.modified_ms for file in files], _LONG),
        "dataChange": build_array([True] * len(files), _BOOLEAN),
        "stats": build_array([file.stats for file in files], _STRING),
    }
    arrays = [
        given[name] if name in given else pa.nulls(len(files), kind)
        for name, kind in zip(ADDS.names, ADDS.types, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=ADDS)


def _partition_values(files: list[_Written]) -> pa.MapArray:
    names = [name for file in files for name, _ in file.values]
    texts = [text for file in files for _, text in file.values]
    offsets = np.cumsum([0, *(len(file.values) for file in files)], dtype=np.int32)
    return pa.MapArray.from_arrays(
        from_numpy(offsets), build_array(names, _STRING), build_array(texts, _STRING)
    )
