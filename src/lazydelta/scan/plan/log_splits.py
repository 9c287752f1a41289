"""Splits of a log for distributed replay: other processes read each split on its own.

`split_tail` and `split_checkpoint` plan splits from file names and sizes. `SplitReader` can be
pickled and reads a split as Arrow batches, with the readers, file keys and pruner of a local scan,
so that both return the same files. The engine distributes the splits and combines their rows.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import from_mask, from_numpy, to_mask
from lazydelta.errors import InternalError, UnsupportedActionError
from lazydelta.log import CheckpointFiles, CommitReader, LogFile, LogFileKind, LogSegment
from lazydelta.log.checkpoints import Checkpoint, Leaf, LeafReader, open_checkpoint
from lazydelta.parquet.footer import leaf_columns
from lazydelta.protocol.paths import PathResolver
from lazydelta.protocol.schemas import ADD
from lazydelta.replay import Reconciler, SeenFiles, file_keys, find_trip
from lazydelta.replay.skipping import Pruner
from lazydelta.scan.plan import tuning
from lazydelta.scan.plan.add_columns import nulls, project_adds, take_adds
from lazydelta.scan.plan.checkpoint_phase import CheckpointScan, leaves_to_read
from lazydelta.scan.plan.parsed_stats import incompatible_columns, parsed_fields
from lazydelta.scan.plan.run import ScanRun, is_usable_compaction
from lazydelta.scan.plan.scan_metrics import ScanMetrics
from lazydelta.scan.plan.strategy import Choice
from lazydelta.schema import PrimitiveType
from lazydelta.schema.values import build_scalar

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from lazydelta.config import Config
    from lazydelta.protocol import CommitBatch
    from lazydelta.schema import StructType
    from lazydelta.snapshot import SnapshotState
    from lazydelta.store import Store

__all__ = [
    "COMMIT_VERSION",
    "CheckpointSplit",
    "CommitSplit",
    "SplitReader",
    "live_adds",
    "parsed_stats_fields",
    "split_checkpoint",
    "split_tail",
]

T = TypeVar("T")

KEY = pa.field("key", pa.string())
"""The identity of a file; null if it equals the raw path, as it mostly does."""
COMMIT_VERSION = pa.field("commitVersion", pa.int64())
IS_ADD = pa.field("isAdd", pa.bool_())

_PRUNED_BY = ("partitionValues", "partitionValues_parsed", "stats", "stats_parsed")
_ADD_SCHEMA = pa.schema([*ADD, ("version", pa.int64())])


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitSplit:
    """Consecutive files of the tail, newest first; a compaction has the commits it covers."""

    files: tuple[tuple[LogFile, tuple[LogFile, ...]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSplit:
    """A share of the row groups of a leaf; without a leaf, the actions of a JSON manifest."""

    leaf: Leaf | None
    share: int = 0
    shares: int = 1

    def select(self, row_groups: Sequence[int]) -> list[int]:
        """Return the row groups of this split."""
        count = len(row_groups)
        first, end = (index * count // self.shares for index in (self.share, self.share + 1))
        return list(row_groups[first:end])


def split_tail(segment: LogSegment, max_splits: int) -> list[CommitSplit]:
    """Split the tail into at most `max_splits` runs of about equal cost, newest first."""
    files = [
        (file, segment.commits_of(file) if file.kind is LogFileKind.COMPACTED else ())
        for file in reversed(segment.tail)
    ]
    costs = [file.size + tuning.FILE_OPEN_BYTES for file, _ in files]
    return [CommitSplit(files=tuple(run)) for run in _balanced_runs(files, costs, max_splits)]


def split_checkpoint(
    checkpoint: Checkpoint, max_tasks: int, pruner: Pruner, fields: Collection[str] | None = None
) -> list[tuple[CheckpointSplit, ...]]:
    """Split a checkpoint into the work of at most `max_tasks` tasks of about equal cost.

    Reads the list of its files but no sidecar: the task that reads a leaf selects the row groups of
    its share. Sidecars whose zone maps exclude a match are left out, and so are row groups of a
    manifest with inline adds, whose footer is already cached.

    Args:
        checkpoint: The checkpoint.
        max_tasks: The maximum number of tasks.
        pruner: Prunes files that cannot match.
        fields: The fields of the adds that tasks read, where a cached footer tells their size; None
            is all.
    """
    every = checkpoint.leaves()
    leaves = [every[number] for number in leaves_to_read(every, pruner, ScanMetrics())]
    work = [_work(checkpoint, leaf, pruner, fields) for leaf in leaves]
    task_bytes = max(sum(size for size, _ in work) // max_tasks, tuning.MIN_SPLIT_BYTES)
    items: list[tuple[CheckpointSplit, int]] = []
    if checkpoint.inline_actions is not None:
        items.append((CheckpointSplit(leaf=None), checkpoint.inline_actions.size))
    for leaf, (size, row_groups) in zip(leaves, work, strict=True):
        shares = min(max(1, size // task_bytes), row_groups)
        items += [
            (CheckpointSplit(leaf=leaf, share=share, shares=shares), size // shares)
            for share in range(shares)
        ]
    costs = [size + tuning.FILE_OPEN_BYTES for _, size in items]
    splits = [split for split, _ in items]
    return [tuple(run) for run in _balanced_runs(splits, costs, max_tasks)]


def _work(
    checkpoint: Checkpoint, leaf: Leaf, pruner: Pruner, fields: Collection[str] | None
) -> tuple[int, int]:
    """Return the estimated bytes to read of a leaf, and the maximum number of row groups."""
    size = leaf.size or 0
    if not leaf.is_manifest or leaf.is_part:
        return size, max(1, size)
    with closing(checkpoint.open(leaf)) as reader:
        if not reader.has_adds():
            return 0, 0
        kept = pruner.keep_row_groups(reader.metadata)
        if fields is None:
            return size * len(kept) // max(1, reader.metadata.num_row_groups), len(kept)
        read = {*fields, *(() if pruner.rule is None else _PRUNED_BY)}
        columns = [
            name for name in reader.columns if name.startswith("add.") and _field(name) in read
        ]
        return reader.column_bytes(columns, kept), len(kept)


def _field(column: str) -> str:
    """Return the field of an action that a leaf column belongs to."""
    return column.split(".", 2)[1]


def parsed_stats_fields(checkpoint: Checkpoint, schema: StructType) -> list[pa.Field]:
    """Return the parsed statistics of a checkpoint, by the footer of its first leaf with adds.

    Args:
        checkpoint: The checkpoint.
        schema: The table's schema, with physical names.
    """
    for leaf in checkpoint.leaves():
        with closing(checkpoint.open(leaf)) as reader:
            if reader.has_adds():
                return parsed_fields(_add_type(reader), schema)
    return []


def live_adds(
    snapshot: SnapshotState, schema: pa.Schema, pruner: Pruner
) -> Iterator[pa.RecordBatch]:
    """Yield the live adds that may match, with their version, by a scan in this process."""
    run = ScanRun(
        snapshot,
        pruner=pruner,
        fields=schema.names,
        limit=None,
        choice=Choice("forward", "a full scan"),
    )
    floor = build_scalar(snapshot.segment.base_version, PrimitiveType("long"))
    for batch in run.batches():
        versions = pc.coalesce(batch.column("version"), floor)
        yield pa.RecordBatch.from_arrays(
            [*(batch.column(name) for name in schema.names), versions],
            schema=pa.schema([*schema, COMMIT_VERSION]),
        )


def _add_type(reader: LeafReader) -> pa.DataType:
    """Return the type of `add` in a leaf; an empty struct if it has no adds."""
    schema = leaf_columns(reader.metadata).to_arrow_schema()
    index = schema.get_field_index("add")
    return schema.field(index).type if index >= 0 else pa.struct([])


def _balanced_runs(items: Sequence[T], costs: Sequence[int], count: int) -> list[list[T]]:
    """Split a sequence into at most `count` runs of about equal cost, and of a minimum cost."""
    total = sum(costs)
    count = max(1, min(count, total // tuning.MIN_SPLIT_BYTES))
    runs: list[list[T]] = [[] for _ in range(count)]
    before = 0
    for item, cost in zip(items, costs, strict=True):
        middle = before + cost // 2
        runs[min(count - 1, middle * count // total)].append(item)
        before += cost
    return [run for run in runs if run]


@dataclass(frozen=True, kw_only=True)
class SplitReader:
    """Reads splits as Arrow batches, in any process.

    Args:
        open_store: Opens the table's store in the process that reads.
        config: Engine settings.
        checkpoint: The checkpoint of the log segment, if there is one.
        schema: The requested fields of the adds.
        pruner: Prunes files that cannot match.
    """

    open_store: Callable[[], Store]
    config: Config
    checkpoint: CheckpointFiles | None
    schema: pa.Schema
    pruner: Pruner = field(default_factory=Pruner)

    @property
    def checkpoint_schema(self) -> pa.Schema:
        """Schema of `read_checkpoint`: the requested fields, the version, the key."""
        return pa.schema([*self.schema, COMMIT_VERSION, KEY])

    @property
    def tail_schema(self) -> pa.Schema:
        """Schema of `read_tail`: the same, and whether the file is live in this split."""
        return pa.schema([*self.schema, COMMIT_VERSION, KEY, IS_ADD])

    def read_tail(self, split: CommitSplit) -> Iterator[pa.RecordBatch]:
        """Yield one row per file action of a split.

        At most one row per file is an add: the newest action, if it is an add that may match. The
        other rows are tombstones, which supersede older adds of their file.
        """
        readers = _LogReaders.open(self)
        seen = SeenFiles(
            memory_limit=self.config.remove_set_memory_limit,
            capacity=self.config.remove_set_capacity,
            false_positive_rate=self.config.remove_set_false_positive_rate,
        )
        try:
            reconciler = Reconciler(seen, readers.resolver.keys)
            for batch in readers.commits.batches(_readable_files(split, readers, reconciler)):
                self._check_trip(batch, readers.store.root)
                yield from self._tail_rows(batch, reconciler)
        finally:
            seen.close()

    def read_checkpoint(self, splits: Iterable[CheckpointSplit]) -> Iterator[pa.RecordBatch]:
        """Yield the adds of checkpoint splits that may match, whether live or superseded."""
        readers = _LogReaders.open(self)
        checkpoint = readers.checkpoint(self)
        for split in splits:
            adds = (
                self._inline_adds(checkpoint, readers)
                if split.leaf is None
                else self._leaf_adds(checkpoint, split.leaf, split)
            )
            for batch in adds:
                if batch.num_rows:
                    yield self._with_keys(batch, readers.resolver, checkpoint.version)

    def _tail_rows(self, batch: CommitBatch, reconciler: Reconciler) -> Iterator[pa.RecordBatch]:
        rows = np.flatnonzero(to_mask(batch.add.is_valid()) | to_mask(batch.remove.is_valid()))
        if not len(rows):
            reconciler.live_rows(batch)
            return
        keys = reconciler.keys(batch)
        live = reconciler.live_rows(batch)
        adds = take_adds(batch.add, live, batch.versions, _ADD_SCHEMA)
        mask = self.pruner.mask(adds)
        if mask is not None:
            adds, live = adds.filter(mask), live[to_mask(mask)]
        yield self._tail_batch(
            project_adds(adds, self.schema),
            batch,
            live,
            keys.take(from_numpy(_positions(rows, live))),
        )
        tombstones = np.setdiff1d(rows, live, assume_unique=True)
        no_values = [nulls(len(tombstones), kind) for kind in self.schema.types]
        yield self._tail_batch(
            pa.RecordBatch.from_arrays(no_values, schema=self.schema),
            batch,
            tombstones,
            keys.take(from_numpy(_positions(rows, tombstones))),
            is_add=False,
        )

    def _tail_batch(
        self,
        adds: pa.RecordBatch,
        batch: CommitBatch,
        rows: np.ndarray,
        keys: pa.Array,
        *,
        is_add: bool = True,
    ) -> pa.RecordBatch:
        versions = from_numpy(batch.versions[rows])
        flags = from_mask(np.full(len(rows), is_add))
        return pa.RecordBatch.from_arrays(
            [*adds.columns, versions, keys, flags], schema=self.tail_schema
        )

    def _with_keys(
        self, adds: pa.RecordBatch, resolver: PathResolver, version: int
    ) -> pa.RecordBatch:
        paths = adds.column("path")
        keys = file_keys(resolver.keys(paths), adds.column("deletionVector"))
        if keys is paths:
            keys = nulls(len(paths), KEY.type)
        versions = from_numpy(np.full(len(paths), version, np.int64))
        return pa.RecordBatch.from_arrays(
            [*adds.columns, versions, keys], schema=self.checkpoint_schema
        )

    def _inline_adds(
        self, checkpoint: Checkpoint, readers: _LogReaders
    ) -> Iterator[pa.RecordBatch]:
        manifest = checkpoint.inline_actions
        for batch in readers.commits.batches([] if manifest is None else [manifest]):
            rows = np.flatnonzero(to_mask(batch.add.is_valid()))
            adds = take_adds(batch.add, rows, batch.versions, _ADD_SCHEMA)
            mask = self.pruner.mask(adds)
            yield project_adds(adds if mask is None else adds.filter(mask), self.schema)

    def _leaf_adds(
        self, checkpoint: Checkpoint, leaf: Leaf, split: CheckpointSplit
    ) -> Iterator[pa.RecordBatch]:
        with closing(checkpoint.open(leaf)) as reader:
            incompatible = incompatible_columns(_add_type(reader), self.schema)
        schema = pa.schema([field for field in self.schema if field.name not in incompatible])
        no_files = SeenFiles(memory_limit=0, capacity=1, false_positive_rate=0.5)
        scan = CheckpointScan(
            checkpoint.only(leaf),
            schema=schema,
            fields=schema.names,
            pruner=self.pruner,
            reconciler=Reconciler(no_files, _unchanged),
            metrics=ScanMetrics(),
            select_row_groups=split.select,
        )
        with closing(scan):
            scan.start(
                rows=self.config.batch_rows,
                row_groups_at_once=self.config.checkpoint_row_groups_per_batch,
            )
            for _, adds in scan.batches():
                yield project_adds(adds, self.schema) if incompatible else adds

    def _check_trip(self, batch: CommitBatch, table: str) -> None:
        """Raise on an action that trips the tripwire, if fallback is disabled.

        With fallback there is nothing to do: this replay is as complete as the reference replay.
        """
        if not self.config.enable_fallback:
            trip = find_trip(batch, self.config.tripwire)
            if trip is not None:
                raise UnsupportedActionError(table, trip.version, trip.action)


@dataclass(frozen=True, slots=True)
class _LogReaders:
    """Store and readers of the process that reads a split; never pickled."""

    store: Store
    resolver: PathResolver
    commits: CommitReader

    @classmethod
    def open(cls, reader: SplitReader) -> _LogReaders:
        store = reader.open_store()
        resolver = PathResolver(store.root, reader.config.allowed_roots)
        return cls(store, resolver, CommitReader(store, reader.config))

    def checkpoint(self, reader: SplitReader) -> Checkpoint:
        if reader.checkpoint is None:
            raise InternalError("a checkpoint split of a log segment without a checkpoint")
        return open_checkpoint(
            self.store,
            reader.checkpoint,
            commits=self.commits,
            resolver=self.resolver,
            config=reader.config,
        )


def _readable_files(
    split: CommitSplit, readers: _LogReaders, reconciler: Reconciler
) -> Iterator[LogFile]:
    """Yield the files to read; the commits of an unusable compaction replace it."""
    for file, covered_commits in split.files:
        if covered_commits and not is_usable_compaction(file, readers.commits, reconciler):
            yield from reversed(covered_commits)
        else:
            yield file


def _positions(rows: np.ndarray, some: np.ndarray) -> np.ndarray:
    """Return the positions of some of the rows, which are sorted."""
    return np.searchsorted(rows, some)


def _unchanged(paths: pa.Array) -> pa.Array:
    return paths
