"""The work on a checkpoint that other processes can share, and what stays with one of them.

Whoever replays a log in parts gives live files and tombstones as rows of one schema, which say
where they belong in the order of the layout; sorts them; and hands sorted shares back, each of
which becomes a file. Only what is known of these files meets again: counts are held against the
version's, and then the checkpoint is published, by the code that a single process uses too.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import selection
from lazydelta.checkpoint.action_source import (
    ROW_GROUP_ROWS,
    CheckpointSource,
    check_against_checksum,
    tombstone_columns,
)
from lazydelta.checkpoint.checkpoint_schema import CheckpointShape
from lazydelta.checkpoint.checkpoint_writer import conclude
from lazydelta.checkpoint.full_replay import full_replay, removes_of
from lazydelta.checkpoint.layouts import publish_v2, write_classic, write_sidecars
from lazydelta.checkpoint.write_gate import require_writable
from lazydelta.errors import InternalError
from lazydelta.log import CommitReader
from lazydelta.protocol import ADD, REMOVE_ACTION, Retention
from lazydelta.replay import Reconciler, SeenFiles, file_keys
from lazydelta.scan.plan import conformed, nulls
from lazydelta.schema import PrimitiveType, build_scalar, to_arrow_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lazydelta.checkpoint.action_files import WrittenFile
    from lazydelta.checkpoint.add_slices import Columns
    from lazydelta.checkpoint.checkpoint_writer import CheckpointResult
    from lazydelta.checkpoint.layouts import WrittenCheckpoint
    from lazydelta.log import Leaf
    from lazydelta.snapshot import Snapshot

__all__ = ["CheckpointParts", "PartFile", "TombstonePart"]

KEY = pa.field("key", pa.string())
_IS_REMOVE, _PATH = pa.field("isRemove", pa.bool_()), pa.field("path", pa.string())
_ADD, _REMOVE = pa.field("add", ADD), pa.field("remove", REMOVE_ACTION)
_LONG = PrimitiveType("long")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartFile:
    """A file that a share of the rows became, or the checkpoint that all of them are."""

    file: WrittenFile | None
    data_bytes: int
    """Of the live files that it names."""
    checkpoint: WrittenCheckpoint | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TombstonePart:
    """Where tombstones may be: in a file of the checkpoint, in its JSON manifest, or in commits."""

    leaf: Leaf | None = None
    commits: bool = False


@dataclass(frozen=True, kw_only=True)
class CheckpointParts:
    """How the checkpoint of a version is made in parts; it can be pickled.

    Args:
        shape: What the checkpoint looks like.
        texts: The same with statistics as text alone, which is how adds travel.
        others: Its actions that are not about files.
        oldest_ms: Tombstones that are not younger have expired.
    """

    shape: CheckpointShape
    texts: CheckpointShape
    others: list[dict[str, Any]]
    oldest_ms: int

    @classmethod
    def of(cls, snapshot: Snapshot, *, now_ms: int | None = None) -> CheckpointParts:
        """Plan the checkpoint of a version; files of the table are not looked at.

        Raises:
            UnsupportedFeatureError: The table has a feature whose rules for writers we do not
                follow.
            LogCorruptError: What the snapshot took for protocol or metadata is not in the log.
        """
        require_writable(snapshot)
        with full_replay(snapshot, now_ms=now_ms) as replay:
            source = CheckpointSource(replay)
            kept_for = Retention.parse(snapshot.metadata.configuration).deleted_files
            oldest = max(0, replay.now_ms - kept_for // timedelta(milliseconds=1))
        settings = replace(source.shape.settings, stats_as_json=True, stats_as_struct=False)
        texts = CheckpointShape(snapshot, settings, clustered_by=source.shape.leading)
        return cls(shape=source.shape, texts=texts, others=source.others, oldest_ms=oldest)

    @property
    def is_v2(self) -> bool:
        """Whether sorted shares become sidecars; else one share is the whole checkpoint."""
        return self.shape.settings.is_v2

    # --- rows

    @property
    def order(self) -> list[str]:
        """The columns that rows are sorted by, those that are null first."""
        return [item.name for item in self._order]

    @property
    def schema(self) -> pa.Schema:
        """What a row looks like: the columns of the order, then the action itself."""
        return pa.schema([*self._order, _ADD, _REMOVE])

    @property
    def _order(self) -> list[pa.Field]:
        partitions = [
            pa.field(f"partition{at}", to_arrow_type(kind))
            for at, kind in enumerate(self.shape.partitions.values())
        ]
        values = [pa.field(f"value{at}", kind) for at, kind in enumerate(self.shape.leading_types)]
        return [_IS_REMOVE, *partitions, *values, _PATH]

    def add_rows(self, adds: pa.RecordBatch) -> pa.RecordBatch:
        """Return live files as rows, with statistics as text.

        Args:
            adds: Fields of adds, in types of the same meaning as those of a commit; and
                `stats_parsed` where a checkpoint has it.
        """
        rows = adds.num_rows
        known = {item.name: item.type for item in ADD}
        given = pa.RecordBatch.from_arrays(
            [
                conformed(column, known[name]) if name in known else column
                for name, column in zip(adds.schema.names, adds.columns, strict=True)
            ],
            adds.schema.names,
        )
        columns = self.texts.shaped(given)
        *values, paths = self.texts.sort_values(columns)
        arrays = [columns.get(item.name, nulls(rows, item.type)) for item in ADD]
        order = {
            "path": paths,
            "isRemove": selection(np.zeros(rows, np.bool_)),
            **{f"value{at}": column for at, column in enumerate(values)},
        }
        for at, column in enumerate(self.texts.partitions_of(columns)):
            order[f"partition{at}"] = column
        actions = {"add": pa.StructArray.from_arrays(arrays, fields=list(ADD))}
        return self._rows({**order, **actions}, rows)

    def remove_rows(self, removes: pa.StructArray) -> pa.RecordBatch:
        """Return those tombstones that have not expired as rows."""
        oldest = build_scalar(self.oldest_ms, _LONG)
        young = removes.filter(pc.greater(pc.struct_field(removes, "deletionTimestamp"), oldest))
        order = {
            "isRemove": selection(np.ones(len(young), np.bool_)),
            "path": pc.struct_field(young, "path"),
        }
        return self._rows({**order, "remove": young}, len(young))

    def _rows(self, columns: Columns, rows: int) -> pa.RecordBatch:
        arrays = [
            columns[item.name] if item.name in columns else nulls(rows, item.type)
            for item in self.schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    # --- tombstones

    def tombstone_parts(self, snapshot: Snapshot) -> list[TombstonePart]:
        """Return where the checkpoint under a version may have tombstones."""
        files = snapshot.segment.checkpoint
        if files is None:
            return []
        checkpoint = snapshot.open_checkpoint(files)
        parts = [TombstonePart(leaf=leaf) for leaf in checkpoint.leaves()]
        return [*parts, TombstonePart()] if checkpoint.inline_actions is not None else parts

    def tombstones(self, snapshot: Snapshot, part: TombstonePart) -> Iterator[pa.RecordBatch]:
        """Yield the tombstones of a part that have not expired as rows, with the key of each.

        Those of commits are what is in force; those of the checkpoint only if no commit after it
        speaks of their file.
        """
        found = _of_commits(snapshot) if part.commits else _of_checkpoint(snapshot, part.leaf)
        for removes in found:
            rows = self.remove_rows(removes)
            paths = snapshot.resolver.keys(rows.column("path"))
            vectors = pc.struct_field(rows.column("remove"), "deletionVector")
            yield rows.append_column(KEY, file_keys(paths, vectors))

    # --- files

    def write(
        self, snapshot: Snapshot, rows: Iterable[pa.RecordBatch], *, expected: int
    ) -> Iterator[PartFile]:
        """Write a sorted share of the rows; nobody looks for the files of a V2 checkpoint yet.

        Args:
            snapshot: The version.
            rows: In their order; all of them where the checkpoint is one file.
            expected: How many live files the version has: one file with others is not published.

        Raises:
            ObjectExistsError: The one file is there already.
        """
        source = _Share(self, snapshot, iter(rows), expected)
        if self.is_v2:
            for file in write_sidecars(source):
                yield PartFile(file=file, data_bytes=source.taken_bytes())
        else:
            written = write_classic(source)
            yield PartFile(file=None, data_bytes=source.taken_bytes(), checkpoint=written)

    def publish(
        self, snapshot: Snapshot, files: Sequence[PartFile], *, expected: tuple[int, int],
        started: float,
    ) -> CheckpointResult:  # fmt: skip
        """Make a checkpoint of the files of all shares.

        Args:
            snapshot: The version.
            files: One `PartFile` for each file.
            expected: How many live files the version has, and of how many bytes.
            started: When the work began, as `time.perf_counter` has it.

        Raises:
            LogCorruptError: The version's `.crc` counts other files.
        InternalError: They do not hold what the version has.
        """
        check_against_checksum(snapshot, *expected)
        whole = [part.checkpoint for part in files if part.checkpoint is not None]
        sidecars = [part.file for part in files if part.file is not None]
        found = (
            sum(one.adds for one in whole) + sum(one.adds for one in sidecars),
            sum(part.data_bytes for part in files),
        )
        if found != expected:
            raise InternalError(
                f"the parts of a checkpoint name {found[0]} files of {found[1]} bytes, version "
                f"{snapshot.version} of {snapshot.store.root} has {expected[0]} of {expected[1]}"
            )
        written = publish_v2(snapshot, self.others, sidecars) if self.is_v2 else whole[0]
        return conclude(snapshot, self.shape, written, started=started)


@dataclass
class _Share:
    """Sorted rows as the source of a file; an `ActionSource`."""

    parts: CheckpointParts
    snapshot: Snapshot
    rows: Iterator[pa.RecordBatch]
    expected: int
    shape: CheckpointShape = field(init=False)
    others: list[dict[str, Any]] = field(init=False)
    _left: pa.RecordBatch | None = None
    _bytes: int = 0

    def __post_init__(self) -> None:
        self.shape, self.others = self.parts.shape, self.parts.others

    def adds(self) -> Iterator[list[Columns]]:
        for chunk in _chunks(self._leading_adds()):
            self._bytes += pc.sum(chunk.column("size")).as_py() or 0
            yield [self.shape.shaped(chunk.combine_chunks().to_batches()[0])]

    def removes(self) -> Iterator[list[Columns]]:
        for chunk in _chunks(self._trailing_removes()):
            yield [tombstone_columns(chunk, self.shape)]

    def verify(self, adds: int) -> None:
        if adds != self.expected:
            raise InternalError(f"{adds} adds were written of {self.expected}")

    def taken_bytes(self) -> int:
        """Return the bytes of live files since it was asked last."""
        taken, self._bytes = self._bytes, 0
        return taken

    def _leading_adds(self) -> Iterator[pa.RecordBatch]:
        for batch in self.rows:
            count = batch.num_rows - batch.column("isRemove").true_count
            yield _fields(batch.slice(0, count), "add", _ADD.type)
            if count < batch.num_rows:
                self._left = batch.slice(count)
                return

    def _trailing_removes(self) -> Iterator[pa.RecordBatch]:
        first = [] if self._left is None else [self._left]
        self._left = None
        for batches in (first, self.rows):
            for batch in batches:
                if batch.column("isRemove").true_count < batch.num_rows:
                    raise InternalError("the rows of a checkpoint are not sorted")
                yield _fields(batch, "remove", REMOVE_ACTION)


def _fields(rows: pa.RecordBatch, name: str, kind: pa.StructType) -> pa.RecordBatch:
    # Not `from_struct_array`, which in pyarrow 20 forgets where a slice ends.
    return pa.RecordBatch.from_arrays(conformed(rows.column(name), kind).flatten(), kind.names)


def _chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield rows as many at a time as a row group has, the last perhaps fewer."""
    waiting: pa.Table | None = None
    for batch in batches:
        table = pa.Table.from_batches([batch])
        waiting = table if waiting is None else pa.concat_tables([waiting, table])
        while waiting.num_rows >= ROW_GROUP_ROWS:
            yield waiting.slice(0, ROW_GROUP_ROWS)
            waiting = waiting.slice(ROW_GROUP_ROWS)
    if waiting is not None and waiting.num_rows:
        yield waiting


