"""Checkpoints -> Arrow, whichever kind: classic, multi-part, V2 (JSON or Parquet) with sidecars.

| kind | name | file actions are in |
|---|---|---|
| classic V1 | `n.checkpoint.parquet` | the file itself |
| multi-part V1 | `n.checkpoint.o.p.parquet` | all p files |
| V2 | `n.checkpoint.<uuid>.{json,parquet}` or classic | the file itself, or its sidecars |

A checkpoint is a manifest (protocol, metadata and the like) and leaf files with file actions; the
manifest is read by projection, the leaves are streamed. What is damaged is reported as
`LogCorruptError`, so that a caller can take another way round it.
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from lazydelta._arrow import selection
from lazydelta._parallel import Started, ordered_map
from lazydelta.errors import LogCorruptError, ObjectNotFoundError, PathNotAllowedError, StoreError
from lazydelta.log.file_names import LOG_DIRECTORY, SIDECAR_DIRECTORY, LogFile
from lazydelta.parquet import (
    THRIFT_LIMIT,
    NestedFile,
    int96_leaves,
    leaf_columns,
    legacy_calendar,
    read_footer,
    with_string_types,
)
from lazydelta.protocol import MalformedActionError, PathResolver, Sidecar
from lazydelta.store import is_local, local_path

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    import numpy as np

    from lazydelta.config import Config
    from lazydelta.log.commits import CommitReader
    from lazydelta.log.segment import CheckpointFiles
    from lazydelta.store import Store

__all__ = ["Checkpoint", "Leaf", "open_checkpoint"]

# A local page cache makes small reads cheap; a remote store is paid by the request.
_LOCAL_BUFFER, _REMOTE_BUFFER = 1 << 20, 4 << 20
_MANIFEST_ROWS = 8192
_PATH = "add.path"
_WORTH_A_THREAD = 4 << 20
_WORTH_COMPILED = 2 << 20
_DECODED_AHEAD = 4
_LEAVES_AHEAD = 4

# A column of each action that is never null where the action is there.
_REQUIRED = {
    "protocol": "minReaderVersion",
    "metaData": "schemaString",
    "txn": "appId",
    "domainMetadata": "domain",
    "sidecar": "path",
}

_VALUES = frozenset(("stats_parsed", "partitionValues_parsed"))
"""Fields of `add` with values of the table's columns, which may be bytes."""

Actions = dict[str, list[dict[str, Any]]]
Footers = dict[str, pq.FileMetaData]


@dataclass(frozen=True, slots=True)
class Leaf:
    """One Parquet file with file actions."""

    path: str
    size: int | None
    is_manifest: bool = False
    is_part: bool = False
    """Whether it is one of the files of a multi-part checkpoint."""
    zones: str | None = None
    """What its adds range over, as a tag says of a sidecar; nothing here makes sense of it."""


