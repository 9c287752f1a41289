"""The full state of one version: the only source of checkpoints and checksums.

Only `full_replay` creates a `FullReplay`, from a snapshot's whole segment. It takes no predicate,
limit or columns, so what is written from it cannot lack a file. Memory is proportional to the log
tail: its file keys (spilled to disk beyond their limit) and its tombstones. The files of the
checkpoint are streamed.

Commits are read one by one, never through a log compaction. Protocol and metadata come from commits
and checkpoint, never from a checksum.
"""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import from_mask, from_numpy
from lazydelta._parallel import BackgroundIterator
from lazydelta.checkpoint import tuning
from lazydelta.checkpoint.file_totals import FileTotals
from lazydelta.errors import InternalError, LogCorruptError
from lazydelta.log import LOG_DIRECTORY
from lazydelta.protocol import (
    DomainMetadata,
    MalformedActionError,
    Retention,
    SetTransaction,
    TableMetadata,
    TableProtocol,
    TransactionRetention,
)
from lazydelta.protocol.schemas import ADD, REMOVE_ACTION
from lazydelta.replay import Reconciler, SeenFiles
from lazydelta.scan.plan import add_leaf_columns, conformed, nulls
from lazydelta.schema import PrimitiveType
from lazydelta.schema.values import build_scalar
from lazydelta.snapshot import SnapshotState

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow.parquet as pq

    from lazydelta.log import CommitReader
    from lazydelta.log.checkpoints import Checkpoint, LeafReader

    MaskedAdds = tuple[pa.RecordBatch, np.ndarray | None, int | None]

__all__ = ["STATS_PARSED", "FullReplay", "checkpoint_removes", "full_replay"]

STATS_PARSED = "stats_parsed"
_NON_FILE_ACTIONS = ("protocol", "metaData", "txn", "domainMetadata")
_COUNTED_FIELDS = ["size", "deletionVector"]
_ADD_TYPES = {item.name: item.type for item in ADD}
_CONSTRUCTOR_KEY = object()


def full_replay(snapshot: SnapshotState, *, now_ms: int | None = None) -> FullReplay:
    """Return the replay of a snapshot's whole segment; the caller closes it.

    Args:
        snapshot: The version.
        now_ms: The time that tombstones and transactions expire against; now by default.

    Raises:
        LogCorruptError: The snapshot's protocol or metadata is not that of the log.
    """
    if not isinstance(snapshot, SnapshotState):
        raise TypeError(f"a full replay needs a Snapshot, not a {type(snapshot).__name__}")
    now_ms = time.time_ns() // 10**6 if now_ms is None else now_ms
    return FullReplay(snapshot, now_ms, _key=_CONSTRUCTOR_KEY)