def _of_commits(snapshot: Snapshot) -> Iterator[pa.StructArray]:
    """Yield the removes that are the tail's last word on a file."""
    config = snapshot.config
    seen = SeenFiles(
        memory_limit=config.remove_set_memory_limit,
        capacity=config.remove_set_capacity,
        false_positive_rate=config.remove_set_false_positive_rate,
    )
    with closing(seen):
        reconciler = Reconciler(seen, snapshot.resolver.keys)
        commits = CommitReader(snapshot.store, config, remove=REMOVE_ACTION)
        for batch in commits.batches(reversed(snapshot.segment.commits)):
            yield from reconciler.decide(batch)[1]


def _of_checkpoint(snapshot: Snapshot, leaf: Leaf | None) -> Iterator[pa.StructArray]:
    files = snapshot.segment.checkpoint
    if files is None:
        raise InternalError("a part of a checkpoint is read where there is none")
    checkpoint = snapshot.open_checkpoint(files)
    if leaf is None:
        commits = CommitReader(snapshot.store, snapshot.config, remove=REMOVE_ACTION)
        manifest = checkpoint.inline_actions
        for batch in commits.batches([] if manifest is None else [manifest]):
            yield batch.remove.drop_null()
        return
    with closing(checkpoint.open(leaf)) as reader:
        yield from removes_of(reader)