class Checkpoint:
    """One opened checkpoint: what it says of the table, and where its files are."""

    def __init__(self, files: CheckpointFiles, context: _Context, only: Leaf | None = None) -> None:
        self.files = files
        self._context = context
        self._only = only
        self._manifest = [
            Leaf(file.path, file.size, is_manifest=True, is_part=len(files.files) > 1)
            for file in files.files
        ]
        self._is_json = files.name.endswith(".json")

    @property
    def version(self) -> int:
        """The version whose state it holds."""
        return self.files.version

    def actions(self, kinds: Sequence[str], *, first_only: bool) -> Actions:
        """Return the actions of the given kinds; with `first_only`, stop when each was met once."""
        found: Actions = {kind: [] for kind in kinds}
        if self._is_json:
            return self._context.commits.find(self.files.files[0], kinds)
        for leaf in self._manifest:
            with closing(self.open(leaf)) as reader:
                reader.collect(found, first_only=first_only)
            if first_only and all(found.values()):
                break
        return found

    @property
    def inline_actions(self) -> LogFile | None:
        """The manifest itself where it is JSON, for it may hold file actions like a commit."""
        return self.files.files[0] if self._is_json else None

    def leaves(self) -> list[Leaf]:
        """Return the Parquet files with file actions: itself, its parts, its sidecars."""
        if self._only is not None:
            return [self._only]
        if self._is_json:
            return self._sidecars(self.actions(["sidecar"], first_only=False)["sidecar"])
        if len(self._manifest) == 1:
            found: Actions = {"sidecar": []}
            with closing(self.open(self._manifest[0])) as main:
                main.collect(found, first_only=False)
            return [*self._manifest, *self._sidecars(found["sidecar"])]
        return self._manifest

    def only(self, leaf: Leaf) -> Checkpoint:
        """Return the same checkpoint as if one of its leaves were all it had."""
        return Checkpoint(self.files, self._context, leaf)

    def readers(self, leaves: Sequence[Leaf] | None = None) -> Iterator[LeafReader]:
        """Yield the leaves opened, all or the given ones, in order; remote ones a few ahead."""
        chosen = self.leaves() if leaves is None else leaves
        context = self._context
        width = 1 if is_local(context.store) else context.config.commit_read_parallelism
        return ordered_map(self.open, chosen, width=min(width, _LEAVES_AHEAD))

    def open(self, leaf: Leaf) -> LeafReader:
        """Open one Parquet file of the checkpoint."""
        return LeafReader(leaf, self.version, self._context)

    def _sidecars(self, actions: Sequence[Mapping[str, Any]]) -> list[Leaf]:
        within = f"{LOG_DIRECTORY}/{SIDECAR_DIRECTORY}"
        leaves = []
        for action in actions:
            try:
                sidecar = Sidecar.from_json(action)
                place = self._context.resolver.to_open(sidecar.path, within=within)
            except (MalformedActionError, PathNotAllowedError) as error:
                raise self._context.corrupt(
                    self.files.files[0].path, error, self.version
                ) from error
            leaves.append(Leaf(place.path, sidecar.size_in_bytes, zones=sidecar.zones))
        return leaves


