"""The version checksum (`.crc`) of a new commit: updated incrementally, or counted.

An incremental update costs at most one small read, whatever the size of the table. It is right
because a transaction adds files that were not live and removes files that were. If the previous
checksum is missing, because its writer is not done yet, an older one is updated by the appends
since. Else a full replay counts the files, if they are few, and on a remote store only if no
checkpoint has to be read. Else no checksum is written: none is better than a wrong one. A checksum
is never replaced.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._failpoints import failpoint
from lazydelta.checkpoint import tuning
from lazydelta.checkpoint.file_totals import FileTotals
from lazydelta.checkpoint.full_replay import full_replay
from lazydelta.errors import ObjectExistsError, ObjectNotFoundError
from lazydelta.formats import BadLineError, parse_object
from lazydelta.log import Checksum, checksum_path
from lazydelta.protocol import (
    DomainMetadata,
    MalformedActionError,
    SetTransaction,
    TableMetadata,
    TableProtocol,
    TransactionRetention,
)
from lazydelta.protocol.features import supported_features
from lazydelta.store import is_local

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lazydelta.checkpoint.full_replay import FullReplay
    from lazydelta.log import CommitReader, LogFile
    from lazydelta.snapshot import SnapshotState
    from lazydelta.store import Store
    from lazydelta.transaction import Committed

__all__ = ["checksum_of", "next_checksum", "put_checksum", "write_checksum"]

logger = logging.getLogger(__name__)

_VECTORS = "deletionVectors"


def write_checksum(committed: Committed) -> SnapshotState | None:
    """Write the checksum of a commit, if that is cheap and certain; a post-commit hook."""
    body = next_checksum(committed)
    if body is None:
        body = _count_files(committed)
    if body is None:
        return None
    put_checksum(committed.store, committed.version, body)
    snapshot = committed.snapshot
    return None if snapshot is None else replace(snapshot, checksum=_parsed(committed, body))


def _parsed(committed: Committed, body: Mapping[str, Any]) -> Checksum:
    """Return a checksum as if it was read from the store."""
    raw = orjson.loads(orjson.dumps(body))
    return Checksum(
        version=committed.version,
        protocol=TableProtocol.from_json(raw["protocol"]),
        metadata=TableMetadata.from_json(raw["metadata"]),
        num_files=raw["numFiles"],
        table_size_bytes=raw["tableSizeBytes"],
        in_commit_timestamp=raw.get("inCommitTimestampOpt"),
        raw=raw,
    )


def put_checksum(store: Store, version: int, body: Mapping[str, Any]) -> None:
    """Write a checksum unless the version has one already."""
    failpoint("checksum-prepared")
    try:
        store.write(checksum_path(version), orjson.dumps(body) + b"\n", overwrite=False)
    except ObjectExistsError:
        logger.debug("%s already exists", checksum_path(version))
    failpoint("checksum-written")


def next_checksum(committed: Committed) -> dict[str, Any] | None:
    """Return the previous checksum updated by a commit; None where that is not certain."""
    transaction = committed.transaction
    previous = _PreviousChecksum.of(committed)
    if previous is None or _may_repeat_live_files(committed):
        return None
    # The base snapshot is from the log; the previous checksum is only a second source.
    base = committed.base
    state = base if base is not None and base.version == committed.version - 1 else previous
    protocol = transaction.protocol or state.protocol
    metadata = transaction.metadata or state.metadata
    if protocol is None or metadata is None:
        return None
    totals = previous.totals
    totals.add(transaction.adds)
    totals.remove(transaction.removes)
    if not totals.is_consistent:
        logger.warning("the checksum before version %d is inconsistent", committed.version)
        return None
    return _body(
        totals,
        protocol,
        metadata,
        txn_id=transaction.txn_id,
        timestamp_ms=committed.timestamp_ms,
        txns=previous.txns_after(transaction.txns, metadata, committed.timestamp_ms),
        domains=previous.domains_after(transaction.domains),
    )


def checksum_of(
    replay: FullReplay, *, timestamp_ms: int | None, txn_id: str | None = None
) -> dict[str, Any]:
    """Return the checksum of a replayed version.

    Args:
        replay: A replay that was read to its end.
        timestamp_ms: The version's in-commit timestamp, if it has one.
        txn_id: The commit's `txnId`, if known.
    """
    snapshot = replay.snapshot
    return _body(
        replay.totals,
        snapshot.protocol,
        snapshot.metadata,
        txn_id=txn_id,
        timestamp_ms=timestamp_ms,
        txns=replay.transactions,
        domains=replay.domains,
    )


def _count_files(committed: Committed) -> dict[str, Any] | None:
    """Return the checksum from a full replay, if its files are few and at hand."""
    base, snapshot = committed.base, committed.snapshot
    if base is None or snapshot is None:
        return None
    if base.segment.checkpoint is not None and not is_local(committed.store):
        return None
    expected = base.estimated_files()
    if expected is None or expected + committed.transaction.adds.num_rows > tuning.COUNTED_FILES:
        return None
    replay = full_replay(snapshot).exhaust()
    return checksum_of(
        replay, timestamp_ms=committed.timestamp_ms, txn_id=committed.transaction.txn_id
    )


def _may_repeat_live_files(committed: Committed) -> bool:
    """Whether adds may repeat live files, or removes have no size.

    Adds without a data change that replace nothing update live files, for example their row ids.
    """
    transaction = committed.transaction
    adds, removes = transaction.adds, transaction.removes
    is_repeat = adds.num_rows and not removes.num_rows and not transaction.data_change
    return bool(is_repeat or removes.column("size").null_count)


class _PreviousChecksum:
    """The checksum of the previous version."""

    def __init__(
        self,
        totals: FileTotals,
        protocol: TableProtocol | None,
        metadata: TableMetadata | None,
        raw: Mapping[str, Any],
    ) -> None:
        self.totals = totals
        self.protocol = protocol
        self.metadata = metadata
        self._raw = raw
        self._txns: list[SetTransaction] = []
        self._domains: list[DomainMetadata] = []

    @classmethod
    def of(cls, committed: Committed) -> _PreviousChecksum | None:
        if committed.version == 0:
            return cls(FileTotals(), None, None, {"setTransactions": [], "domainMetadata": []})
        previous = cls._parse(_read_previous(committed))
        base = committed.base
        if previous is not None or base is None or base.checksum is None:
            return previous
        older = cls._parse(base.checksum.raw)
        later = [file for file in base.segment.commits if file.version > base.checksum.version]
        if older is None or len(later) > tuning.CAUGHT_UP_COMMITS:
            return None
        return older if all(older.append(base.commits, file) for file in later) else None

    def append(self, commits: CommitReader, file: LogFile) -> bool:
        """Add a commit; return False if it does anything but append files."""
        actions = commits.find(file, ("protocol", "metaData", "txn", "domainMetadata"))
        if actions["protocol"] or actions["metaData"]:
            return False
        try:
            self._txns += map(SetTransaction.from_json, actions["txn"])
            self._domains += map(DomainMetadata.from_json, actions["domainMetadata"])
        except MalformedActionError:
            return False
        for batch in commits.batches([file]):
            adds = pa.RecordBatch.from_struct_array(batch.add.drop_null())
            if batch.remove.null_count < len(batch.remove):
                return False
            if pc.all(adds.column("dataChange"), skip_nulls=False).as_py() is not True:
                return False
            self.totals.add(adds)
        return True

    @classmethod
    def _parse(cls, raw: Mapping[str, Any]) -> _PreviousChecksum | None:
        try:
            protocol = TableProtocol.from_json(raw["protocol"])
            metadata = TableMetadata.from_json(raw["metadata"])
        except (KeyError, TypeError, AttributeError, MalformedActionError):
            return None
        has_vectors = _VECTORS in supported_features(protocol)
        totals = FileTotals.from_checksum(raw, has_vectors=has_vectors)
        return None if totals is None else cls(totals, protocol, metadata, raw)

    def txns_after(
        self, newer: tuple[SetTransaction, ...], metadata: TableMetadata, now_ms: int
    ) -> dict[str, SetTransaction] | None:
        """Return the current transactions; None if unknown."""
        older = self._raw.get("setTransactions")
        if not isinstance(older, list):
            return None
        try:
            actions = [*map(SetTransaction.from_json, older), *self._txns, *newer]
        except (AttributeError, MalformedActionError):
            return None
        return TransactionRetention.parse(metadata.configuration).kept(actions, now_ms=now_ms)

    def domains_after(self, newer: tuple[DomainMetadata, ...]) -> dict[str, DomainMetadata] | None:
        """Return the current domains; None if unknown."""
        older = self._raw.get("domainMetadata")
        if not isinstance(older, list):
            return None
        try:
            actions = [*map(DomainMetadata.from_json, older), *self._domains, *newer]
        except (AttributeError, MalformedActionError):
            return None
        newest = {action.domain: action for action in actions}
        return {name: action for name, action in newest.items() if not action.removed}


def _read_previous(committed: Committed) -> Mapping[str, Any]:
    """Return the checksum of the previous version; mostly the snapshot has read it already."""
    version = committed.version - 1
    checksum = None if committed.base is None else committed.base.checksum
    if checksum is not None and checksum.version == version:
        return checksum.raw
    try:
        return parse_object(bytes(committed.store.read(checksum_path(version))))
    except (ObjectNotFoundError, BadLineError):
        return {}


def _body(
    totals: FileTotals,
    protocol: TableProtocol,
    metadata: TableMetadata,
    *,
    txn_id: str | None,
    timestamp_ms: int | None,
    txns: Mapping[str, SetTransaction] | None,
    domains: Mapping[str, DomainMetadata] | None,
) -> dict[str, Any]:
    features = supported_features(protocol)
    has_timestamps = "inCommitTimestamp" in features and (
        metadata.configuration.get("delta.enableInCommitTimestamps", "").lower() == "true"
    )
    body: dict[str, Any] = {
        "txnId": txn_id,
        **totals.to_checksum(has_vectors=_VECTORS in features),
        "numMetadata": 1,
        "numProtocol": 1,
        "inCommitTimestampOpt": timestamp_ms if has_timestamps else None,
        "setTransactions": _action_list(txns),
        "domainMetadata": _action_list(domains),
        "metadata": metadata.to_json(),
        "protocol": protocol.to_json(),
    }
    return {name: value for name, value in body.items() if value is not None}


def _action_list(
    actions: Mapping[str, SetTransaction] | Mapping[str, DomainMetadata] | None,
) -> list[dict[str, Any]] | None:
    if actions is None or len(actions) > tuning.LISTED_ACTIONS:
        return None
    return [action.to_json() for action in actions.values()]
