"""Everything that one version is made of: the only source of checkpoints and checksums.

A `FullReplay` is made by `full_replay` alone, from a snapshot's whole segment, and takes no
predicate, limit or choice of columns; so what is written from one cannot lack a file. Memory is
that of the tail: its keys (which go to disk past their limit) and its tombstones; files of the
checkpoint are streamed.

Commits are read one by one, never through a compaction, and protocol and metadata are those of the
log itself, never of a `.crc`.
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
from lazydelta.checkpoint.file_totals import FileTotals
from lazydelta.errors import InternalError, LogCorruptError
from lazydelta.log import LOG_DIRECTORY, CommitReader
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
from lazydelta.scan.plan import conformed, leaves_of, nulls
from lazydelta.schema import PrimitiveType
from lazydelta.schema.values import build_scalar
from lazydelta.snapshot import SnapshotState

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow.parquet as pq

    from lazydelta.log.checkpoints import Checkpoint, LeafReader

    Candidates = tuple[pa.RecordBatch, np.ndarray | None, int | None]

__all__ = ["STATS_PARSED", "FullReplay", "full_replay", "removes_of"]

STATS_PARSED = "stats_parsed"
_OTHERS = ("protocol", "metaData", "txn", "domainMetadata")
_DECODED_AHEAD = 4
"""Batches that may wait, as they do while commits are read."""
_BATCH_ROWS = 8_192
_COUNTED = ["size", "deletionVector"]
_TYPES = {item.name: item.type for item in ADD}
_KEY = object()


def full_replay(snapshot: SnapshotState, *, now_ms: int | None = None) -> FullReplay:
    """Return the replay of a snapshot's whole segment; to be closed.

    Args:
        snapshot: The version.
        now_ms: When tombstones and transactions have to be young enough; by default now.

    Raises:
        LogCorruptError: What the snapshot took for protocol or metadata is not in the log.
    """
    if not isinstance(snapshot, SnapshotState):
        raise TypeError(f"a full replay needs a Snapshot, not a {type(snapshot).__name__}")
    now_ms = time.time_ns() // 10**6 if now_ms is None else now_ms
    return FullReplay(snapshot, now_ms, _key=_KEY)


class FullReplay:
    """Live files and tombstones of a version, streamed once; and what else a version has.

    `adds` comes first and is read to its end, then `removes`; `totals` are complete after `adds`.
    """

    def __init__(self, snapshot: SnapshotState, now_ms: int, *, _key: object) -> None:
        if _key is not _KEY:
            raise InternalError("a FullReplay is made by full_replay alone")
        self.snapshot = snapshot
        self.now_ms = now_ms
        self.totals = FileTotals()
        others = _Others.of(snapshot)
        config = snapshot.metadata.configuration
        self.transactions = TransactionRetention.parse(config).kept(others.txns, now_ms=now_ms)
        self.domains = others.domains
        kept_for = Retention.parse(config).deleted_files
        oldest = max(0, now_ms - kept_for // timedelta(milliseconds=1))
        self._oldest_tombstone = build_scalar(oldest, PrimitiveType("long"))
        self._seen = SeenFiles(
            memory_limit=snapshot.config.remove_set_memory_limit,
            capacity=min(snapshot.config.remove_set_capacity, _expected_keys(snapshot)),
            false_positive_rate=snapshot.config.remove_set_false_positive_rate,
        )
        self._reconciler = Reconciler(self._seen, snapshot.resolver.keys)
        # Not the snapshot's: of a remove, that reads no more than its identity.
        self._commits = CommitReader(snapshot.store, snapshot.config, remove=REMOVE_ACTION)
        self._tombstones: list[pa.StructArray] = []
        self._is_complete = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Drop the keys, and the files they may be in."""
        self._seen.close()

    def exhaust(self) -> Self:
        """Read all adds for their totals alone, and close."""
        with self:
            for _ in self.adds():
                pass
        return self

    def adds(self) -> Iterator[pa.RecordBatch]:
        """Yield every live add once: its fields as columns, those that no row has left out.

        A column is of the type that the action has in a commit. `stats_parsed` is there besides
        where a checkpoint has it, in the types of its writer.
        """
        for batch, live, _ in self.adds_and_which():
            yield batch if live is None else batch.filter(from_mask(live))

    def adds_and_which(self) -> Iterator[Candidates]:
        """Yield the same with which rows of a batch are live (None: all), for who copies anyway.

        And the place of its row group among those of `footers`; None for adds of commits, which
        come first.
        """
        for batch, live, place in self._candidates():
            if live is None or live.all():
                self.totals.add(batch)
                yield batch, None, place
            elif live.any():
                self.totals.add(batch.select(_COUNTED).filter(from_mask(live)))
                yield batch, live, place
        self._is_complete = True

    def footers(self) -> list[pq.FileMetaData]:
        """Return the footers of the checkpoint's files, in the order in which those are read."""
        checkpoint = self._checkpoint()
        found = []
        for reader in () if checkpoint is None else checkpoint.readers():
            with closing(reader):
                found.append(reader.metadata)
        return found

    def removes(self) -> Iterator[pa.RecordBatch]:
        """Yield every tombstone that has not expired once, its fields as columns."""
        self.require_complete()
        tail, self._tombstones = self._tombstones, []
        for removes in tail:
            yield self._unexpired(removes)
        for removes in self._removes_of_checkpoint():
            yield self._unexpired(removes.filter(from_mask(self._is_live(removes))))

    def require_complete(self) -> None:
        """Refuse to go on where not every add was read: totals would be those of a part."""
        if not self._is_complete:
            raise InternalError("a full replay was used before all its files were read")

    # --- live files

    def _candidates(self) -> Iterator[Candidates]:
        checkpoint = self._checkpoint()
        if checkpoint is None:
            yield from self._of_commits()
            return
        # Decoding takes longest, so it begins while commits are read.
        with closing(
            BackgroundIterator(partial(_adds_of, checkpoint), depth=_DECODED_AHEAD)
        ) as decoded:
            yield from self._of_commits()
            if checkpoint.inline_actions is not None:
                for batch in self._commits.batches([checkpoint.inline_actions]):
                    if batch.add.null_count < len(batch.add):
                        adds = _without_nulls(batch.add.drop_null())
                        yield adds, self._which_live(adds), None
            for adds, place in decoded:
                yield adds, self._which_live(adds), place

    def _of_commits(self) -> Iterator[Candidates]:
        for batch in self._commits.batches(reversed(self.snapshot.segment.commits)):
            rows, removes = self._reconciler.decide(batch)
            self._tombstones += removes
            if len(rows):
                yield _without_nulls(batch.add.take(from_numpy(rows))), None, None

    def _which_live(self, adds: pa.RecordBatch) -> np.ndarray | None:
        return self._reconciler.is_live(adds.column("path"), adds.column("deletionVector"))

    def _checkpoint(self) -> Checkpoint | None:
        files = self.snapshot.segment.checkpoint
        return None if files is None else self.snapshot.open_checkpoint(files)

    # --- tombstones

    def _removes_of_checkpoint(self) -> Iterator[pa.StructArray]:
        checkpoint = self._checkpoint()
        if checkpoint is None:
            return
        if checkpoint.inline_actions is not None:
            for batch in self._commits.batches([checkpoint.inline_actions]):
                yield batch.remove.drop_null()
        for reader in checkpoint.readers():
            with closing(reader):
                yield from removes_of(reader)

    def _is_live(self, removes: pa.StructArray) -> np.ndarray:
        paths, vectors = removes.field("path"), removes.field("deletionVector")
        live = self._reconciler.is_live(paths, vectors)
        return np.ones(len(paths), np.bool_) if live is None else live

    def _unexpired(self, removes: pa.StructArray) -> pa.RecordBatch:
        batch = pa.RecordBatch.from_struct_array(removes)
        # One without a time is as old as can be: nulls are filtered out.
        return batch.filter(pc.greater(batch.column("deletionTimestamp"), self._oldest_tombstone))