class LeafReader:
    """A Parquet file of a checkpoint, footer read."""

    def __init__(
        self, leaf: Leaf, version: int, context: _Context, metadata: pq.FileMetaData | None = None
    ) -> None:
        self.leaf = leaf
        self._version = version
        self._context = context
        # Threads overlap the waiting of remote reads; local ones have little to wait for.
        self._is_remote = not is_local(context.store)
        with self._guarded():
            source = context.store.open_input(leaf.path, size=leaf.size)
            metadata = metadata or context.footers.get(leaf.path)
            if metadata is None:
                metadata = read_footer(source).metadata
            self._file = pq.ParquetFile(
                source,
                metadata=metadata,
                pre_buffer=False,
                buffer_size=_REMOTE_BUFFER if self._is_remote else _LOCAL_BUFFER,
                thrift_string_size_limit=THRIFT_LIMIT,
                thrift_container_size_limit=THRIFT_LIMIT,
                coerce_int96_timestamp_unit="us",  # nanoseconds end in the year 2262
                page_checksum_verification=True,  # of pages that have one: else damage goes unseen
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

    def column_bytes(self, columns: Collection[str], row_groups: Sequence[int]) -> int:
        """Return how many bytes a read of these columns of these row groups takes."""
        indices = [self.columns[name] for name in columns]
        return sum(
            self.metadata.row_group(group).column(index).total_compressed_size
            for group in row_groups
            for index in indices
        )

    def batches(
        self, columns: Sequence[str], row_groups: Sequence[int], *, rows: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield the chosen leaf columns of the chosen row groups, as the file nests them.

        Whoever wrote it and when, texts are strings, and typed values in the calendar of rows.
        """
        for batch in self._decoded(columns, row_groups, rows):
            yield self._with_texts(self._in_our_calendar(batch))

    def _decoded(
        self, columns: Sequence[str], row_groups: Sequence[int], rows: int
    ) -> Iterator[pa.RecordBatch]:
        given = 0
        compiled = self._compiled(columns, row_groups, rows)
        try:
            for batch in compiled or ():
                yield batch
                given += 1
        except pa.ArrowException:
            compiled = None  # pyarrow goes on: it may read it, or says what is wrong
        if compiled is not None:
            return
        with self._guarded():
            batches = self._file.iter_batches(
                rows, row_groups=list(row_groups), columns=columns, use_threads=self._is_remote
            )
            yield from islice(batches, given, None)

    def _with_texts(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        kinds = [with_string_types(kind, _VALUES) for kind in batch.schema.types]
        if kinds == batch.schema.types:
            return batch
        with self._guarded():
            columns = [column.cast(kind) for column, kind in zip(batch.columns, kinds, strict=True)]
        return pa.RecordBatch.from_arrays(columns, batch.schema.names)

    def _in_our_calendar(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return typed values rebased; those that cannot be are null, which means unknown."""
        calendar = self._calendar
        return batch if calendar is None else calendar.moved_batch(batch, self._int96)

    @cached_property
    def _int96(self) -> frozenset[str]:
        return int96_leaves(self.metadata)

    def _compiled(
        self, columns: Sequence[str], row_groups: Sequence[int], rows: int
    ) -> pa.RecordBatchReader | None:
        """Return the same from the compiled decoder; None if it cannot do it or hardly gains."""
        if self.column_bytes(columns, row_groups) < _WORTH_COMPILED or self._nested is None:
            return None
        leaves = [self.columns[name] for name in columns]
        return self._nested.batches(leaves, row_groups, rows)

    @cached_property
    def _nested(self) -> NestedFile | None:
        path = local_path(self._context.store, self.leaf.path)
        return None if path is None else NestedFile.open(path, self._file.schema_arrow)

    def has_adds(self) -> bool:
        """Whether it has file actions at all: a V2 manifest, or one part of many, may have none."""
        column = self.columns.get(_PATH)
        if column is not None:
            if leaf_columns(self.metadata).column(column).physical_type == "BYTE_ARRAY":
                return True
            raise self._context.corrupt(self.leaf.path, "add.path is not text", self._version)
        kinds = {name.partition(".")[0] for name in self.columns}
        if self.leaf.is_manifest and "checkpointMetadata" in kinds:
            return False
        if self.leaf.is_part and "add" not in kinds and kinds & _REQUIRED.keys():
            return False
        raise self._context.corrupt(self.leaf.path, "it has no add.path", self._version)

    def without_empty(self, columns: Sequence[str], row_groups: Sequence[int]) -> list[str]:
        """Return the columns less those of fields that are null in all rows, by the footer.

        Deletion vectors, row ids and the like are columns of every checkpoint but values of few.
        Maps are kept: an empty one is not a null.
        """
        by_field: dict[str, list[str]] = {}
        for name in columns:
            by_field.setdefault(name.split(".")[1], []).append(name)
        maps = {name.split(".")[1] for name in columns if name.endswith((".key", ".value"))}
        groups = [self.metadata.row_group(at) for at in row_groups]
        empty = {
            field
            for field, names in by_field.items()
            if field not in maps
            and all(_is_empty(group, self.columns[name]) for name in names for group in groups)
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
        """Yield the adds of some row groups, their fields as columns; refuse one without a path.

        Of much to decode and little to keep, paths and the rest are decoded side by side: each
        takes half the time. Who keeps all is as busy as one decoder, and gains nothing.

        Args:
            columns: Leaf columns of `add`.
            row_groups: Where to look.
            rows: How many rows are decoded together; each gives one batch.
            keep: Which adds of each batch are wanted, None for all of them; a batch of which
                nothing is wanted is left out.
        """
        paths = [name for name in columns if name == _PATH]
        rest = [name for name in columns if name != _PATH]
        worth_it = self.column_bytes(columns, row_groups) >= _WORTH_A_THREAD
        if keep is None or not paths or not rest or not worth_it:
            yield from self._adds(columns, row_groups, rows, keep)
            return
        with closing(LeafReader(self.leaf, self._version, self._context, self.metadata)) as twin:
            produce = partial(twin._adds, rest, row_groups, rows, keep)  # noqa: SLF001 - its own
            with closing(Started(produce, depth=_DECODED_AHEAD)) as ahead:
                for left, right in zip(
                    self._adds(paths, row_groups, rows, keep), ahead, strict=True
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
        for at, batch in enumerate(self.batches(columns, row_groups, rows=rows)):
            mask = None if keep is None else keep[at]
            if mask is not None and not mask.any():
                continue
            adds = batch.column("add")
            if adds.null_count:
                adds = adds.drop_null()
            fields = pa.RecordBatch.from_struct_array(adds)
            yield self._checked(fields if mask is None else fields.filter(selection(mask)))

    def _checked(self, adds: pa.RecordBatch) -> pa.RecordBatch:
        if "path" in adds.schema.names:
            paths = adds.column("path")
            if paths.null_count:
                raise self._context.corrupt(self.leaf.path, "an add has no path", self._version)
            with self._guarded():
                paths.validate(full=True)  # Parquet does not promise valid UTF-8
        return adds

    def collect(self, found: Actions, *, first_only: bool) -> None:
        """Add the actions of the kinds in `found`, reading only their columns and row groups."""
        leaves = {
            kind: [name for name in self.columns if name.startswith(f"{kind}.")] for kind in found
        }
        for group in range(self.metadata.num_row_groups):
            wanted = [
                kind
                for kind, names in leaves.items()
                if names and not (first_only and found[kind]) and self._most(group, kind)
            ]
            columns = [name for kind in wanted for name in leaves[kind]]
            if not columns:
                continue
            ends = {kind: len(found[kind]) + self._most(group, kind) for kind in wanted}
            for batch in self.batches(columns, [group], rows=_MANIFEST_ROWS):
                for kind in wanted:
                    rows = batch.column(kind)
                    if rows.null_count < len(rows):
                        plain = rows.drop_null()
                        with self._guarded():  # Parquet does not promise valid UTF-8
                            found[kind] += [_plain(row, plain.type) for row in plain.to_pylist()]
                if all(
                    (first_only and found[kind]) or len(found[kind]) >= ends[kind]
                    for kind in wanted
                ):
                    break

    def _most(self, group: int, kind: str) -> int:
        """Return how many actions of a kind a row group has at most: one column of it tells."""
        column = self.columns.get(f"{kind}.{_REQUIRED[kind]}")
        row_group = self.metadata.row_group(group)
        statistics = None if column is None else row_group.column(column).statistics
        if statistics is None or not statistics.has_null_count:
            return int(row_group.num_rows)
        return int(row_group.num_rows - statistics.null_count)

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Report what Arrow says of a damaged file in our words."""
        try:
            yield
        except ObjectNotFoundError as error:
            raise self._context.corrupt(self.leaf.path, "it is missing", self._version) from error
        except StoreError:
            raise
        except (pa.ArrowException, OSError, ValueError) as error:
            raise self._context.corrupt(self.leaf.path, error, self._version) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class _Context:
    store: Store
    commits: CommitReader
    resolver: PathResolver
    config: Config
    footers: Footers

    def corrupt(self, path: str, reason: object, version: int) -> LogCorruptError:
        text = " ".join(str(reason).split())
        return LogCorruptError(self.store.root, path, text, version)


def open_checkpoint(
    store: Store,
    files: CheckpointFiles,
    *,
    commits: CommitReader,
    resolver: PathResolver,
    config: Config,
    footers: Footers | None = None,
) -> Checkpoint:
    """Return a checkpoint to read from; nothing is read yet.

    Args:
        store: Where the table is.
        files: The checkpoint.
        commits: Reads its manifest where that is JSON.
        resolver: Knows where sidecars may lie.
        config: Settings of the engine.
        footers: Parsed footers of manifests, kept from one opening to the next: a footer grows
            with the checkpoint and takes longer to parse than the first batch to decode.
    """
    context = _Context(
        store=store,
        commits=commits,
        resolver=resolver,
        config=config,
        footers={} if footers is None else footers,
    )
    return Checkpoint(files, context)


def _is_empty(row_group: pq.RowGroupMetaData, column: int) -> bool:
    """Whether a column of a row group surely has no value."""
    statistics = row_group.column(column).statistics
    known = statistics is not None and statistics.has_null_count
    return known and bool(statistics.null_count == row_group.num_rows)


def _plain(value: Any, kind: pa.DataType) -> Any:
    """Return an action as its JSON would be: Arrow gives maps as lists of pairs."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: _plain(value[field.name], field.type) for field in kind}
    if pa.types.is_map(kind):
        return dict(value)
    return value
