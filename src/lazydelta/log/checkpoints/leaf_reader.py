"""Decode one Parquet file of a checkpoint: the adds as batches, other actions as dicts."""

from __future__ import annotations

from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from lazydelta._arrow import from_mask
from lazydelta._parallel import BackgroundIterator
from lazydelta.errors import LogCorruptError, ObjectNotFoundError, StoreError
from lazydelta.log import tuning
from lazydelta.parquet import THRIFT_LIMIT, NestedFile, legacy_calendar, with_string_types
from lazydelta.parquet.footer import (
    chunk_ranges,
    footer_range,
    int96_leaves,
    leaf_columns,
    read_footer,
)
from lazydelta.store import RangedInput, is_local, local_path

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    import numpy as np

    from lazydelta.config import Config
    from lazydelta.log.commits import CommitReader
    from lazydelta.protocol.paths import PathResolver
    from lazydelta.store import Store

__all__ = ["Actions", "CheckpointContext", "Footers", "Leaf", "LeafReader"]

_PATH = "add.path"

# For each action, a field that the protocol requires: null only if the action is absent.
_REQUIRED = {
    "protocol": "minReaderVersion",
    "metaData": "schemaString",
    "txn": "appId",
    "domainMetadata": "domain",
    "sidecar": "path",
}

_TYPED_FIELDS = frozenset(("stats_parsed", "partitionValues_parsed"))
"""Fields of `add` with values of the table's columns, which may be binary."""

Actions = dict[str, list[dict[str, Any]]]
Footers = dict[str, pq.FileMetaData]