class FullReplay:
    """The live files and tombstones of a version, streamed once, and its non-file actions.

    Read `adds` to its end first, then `removes`. `totals` are complete after `adds`.
    """

    def __init__(self, snapshot: SnapshotState, now_ms: int, *, _key: object) -> None:
        if _key is not _CONSTRUCTOR_KEY:
            raise InternalError("only full_replay creates a FullReplay")
        self.snapshot = snapshot
        self.now_ms = now_ms
        self.totals = FileTotals()
        non_file_actions = _NonFileActions.of(snapshot)
        config = snapshot.metadata.configuration
        self.transactions = TransactionRetention.parse(config).kept(
            non_file_actions.txns, now_ms=now_ms
        )
        self.domains = non_file_actions.domains
        retention = Retention.parse(config).deleted_files
        expired_ms = max(0, now_ms - retention // timedelta(milliseconds=1))
        self._expired_ms = build_scalar(expired_ms, PrimitiveType("long"))
        self._seen = SeenFiles(
            memory_limit=snapshot.config.remove_set_memory_limit,
            capacity=min(snapshot.config.remove_set_capacity, _expected_keys(snapshot)),
            false_positive_rate=snapshot.config.remove_set_false_positive_rate,
        )
        self._reconciler = Reconciler(self._seen, snapshot.resolver.keys)
        # Not the snapshot's reader: that one reads only the file key of a remove.
        self._commits = snapshot.commits.decoding(REMOVE_ACTION)
        self._tombstones: list[pa.StructArray] = []
        self._is_complete = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the file keys, and delete their spill files."""
        self._seen.close()

    def exhaust(self) -> Self:
        """Read all adds to complete `totals`, and close."""
        with self:
            for _ in self.adds():
                pass
        return self

    def adds(self) -> Iterator[pa.RecordBatch]:
        """Yield every live add once, its fields as columns; fields without values are omitted.

        Columns have the types of a commit. `stats_parsed` is added where a checkpoint has it, in
        the types of its writer.
        """
        for batch, live, _ in self.adds_with_mask():
            yield batch if live is None else batch.filter(from_mask(live))

    def adds_with_mask(self) -> Iterator[MaskedAdds]:
        """Yield batches of adds, the mask of their live rows, and their row group.

        The mask is None if all rows are live; a caller that copies rows anyway filters for free.
        The row group is its number among those of `footers`, None for adds of commits, which come
        first.
        """
        for batch, live, row_group in self._reconciled_adds():
            if live is None or live.all():
                self.totals.add(batch)
                yield batch, None, row_group
            elif live.any():
                self.totals.add(batch.select(_COUNTED_FIELDS).filter(from_mask(live)))
                yield batch, live, row_group
        self._is_complete = True

    def footers(self) -> list[pq.FileMetaData]:
        """Return the footers of the checkpoint's files, in the order of reading."""
        checkpoint = self._checkpoint()
        footers = []
        for reader in () if checkpoint is None else checkpoint.readers():
            with closing(reader):
                footers.append(reader.metadata)
        return footers

    def removes(self) -> Iterator[pa.RecordBatch]:
        """Yield every unexpired tombstone once, its fields as columns."""
        self.require_complete()
        tail, self._tombstones = self._tombstones, []
        for removes in tail:
            yield self._unexpired(removes)
        for removes in checkpoint_removes(self._checkpoint(), self._commits):
            yield self._unexpired(removes.filter(from_mask(self._is_current(removes))))

    def require_complete(self) -> None:
        """Raise if not every add was read: the totals would be incomplete."""
        if not self._is_complete:
            raise InternalError("a full replay was used before all its files were read")

    # --- live files

    def _reconciled_adds(self) -> Iterator[MaskedAdds]:
        checkpoint = self._checkpoint()
        if checkpoint is None:
            yield from self._commit_adds()
            return
        # Decoding takes longest, so it starts while commits are read.
        decode = partial(_checkpoint_adds, checkpoint)
        with closing(BackgroundIterator(decode, depth=tuning.DECODED_BATCHES_AHEAD)) as decoded:
            yield from self._commit_adds()
            if checkpoint.inline_actions is not None:
                for batch in self._commits.batches([checkpoint.inline_actions]):
                    if batch.add.null_count < len(batch.add):
                        adds = _flatten_adds(batch.add.drop_null())
                        yield adds, self._live_mask(adds), None
            for adds, row_group in decoded:
                yield adds, self._live_mask(adds), row_group

    def _commit_adds(self) -> Iterator[MaskedAdds]:
        for batch in self._commits.batches(reversed(self.snapshot.segment.commits)):
            rows, removes = self._reconciler.decide(batch)
            self._tombstones += removes
            if len(rows):
                yield _flatten_adds(batch.add.take(from_numpy(rows))), None, None

    def _live_mask(self, adds: pa.RecordBatch) -> np.ndarray | None:
        return self._reconciler.is_live(adds.column("path"), adds.column("deletionVector"))

    def _checkpoint(self) -> Checkpoint | None:
        files = self.snapshot.segment.checkpoint
        return None if files is None else self.snapshot.open_checkpoint(files)

    # --- tombstones

    def _is_current(self, removes: pa.StructArray) -> np.ndarray:
        """Return which removes no commit after the checkpoint replaced."""
        paths, vectors = removes.field("path"), removes.field("deletionVector")
        mask = self._reconciler.is_live(paths, vectors)
        return np.ones(len(paths), np.bool_) if mask is None else mask

    def _unexpired(self, removes: pa.StructArray) -> pa.RecordBatch:
        batch = pa.RecordBatch.from_struct_array(removes)
        # A remove without a timestamp is expired: the filter drops nulls.
        return batch.filter(pc.greater(batch.column("deletionTimestamp"), self._expired_ms))


@dataclass
class _NonFileActions:
    """The transactions and domains of a version."""

    txns: list[SetTransaction] = field(default_factory=list)
    domains: dict[str, DomainMetadata] = field(default_factory=dict)

    @classmethod
    def of(cls, snapshot: SnapshotState) -> _NonFileActions:
        """Read them from the log, oldest first, and validate protocol and metadata."""
        segment, result = snapshot.segment, cls()
        newest: dict[str, dict[str, Any]] = {}
        if segment.checkpoint is not None:
            checkpoint = snapshot.open_checkpoint(segment.checkpoint)
            result._update(checkpoint.actions(_NON_FILE_ACTIONS, first_only=False), newest)
        for _, actions in snapshot.commits.find_each(segment.commits, _NON_FILE_ACTIONS):
            result._update(actions, newest)
        _validate_state(newest, snapshot)
        result.domains = {n: a for n, a in result.domains.items() if not a.removed}
        return result

    def _update(
        self, actions: dict[str, list[dict[str, Any]]], newest: dict[str, dict[str, Any]]
    ) -> None:
        self.txns += map(SetTransaction.from_json, actions["txn"])
        for action in map(DomainMetadata.from_json, actions["domainMetadata"]):
            self.domains[action.domain] = action
        newest |= {kind: actions[kind][-1] for kind in ("protocol", "metaData") if actions[kind]}


def _validate_state(newest: dict[str, dict[str, Any]], snapshot: SnapshotState) -> None:
    """Raise if protocol or metadata of the log are not those of the snapshot."""
    try:
        protocol = TableProtocol.from_json(newest.get("protocol", {}))
        metadata = TableMetadata.from_json(newest.get("metaData", {}))
    except MalformedActionError as error:
        raise _corrupt(snapshot, str(error)) from None
    if (protocol, metadata) != (snapshot.protocol, snapshot.metadata):
        reason = "its protocol or metadata differs from that of commits and checkpoint"
        raise _corrupt(snapshot, reason)


def _corrupt(snapshot: SnapshotState, reason: str) -> LogCorruptError:
    """Return an error that names the newest file of the segment, the checksum first."""
    segment = snapshot.segment
    files = [segment.checksum, *segment.commits[::-1]]
    files += segment.checkpoint.files if segment.checkpoint is not None else ()
    path = next((file.path for file in files if file is not None), LOG_DIRECTORY)
    return LogCorruptError(snapshot.store.root, path, reason, snapshot.version)


def _expected_keys(snapshot: SnapshotState) -> int:
    """Return about how many file keys the log tail has, so that a small one costs little."""
    log_bytes = sum(file.size for file in snapshot.segment.commits)
    return tuning.EXTRA_KEYS + log_bytes // tuning.LOG_BYTES_PER_KEY


def _checkpoint_adds(checkpoint: Checkpoint) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yield batches of adds with the number of their row group in the whole checkpoint."""
    next_group = 0
    for reader in checkpoint.readers():
        with closing(reader):
            first_group, next_group = next_group, next_group + reader.metadata.num_row_groups
            if not reader.has_adds():
                continue
            leaves = add_leaf_columns((*ADD.names, STATS_PARSED), list(reader.columns))
            for group in _fetched_row_groups(reader, leaves, "add.path"):
                columns = reader.without_empty(leaves, [group])
                for adds in reader.adds(columns, [group], rows=tuning.REPLAY_BATCH_ROWS):
                    if adds.num_rows:
                        yield _with_commit_types(adds), first_group + group


def checkpoint_removes(
    checkpoint: Checkpoint | None, commits: CommitReader, kind: pa.StructType = REMOVE_ACTION
) -> Iterator[pa.StructArray]:
    """Yield all tombstones of a checkpoint, expired ones included.

    Args:
        checkpoint: The checkpoint; None has no tombstones.
        commits: Reads a JSON manifest; it decodes removes as `kind`.
        kind: Some of the fields of `REMOVE_ACTION`: only these are read.
    """
    if checkpoint is None:
        return
    if checkpoint.inline_actions is not None:
        for batch in commits.batches([checkpoint.inline_actions]):
            yield batch.remove.drop_null()
    for reader in checkpoint.readers():
        with closing(reader):
            yield from _leaf_removes(reader, kind)


def _leaf_removes(reader: LeafReader, kind: pa.StructType) -> Iterator[pa.StructArray]:
    """Yield the removes of a checkpoint's file."""
    if "remove.path" not in reader.columns:
        return
    wanted = {f"remove.{name}" for name in kind.names}
    columns = [n for n in reader.columns if ".".join(n.split(".")[:2]) in wanted]
    for group in _fetched_row_groups(reader, columns, "remove.path"):
        for batch in reader.batches(columns, [group], rows=tuning.REPLAY_BATCH_ROWS):
            removes = batch.column("remove").drop_null()
            if len(removes):
                yield conformed(removes, kind)


def _fetched_row_groups(reader: LeafReader, columns: Sequence[str], required: str) -> Iterator[int]:
    """Yield the row groups that may have a value in a column; adjacent ones are fetched together.

    A window of row groups is released before the next one is fetched.
    """
    window: list[int] = []
    size = 0
    windows = [window]
    for group in _row_groups_with(reader, required):
        group_bytes = reader.column_bytes(columns, [group])
        if window and size + group_bytes > tuning.FETCHED_BYTES:
            window, size = [], 0
            windows.append(window)
        window.append(group)
        size += group_bytes
    for window in filter(None, windows):
        if len(window) > 1:
            reader.fetch(reader.without_empty(columns, window), window)
        yield from window
        reader.release(window)


def _row_groups_with(reader: LeafReader, column: str) -> list[int]:
    """Return the row groups that may have a value in a column."""
    index = reader.columns[column]
    groups = []
    for group in range(reader.metadata.num_row_groups):
        metadata = reader.metadata.row_group(group)
        statistics = metadata.column(index).statistics
        has_count = statistics is not None and statistics.has_null_count
        if not has_count or statistics.null_count < metadata.num_rows:
            groups.append(group)
    return groups


def _with_commit_types(adds: pa.RecordBatch) -> pa.RecordBatch:
    columns = {name: adds.column(name) for name in adds.schema.names}
    return _without_empty(
        {n: c if n == STATS_PARSED else conformed(c, _ADD_TYPES[n]) for n, c in columns.items()}
    )


def _flatten_adds(adds: pa.StructArray) -> pa.RecordBatch:
    return _without_empty(dict(zip(ADD.names, adds.flatten(), strict=True)))


def _without_empty(columns: dict[str, pa.Array]) -> pa.RecordBatch:
    """Return a batch of the columns that have a value, and of those that are always read."""
    rows = len(columns["path"])
    kept = {name: column for name, column in columns.items() if column.null_count < rows}
    for name in _COUNTED_FIELDS:
        kept.setdefault(name, nulls(rows, _ADD_TYPES[name]))
    return pa.RecordBatch.from_arrays(list(kept.values()), list(kept))