@dataclass
class _Others:
    """The actions of a version that are not about files."""

    txns: list[SetTransaction] = field(default_factory=list)
    domains: dict[str, DomainMetadata] = field(default_factory=dict)

    @classmethod
    def of(cls, snapshot: SnapshotState) -> _Others:
        """Read them from the log, oldest first."""
        segment, found = snapshot.segment, cls()
        stated: dict[str, dict[str, Any]] = {}
        if segment.checkpoint is not None:
            opened = snapshot.open_checkpoint(segment.checkpoint)
            found._take(opened.actions(_OTHERS, first_only=False), stated)
        for _, actions in snapshot.commits.find_each(segment.commits, _OTHERS):
            found._take(actions, stated)
        found._check(stated, snapshot)
        found.domains = {n: a for n, a in found.domains.items() if not a.removed}
        return found

    def _take(
        self, actions: dict[str, list[dict[str, Any]]], stated: dict[str, dict[str, Any]]
    ) -> None:
        self.txns += map(SetTransaction.from_json, actions["txn"])
        for action in map(DomainMetadata.from_json, actions["domainMetadata"]):
            self.domains[action.domain] = action
        stated |= {kind: actions[kind][-1] for kind in _OTHERS[:2] if actions[kind]}

    def _check(self, stated: dict[str, dict[str, Any]], snapshot: SnapshotState) -> None:
        try:
            protocol = TableProtocol.from_json(stated.get("protocol", {}))
            metadata = TableMetadata.from_json(stated.get("metaData", {}))
        except MalformedActionError as error:
            raise _corrupt(snapshot, str(error)) from None
        if (protocol, metadata) != (snapshot.protocol, snapshot.metadata):
            reason = "its protocol or metadata is not what commits and checkpoint say"
            raise _corrupt(snapshot, reason)