@dataclass(frozen=True, slots=True)
class Leaf:
    """One Parquet file with file actions."""

    path: str
    size: int | None
    is_manifest: bool = False
    is_part: bool = False
    """Whether it is one part of a multi-part checkpoint."""
    zones: str | None = None
    """The zone map in the tags of a sidecar, unparsed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointContext:
    """What the readers of one checkpoint share."""

    store: Store
    commits: CommitReader
    resolver: PathResolver
    config: Config
    footers: Footers

    def corrupt(self, path: str, reason: object, version: int) -> LogCorruptError:
        message = " ".join(str(reason).split())
        return LogCorruptError(self.store.root, path, message, version)


class LeafReader:
    """One Parquet file of a checkpoint; its footer is read when it is opened."""

    def __init__(
        self,
        leaf: Leaf,
        version: int,
        context: CheckpointContext,
        metadata: pq.FileMetaData | None = None,
    ) -> None:
        self.leaf = leaf
        self._version = version
        self._context = context
        # Threads hide the latency of remote reads; local reads have little.
        self._is_remote = not is_local(context.store)
        with self._guarded():
            self._input = RangedInput(context.store, leaf.path, leaf.size)
            metadata = metadata or context.footers.get(leaf.path)
            if metadata is None:
                self._input.fetch([footer_range(self._input.size())])
                metadata = read_footer(self._input.file).metadata
            self._file = pq.ParquetFile(
                self._input.file,
                metadata=metadata,
                pre_buffer=False,
                buffer_size=0 if self._is_remote else tuning.LOCAL_BUFFER_BYTES,
                thrift_string_size_limit=THRIFT_LIMIT,
                thrift_container_size_limit=THRIFT_LIMIT,
                coerce_int96_timestamp_unit="us",  # nanoseconds overflow in the year 2262
                page_checksum_verification=True,
            )
            self.metadata: pq.FileMetaData = metadata
            leaves = leaf_columns(self.metadata)
            self.columns: dict[str, int] = {leaves.column(i).path: i for i in range(len(leaves))}
        self._calendar = legacy_calendar(self.metadata, "null")
        if leaf.is_manifest:
            context.footers[leaf.path] = self.metadata

    def close(self) -> None:
        """Close the file."""
        self._file.close(force=True)
        self._input.close()

    def column_bytes(self, columns: Collection[str], row_groups: Sequence[int]) -> int:
        """Return the compressed size of these columns in these row groups."""
        indices = [self.columns[name] for name in columns]
        return sum(
            self.metadata.row_group(group).column(index).total_compressed_size
            for group in row_groups
            for index in indices
        )

    def batches(
        self, columns: Sequence[str], row_groups: Sequence[int], *, rows: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield leaf columns of some row groups, nested as in the file.

        String fields have the type `string`, whatever the file declares. Typed values are rebased
        to the proleptic Gregorian calendar.
        """
        self.fetch(columns, row_groups)
        for batch in self._decoded(columns, row_groups, rows):
            yield self._with_strings(self._rebased(batch))

    def fetch(self, columns: Collection[str], row_groups: Sequence[int]) -> None:
        """Request columns of row groups together, so that decoding them waits for no request."""
        leaves = [self.columns[name] for name in columns]
        with self._guarded():
            self._input.fetch(chunk_ranges(self.metadata, leaves, row_groups))

    def release(self, row_groups: Sequence[int]) -> None:
        """Free what was fetched of the file up to the end of row groups."""
        ranges = chunk_ranges(self.metadata, list(self.columns.values()), row_groups[-1:])
        self._input.release(before=max(end for _, end in ranges))

    def _decoded(
        self, columns: Sequence[str], row_groups: Sequence[int], rows: int
    ) -> Iterator[pa.RecordBatch]:
        yielded = 0
        native = self._native_batches(columns, row_groups, rows)
        try:
            for batch in native or ():
                yield batch
                yielded += 1
        except pa.ArrowException:
            native = None  # pyarrow continues: it reads the rest, or reports the error
        if native is not None:
            return
        with self._guarded():
            batches = self._file.iter_batches(
                rows, row_groups=list(row_groups), columns=columns, use_threads=self._is_remote
            )
            yield from islice(batches, yielded, None)

    def _with_strings(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        kinds = [with_string_types(kind, _TYPED_FIELDS) for kind in batch.schema.types]
        if kinds == batch.schema.types:
            return batch
        with self._guarded():
            columns = [column.cast(kind) for column, kind in zip(batch.columns, kinds, strict=True)]
        return pa.RecordBatch.from_arrays(columns, batch.schema.names)

    def _rebased(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rebased typed values; those that cannot be rebased are null, which is unknown."""
        calendar = self._calendar
        return batch if calendar is None else calendar.rebase_batch(batch, self._int96)

    @cached_property
    def _int96(self) -> frozenset[str]:
        return int96_leaves(self.metadata)

    def _native_batches(
        self, columns: Sequence[str], row_groups: Sequence[int], rows: int
    ) -> pa.RecordBatchReader | None:
        """Decode with the native decoder; None if it cannot, or if it gains little."""
        if self.column_bytes(columns, row_groups) < tuning.MIN_NATIVE_BYTES:
            return None
        if self._native_file is None:
            return None
        leaves = [self.columns[name] for name in columns]
        return self._native_file.batches(leaves, row_groups, rows)

    @cached_property
    def _native_file(self) -> NestedFile | None:
        path = local_path(self._context.store, self.leaf.path)
        return None if path is None else NestedFile.open(path, self._file.schema_arrow)

    def has_adds(self) -> bool:
        """Whether it has adds: a V2 manifest, or one of several parts, may have none."""
        column = self.columns.get(_PATH)
        if column is not None:
            if leaf_columns(self.metadata).column(column).physical_type == "BYTE_ARRAY":
                return True
            raise self._context.corrupt(self.leaf.path, "add.path is not a string", self._version)
        kinds = {name.partition(".")[0] for name in self.columns}
        if self.leaf.is_manifest and "checkpointMetadata" in kinds:
            return False
        if self.leaf.is_part and "add" not in kinds and kinds & _REQUIRED.keys():
            return False
        raise self._context.corrupt(self.leaf.path, "it has no add.path", self._version)

    def without_empty(self, columns: Sequence[str], row_groups: Sequence[int]) -> list[str]:
        """Return the columns without those of fields that the footer shows to be all null.

        Every checkpoint has columns for deletion vectors, row ids and so on; few have values. Maps
        are kept, because an empty map is not null.
        """
        by_field: dict[str, list[str]] = {}
        for name in columns:
            by_field.setdefault(name.split(".")[1], []).append(name)
        maps = {name.split(".")[1] for name in columns if name.endswith((".key", ".value"))}
        groups = [self.metadata.row_group(index) for index in row_groups]
        empty = {
            field
            for field, names in by_field.items()
            if field not in maps
            and all(_is_all_null(group, self.columns[name]) for name in names for group in groups)
        }
        return [name for name in columns if name.split(".")[1] not in empty]

    def adds(
        self,
        columns: Sequence[str],
        row_groups: Sequence[int],
        *,
        rows: int,
        keep: Sequence[np.ndarray | None] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the adds of some row groups, with their fields as columns; a path is required.

        For a large selective read, paths and other columns are decoded in parallel; each takes
        about half the time. A read that keeps all adds is bound by its consumer and gains nothing.

        Args:
            columns: Leaf columns of `add`.
            row_groups: The row groups to read.
            rows: Rows per decoded batch.
            keep: A mask of the adds of each batch, None for all of them; a batch without selected
                adds is omitted.
        """
        paths = [name for name in columns if name == _PATH]
        rest = [name for name in columns if name != _PATH]
        is_large = self.column_bytes(columns, row_groups) >= tuning.MIN_THREADED_BYTES
        if keep is None or not paths or not rest or not is_large or self._is_remote:
            yield from self._adds(columns, row_groups, rows, keep)
            return
        with closing(LeafReader(self.leaf, self._version, self._context, self.metadata)) as second:
            produce = partial(second._adds, rest, row_groups, rows, keep)  # noqa: SLF001 - own class
            with closing(BackgroundIterator(produce, depth=tuning.DECODED_AHEAD)) as others:
                for left, right in zip(
                    self._adds(paths, row_groups, rows, keep), others, strict=True
                ):
                    names = [*left.schema.names, *right.schema.names]
                    yield pa.RecordBatch.from_arrays([*left.columns, *right.columns], names)

    def _adds(
        self,
        columns: Sequence[str],
        row_groups: Sequence[int],
        rows: int,
        keep: Sequence[np.ndarray | None] | None,
    ) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(self.batches(columns, row_groups, rows=rows)):
            mask = None if keep is None else keep[number]
            if mask is not None and not mask.any():
                continue
            adds = batch.column("add")
            if adds.null_count:
                adds = adds.drop_null()
            fields = pa.RecordBatch.from_struct_array(adds)
            yield self._validated(fields if mask is None else fields.filter(from_mask(mask)))

    def _validated(self, adds: pa.RecordBatch) -> pa.RecordBatch:
        if "path" in adds.schema.names:
            paths = adds.column("path")
            if paths.null_count:
                raise self._context.corrupt(self.leaf.path, "an add has no path", self._version)
            with self._guarded():
                paths.validate(full=True)  # Parquet does not guarantee valid UTF-8
        return adds

    def collect(self, actions: Actions, *, first_only: bool) -> None:
        """Append the actions of the kinds in `actions`; reads only their columns and row groups."""
        leaves = {
            kind: [name for name in self.columns if name.startswith(f"{kind}.")] for kind in actions
        }
        for group in range(self.metadata.num_row_groups):
            kinds = [
                kind
                for kind, names in leaves.items()
                if names and not (first_only and actions[kind]) and self._max_count(group, kind)
            ]
            columns = [name for kind in kinds for name in leaves[kind]]
            if not columns:
                continue
            ends = {kind: len(actions[kind]) + self._max_count(group, kind) for kind in kinds}
            for batch in self.batches(columns, [group], rows=tuning.MANIFEST_ROWS):
                for kind in kinds:
                    rows = batch.column(kind)
                    if rows.null_count < len(rows):
                        present = rows.drop_null()
                        with self._guarded():  # Parquet does not guarantee valid UTF-8
                            actions[kind] += [
                                _to_json(row, present.type) for row in present.to_pylist()
                            ]
                if all(
                    (first_only and actions[kind]) or len(actions[kind]) >= ends[kind]
                    for kind in kinds
                ):
                    break

    def _max_count(self, group: int, kind: str) -> int:
        """Return the most actions of a kind in a row group, from the null count of one column."""
        column = self.columns.get(f"{kind}.{_REQUIRED[kind]}")
        row_group = self.metadata.row_group(group)
        statistics = None if column is None else row_group.column(column).statistics
        if statistics is None or not statistics.has_null_count:
            return int(row_group.num_rows)
        return int(row_group.num_rows - statistics.null_count)

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Raise Arrow errors of a corrupt file as `LogCorruptError`."""
        try:
            yield
        except ObjectNotFoundError as error:
            raise self._context.corrupt(self.leaf.path, "it is missing", self._version) from error
        except StoreError:
            raise
        except (pa.ArrowException, OSError, ValueError) as error:
            raise self._context.corrupt(self.leaf.path, error, self._version) from error


def _is_all_null(row_group: pq.RowGroupMetaData, column: int) -> bool:
    """Whether statistics show that a column of a row group has only nulls."""
    statistics = row_group.column(column).statistics
    has_count = statistics is not None and statistics.has_null_count
    return has_count and bool(statistics.null_count == row_group.num_rows)


def _to_json(value: Any, kind: pa.DataType) -> Any:
    """Return an action in its JSON form: Arrow returns maps as lists of pairs."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: _to_json(value[field.name], field.type) for field in kind}
    if pa.types.is_map(kind):
        return dict(value)
    return value
