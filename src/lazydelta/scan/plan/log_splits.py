"""The log of one version cut into parts that other processes read, each on its own.

What a cluster needs to replay a log: a plan of parts made from names and sizes (`split_tail`,
`split_checkpoint`), and a reader that can be pickled and turns a part into Arrow batches
(`PartReader`). It reads with the readers, the keys and the pruner of the scan in this process, so
both mean the same; how parts are sent round and put together again is the engine's business.
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
from lazydelta.scan.plan.add_columns import from_commit, nulls, projected
from lazydelta.scan.plan.checkpoint_phase import CheckpointScan, leaves_to_read
from lazydelta.scan.plan.run import ScanRun, is_of_use
from lazydelta.scan.plan.scan_metrics import ScanMetrics
from lazydelta.scan.plan.strategy import Choice
from lazydelta.scan.plan.typed_stats import misfits, typed_fields
from lazydelta.schema import PrimitiveType
from lazydelta.schema.values import build_scalar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lazydelta.config import Config
    from lazydelta.protocol import CommitBatch
    from lazydelta.schema import StructType
    from lazydelta.snapshot import SnapshotState
    from lazydelta.store import Store

__all__ = [
    "COMMIT_VERSION",
    "CheckpointPart",
    "PartReader",
    "TailPart",
    "live_adds",
    "split_checkpoint",
    "split_tail",
    "typed_columns",
]

T = TypeVar("T")

_LEAST_BYTES = 16 << 20
"""Handing out a part smaller than this costs more than it saves."""
_BYTES_PER_FILE = 64 << 10
"""What fetching a file costs, in bytes that could be read meanwhile."""

KEY = pa.field("key", pa.string())
"""The identity of a file; null where it is the path as it stands, which is most often."""
COMMIT_VERSION = pa.field("commitVersion", pa.int64())
IS_ADD = pa.field("isAdd", pa.bool_())

_EVERY_FIELD = pa.schema([*ADD, ("version", pa.int64())])


@dataclass(frozen=True, slots=True, kw_only=True)
class TailPart:
    """A run of files of the tail, newest first; a compaction comes with what it stands for."""

    files: tuple[tuple[LogFile, tuple[LogFile, ...]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointPart:
    """A share of the row groups of one file; without a file, the actions in a JSON manifest."""

    leaf: Leaf | None
    share: int = 0
    shares: int = 1

    def of(self, row_groups: Sequence[int]) -> list[int]:
        """Return which of the row groups are this part's."""
        count = len(row_groups)
        first, end = (at * count // self.shares for at in (self.share, self.share + 1))
        return list(row_groups[first:end])


def split_tail(segment: LogSegment, parts: int) -> list[TailPart]:
    """Cut the tail into at most so many runs of about equal weight, the newest first."""
    files = [
        (file, segment.commits_of(file) if file.kind is LogFileKind.COMPACTED else ())
        for file in reversed(segment.tail)
    ]
    weights = [file.size + _BYTES_PER_FILE for file, _ in files]
    return [TailPart(files=tuple(run)) for run in _runs(files, weights, parts)]


def split_checkpoint(
    checkpoint: Checkpoint, parts: int, pruner: Pruner
) -> list[tuple[CheckpointPart, ...]]:
    """Cut a checkpoint into at most so many pieces of work of about equal weight.

    Reads where its files are, but none of those: which row groups a share is, is found out by
    whoever reads it. Sidecars that the pruner drops by their tags are nobody's work; nor is what
    it drops of a manifest that has adds itself, whose footer is known already.
    """
    leaves = leaves_to_read(checkpoint, pruner, ScanMetrics())
    weights = [_weight(checkpoint, leaf, pruner) for leaf in leaves]
    each = max(sum(size for size, _ in weights) // parts, _LEAST_BYTES)
    items: list[tuple[CheckpointPart, int]] = []
    if checkpoint.inline_actions is not None:
        items.append((CheckpointPart(leaf=None), checkpoint.inline_actions.size))
    for leaf, (size, row_groups) in zip(leaves, weights, strict=True):
        shares = min(max(1, size // each), row_groups)
        items += [
            (CheckpointPart(leaf=leaf, share=share, shares=shares), size // shares)
            for share in range(shares)
        ]
    costs = [weight + _BYTES_PER_FILE for _, weight in items]
    return [tuple(run) for run in _runs([part for part, _ in items], costs, parts)]


def _weight(checkpoint: Checkpoint, leaf: Leaf, pruner: Pruner) -> tuple[int, int]:
    """Return about how many bytes of a file are to be read, and how many row groups at most."""
    size = leaf.size or 0
    if not leaf.is_manifest or leaf.is_part:
        return size, max(1, size)
    with closing(checkpoint.open(leaf)) as reader:
        if not reader.has_adds():
            return 0, 0
        kept = len(pruner.keep_row_groups(reader.metadata))
        return size * kept // max(1, reader.metadata.num_row_groups), kept


def typed_columns(checkpoint: Checkpoint, schema: StructType) -> list[pa.Field]:
    """Return the typed statistics that a checkpoint has, by the footer of its first file of adds.

    Args:
        checkpoint: To be read.
        schema: The table's schema, under physical names.
    """
    for leaf in checkpoint.leaves():
        with closing(checkpoint.open(leaf)) as reader:
            if reader.has_adds():
                return typed_fields(_type_of_adds(reader), schema)
    return []


def live_adds(
    snapshot: SnapshotState, schema: pa.Schema, pruner: Pruner
) -> Iterator[pa.RecordBatch]:
    """Yield the live adds that may match, found by this process alone, and their version."""
    run = ScanRun(
        snapshot,
        pruner=pruner,
        fields=schema.names,
        limit=None,
        choice=Choice("forward", "all files are wanted"),
    )
    floor = build_scalar(snapshot.segment.base_version, PrimitiveType("long"))
    for batch in run.batches():
        versions = pc.coalesce(batch.column("version"), floor)
        yield pa.RecordBatch.from_arrays(
            [*(batch.column(name) for name in schema.names), versions],
            schema=pa.schema([*schema, COMMIT_VERSION]),
        )


def _type_of_adds(reader: LeafReader) -> pa.DataType:
    """Return the type of `add` in a file; one without columns where it has no adds."""
    schema = leaf_columns(reader.metadata).to_arrow_schema()
    at = schema.get_field_index("add")
    return schema.field(at).type if at >= 0 else pa.struct([])


def _runs(items: Sequence[T], weights: Sequence[int], count: int) -> list[list[T]]:
    """Cut a sequence into at most `count` runs of about equal weight, none below the least."""
    total = sum(weights)
    count = max(1, min(count, total // _LEAST_BYTES))
    runs: list[list[T]] = [[] for _ in range(count)]
    before = 0
    for item, weight in zip(items, weights, strict=True):
        middle = before + weight // 2
        runs[min(count - 1, middle * count // total)].append(item)
        before += weight
    return [run for run in runs if run]


@dataclass(frozen=True, kw_only=True)
class PartReader:
    """Turns parts into batches, in whatever process it finds itself.

    Args:
        open_store: Opens the table's store there.
        config: Settings of the engine.
        checkpoint: The checkpoint that parts are of, if there is one.
        schema: Fields of the adds that are wanted.
        pruner: Drops files that cannot match.
    """

    open_store: Callable[[], Store]
    config: Config
    checkpoint: CheckpointFiles | None
    schema: pa.Schema
    pruner: Pruner = field(default_factory=Pruner)

    @property
    def checkpoint_schema(self) -> pa.Schema:
        """What `read_checkpoint` yields: the wanted fields, the version, the key."""
        return pa.schema([*self.schema, COMMIT_VERSION, KEY])

    @property
    def tail_schema(self) -> pa.Schema:
        """What `read_tail` yields: the same, and whether the file is live in this part."""
        return pa.schema([*self.schema, COMMIT_VERSION, KEY, IS_ADD])

    def read_tail(self, part: TailPart) -> Iterator[pa.RecordBatch]:
        """Yield a row per action of a run of commits.

        Of a file's actions in the run at most one row is an add: the newest word, if that is an
        add that may match. All others only name a file whose older adds are void.
        """
        reading = _Reading.start(self)
        seen = SeenFiles(
            memory_limit=self.config.remove_set_memory_limit,
            capacity=self.config.remove_set_capacity,
            false_positive_rate=self.config.remove_set_false_positive_rate,
        )
        try:
            reconciler = Reconciler(seen, reading.resolver.keys)
            for batch in reading.commits.batches(_chosen(part, reading, reconciler)):
                self._check_trip(batch, reading.store.root)
                yield from self._tail_rows(batch, reconciler)
        finally:
            seen.close()

    def read_checkpoint(self, parts: Iterable[CheckpointPart]) -> Iterator[pa.RecordBatch]:
        """Yield the adds of parts of the checkpoint that may match, live or not."""
        reading = _Reading.start(self)
        checkpoint = reading.checkpoint(self)
        for part in parts:
            adds = (
                self._inline_adds(checkpoint, reading)
                if part.leaf is None
                else self._leaf_adds(checkpoint, part.leaf, part)
            )
            for batch in adds:
                if batch.num_rows:
                    yield self._keyed(batch, reading.resolver, checkpoint.version)

    def _tail_rows(self, batch: CommitBatch, reconciler: Reconciler) -> Iterator[pa.RecordBatch]:
        rows = np.flatnonzero(to_mask(batch.add.is_valid()) | to_mask(batch.remove.is_valid()))
        if not len(rows):
            reconciler.live_rows(batch)
            return
        keys = reconciler.keys(batch)
        live = reconciler.live_rows(batch)
        adds = from_commit(batch.add, live, batch.versions, _EVERY_FIELD)
        mask = self.pruner.mask(adds)
        if mask is not None:
            adds, live = adds.filter(mask), live[to_mask(mask)]
        yield self._tail_batch(
            projected(adds, self.schema), batch, live, keys.take(from_numpy(_positions(rows, live)))
        )
        void = np.setdiff1d(rows, live, assume_unique=True)
        nothing = [nulls(len(void), kind) for kind in self.schema.types]
        yield self._tail_batch(
            pa.RecordBatch.from_arrays(nothing, schema=self.schema),
            batch,
            void,
            keys.take(from_numpy(_positions(rows, void))),
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

    def _keyed(self, adds: pa.RecordBatch, resolver: PathResolver, version: int) -> pa.RecordBatch:
        paths = adds.column("path")
        keys = file_keys(resolver.keys(paths), adds.column("deletionVector"))
        if keys is paths:
            keys = nulls(len(paths), KEY.type)
        versions = from_numpy(np.full(len(paths), version, np.int64))
        return pa.RecordBatch.from_arrays(
            [*adds.columns, versions, keys], schema=self.checkpoint_schema
        )

    def _inline_adds(self, checkpoint: Checkpoint, reading: _Reading) -> Iterator[pa.RecordBatch]:
        manifest = checkpoint.inline_actions
        for batch in reading.commits.batches([] if manifest is None else [manifest]):
            rows = np.flatnonzero(to_mask(batch.add.is_valid()))
            adds = from_commit(batch.add, rows, batch.versions, _EVERY_FIELD)
            mask = self.pruner.mask(adds)
            yield projected(adds if mask is None else adds.filter(mask), self.schema)

    def _leaf_adds(
        self, checkpoint: Checkpoint, leaf: Leaf, part: CheckpointPart
    ) -> Iterator[pa.RecordBatch]:
        with closing(checkpoint.open(leaf)) as reader:
            left_out = misfits(_type_of_adds(reader), self.schema)
        schema = pa.schema([field for field in self.schema if field.name not in left_out])
        nothing_seen = SeenFiles(memory_limit=0, capacity=1, false_positive_rate=0.5)
        scan = CheckpointScan(
            checkpoint.only(leaf),
            schema=schema,
            fields=schema.names,
            pruner=self.pruner,
            reconciler=Reconciler(nothing_seen, _unchanged),
            metrics=ScanMetrics(),
            share=part.of,
        )
        with closing(scan):
            scan.start(
                rows=self.config.batch_rows,
                row_groups_at_once=self.config.checkpoint_row_groups_per_batch,
            )
            for adds in scan.batches():
                yield projected(adds, self.schema) if left_out else adds

    def _check_trip(self, batch: CommitBatch, table: str) -> None:
        """Refuse an action that may not be passed, where falling back is forbidden.

        Where it is allowed nothing is to do: this replay is complete, like the reference one.
        """
        if not self.config.enable_fallback:
            trip = find_trip(batch, self.config.tripwire)
            if trip is not None:
                raise UnsupportedActionError(table, trip.version, trip.action)


@dataclass(frozen=True, slots=True)
class _Reading:
    """What reading in this process takes: made there, never sent."""

    store: Store
    resolver: PathResolver
    commits: CommitReader

    @classmethod
    def start(cls, reader: PartReader) -> _Reading:
        store = reader.open_store()
        resolver = PathResolver(store.root, reader.config.allowed_roots)
        return cls(store, resolver, CommitReader(store, reader.config))

    def checkpoint(self, reader: PartReader) -> Checkpoint:
        if reader.checkpoint is None:
            raise InternalError("a part of a checkpoint is read where there is none")
        return open_checkpoint(
            self.store,
            reader.checkpoint,
            commits=self.commits,
            resolver=self.resolver,
            config=reader.config,
        )


def _chosen(part: TailPart, reading: _Reading, reconciler: Reconciler) -> Iterator[LogFile]:
    """Yield the files to read; a compaction that is of no use gives way to its commits."""
    for file, stands_for in part.files:
        if stands_for and not is_of_use(file, reading.commits, reconciler):
            yield from reversed(stands_for)
        else:
            yield file


def _positions(rows: np.ndarray, some: np.ndarray) -> np.ndarray:
    """Return where some of the rows, which ascend, are among them."""
    return np.searchsorted(rows, some)


def _unchanged(paths: pa.Array) -> pa.Array:
    return paths