def _corrupt(snapshot: SnapshotState, reason: str) -> LogCorruptError:
    """Return the error that names the newest file which speaks for the whole version."""
    segment = snapshot.segment
    files = [segment.checksum, *segment.commits[::-1]]
    files += segment.checkpoint.files if segment.checkpoint is not None else ()
    place = next((file.path for file in files if file is not None), LOG_DIRECTORY)
    return LogCorruptError(snapshot.store.root, place, reason, snapshot.version)


def _expected_keys(snapshot: SnapshotState) -> int:
    """Return about how many keys the tail has, so that a small one costs little."""
    return 1000 + sum(file.size for file in snapshot.segment.commits) // 100


def _adds_of(checkpoint: Checkpoint) -> Iterator[tuple[pa.RecordBatch, int]]:
    first = 0
    for reader in checkpoint.readers():
        with closing(reader):
            before, first = first, first + reader.metadata.num_row_groups
            if not reader.has_adds():
                continue
            groups = _groups_with(reader, "add.path")
            wanted = leaves_of((*ADD.names, STATS_PARSED), list(reader.columns))
            for group in groups:
                columns = reader.without_empty(wanted, [group])
                for adds in reader.adds(columns, [group], rows=_BATCH_ROWS):
                    if adds.num_rows:
                        yield _as_in_commits(adds), before + group


def removes_of(reader: LeafReader) -> Iterator[pa.StructArray]:
    """Yield the removes that a file of a checkpoint has, in the type that a commit has them."""
    if "remove.path" not in reader.columns:
        return
    wanted = [name for name in reader.columns if name.startswith("remove.")]
    for group in _groups_with(reader, "remove.path"):
        for batch in reader.batches(wanted, [group], rows=_BATCH_ROWS):
            removes = batch.column("remove").drop_null()
            if len(removes):
                yield conformed(removes, REMOVE_ACTION)


def _groups_with(reader: LeafReader, column: str) -> list[int]:
    """Return the row groups that may have a value in a column."""
    at = reader.columns[column]
    found = []
    for group in range(reader.metadata.num_row_groups):
        chunk = reader.metadata.row_group(group)
        statistics = chunk.column(at).statistics
        is_known = statistics is not None and statistics.has_null_count
        if not is_known or statistics.null_count < chunk.num_rows:
            found.append(group)
    return found


def _as_in_commits(adds: pa.RecordBatch) -> pa.RecordBatch:
    columns = {name: adds.column(name) for name in adds.schema.names}
    return _kept(
        {n: c if n == STATS_PARSED else conformed(c, _TYPES[n]) for n, c in columns.items()}
    )


def _without_nulls(adds: pa.StructArray) -> pa.RecordBatch:
    return _kept(dict(zip(ADD.names, adds.flatten(), strict=True)))


def _kept(columns: dict[str, pa.Array]) -> pa.RecordBatch:
    """Return a batch of the columns that have a value, and of those that everybody looks at."""
    rows = len(columns["path"])
    kept = {name: column for name, column in columns.items() if column.null_count < rows}
    for name in ("size", "deletionVector"):
        kept.setdefault(name, nulls(rows, _TYPES[name]))
    return pa.RecordBatch.from_arrays(list(kept.values()), list(kept))
