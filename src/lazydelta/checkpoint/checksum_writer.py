"""The `.crc` of a version that was just committed: moved on from the one before, or counted anew.

Moving on costs one small read at most, whatever the size of the table. It is right because a
transaction adds files that were not live and removes files that were; where that cannot be relied
upon, or the checksum before is missing, the files are counted by a full replay if they are few, and
else no checksum is written: none is better than a wrong one. A checksum is never replaced.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import orjson

from lazydelta._failpoints import failpoint
from lazydelta.checkpoint.file_totals import FileTotals
from lazydelta.checkpoint.full_replay import full_replay
from lazydelta.errors import ObjectExistsError, ObjectNotFoundError
from lazydelta.formats import BadLineError, parse_object
from lazydelta.log import checksum_path
from lazydelta.protocol import (
    DomainMetadata,
    MalformedActionError,
    SetTransaction,
    TableMetadata,
    TableProtocol,
    TransactionRetention,
)
from lazydelta.protocol.features import supported_by_table
from lazydelta.snapshot import load_snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lazydelta.checkpoint.full_replay import FullReplay
    from lazydelta.store import Store
    from lazydelta.transaction import Committed

__all__ = ["checksum_of", "next_checksum", "put_checksum", "write_checksum"]

logger = logging.getLogger(__name__)

_FEW_FILES = 5_000
"""So many are counted anew in a few milliseconds, hardly more than the commit itself took."""
_MOST_LISTED = 1_000
"""Most transactions or domains that a checksum lists; more would make every commit dear."""
_VECTORS = "deletionVectors"


def write_checksum(committed: Committed) -> None:
    """Write the checksum of a commit, if it can be had cheaply and surely; a post-commit hook."""
    body = next_checksum(committed)
    if body is None:
        body = _counted(committed)
    if body is not None:
        put_checksum(committed.store, committed.version, body)


def put_checksum(store: Store, version: int, body: Mapping[str, Any]) -> None:
    """Write a checksum unless the version has one already."""
    failpoint("checksum-prepared")
    try:
        store.write(checksum_path(version), orjson.dumps(body) + b"\n", overwrite=False)
    except ObjectExistsError:
        logger.debug("%s is there already", checksum_path(version))
    failpoint("checksum-written")


def next_checksum(committed: Committed) -> dict[str, Any] | None:
    """Return the checksum that follows from the one before; None where that cannot be told."""
    transaction = committed.transaction
    before = _Before.of(committed)
    if before is None or _may_repeat_live_files(committed):
        return None
    # What the commit was based on is from the log; the checksum before is only a second source.
    base = committed.base
    fresh = base if base is not None and base.version == committed.version - 1 else before
    protocol = transaction.protocol or fresh.protocol
    metadata = transaction.metadata or fresh.metadata
    if protocol is None or metadata is None:
        return None
    totals = before.totals
    totals.add(transaction.adds)
    totals.remove(transaction.removes)
    if not totals.is_sound:
        logger.warning("the checksum before version %d cannot be right", committed.version)
        return None
    return _body(
        totals,
        protocol,
        metadata,
        txn_id=transaction.txn_id,
        timestamp_ms=committed.timestamp_ms,
        txns=before.txns_after(transaction.txns, metadata, committed.timestamp_ms),
        domains=before.domains_after(transaction.domains),
    )


def checksum_of(
    replay: FullReplay, *, timestamp_ms: int | None, txn_id: str | None = None
) -> dict[str, Any]:
    """Return the checksum of a version whose files were all counted.

    Args:
        replay: Read to its end.
        timestamp_ms: The version's in-commit timestamp, if it has one.
        txn_id: Of the commit, where it is known.
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


def _counted(committed: Committed) -> dict[str, Any] | None:
    """Count the files, if they are few."""
    base = committed.base
    expected = 0 if base is None else base.estimated_files()
    if expected is None or expected + committed.transaction.adds.num_rows > _FEW_FILES:
        return None
    snapshot = load_snapshot(committed.store, committed.config, version=committed.version)
    replay = full_replay(snapshot).exhaust()
    return checksum_of(
        replay, timestamp_ms=committed.timestamp_ms, txn_id=committed.transaction.txn_id
    )


def _may_repeat_live_files(committed: Committed) -> bool:
    """Whether files may be added that are live already, or removes do not say how large they were.

    Adds without new rows that replace nothing say something new of old files: their row ids, say.
    """
    transaction = committed.transaction
    adds, removes = transaction.adds, transaction.removes
    is_repeat = adds.num_rows and not removes.num_rows and not transaction.data_change
    return bool(is_repeat or removes.column("size").null_count)


class _Before:
    """The version before, as its checksum states it."""

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

    @classmethod
    def of(cls, committed: Committed) -> _Before | None:
        if committed.version == 0:
            return cls(FileTotals(), None, None, {"setTransactions": [], "domainMetadata": []})
        raw = _raw_before(committed)
        try:
            protocol = TableProtocol.from_json(raw["protocol"])
            metadata = TableMetadata.from_json(raw["metadata"])
        except (KeyError, TypeError, AttributeError, MalformedActionError):
            return None
        has_vectors = _VECTORS in supported_by_table(protocol)
        totals = FileTotals.from_checksum(raw, has_vectors=has_vectors)
        return None if totals is None else cls(totals, protocol, metadata, raw)

    def txns_after(
        self, newer: tuple[SetTransaction, ...], metadata: TableMetadata, now_ms: int
    ) -> dict[str, SetTransaction] | None:
        """Return the transactions in force; None where they are not known."""
        stated = self._raw.get("setTransactions")
        if not isinstance(stated, list):
            return None
        try:
            known = [*map(SetTransaction.from_json, stated), *newer]
        except (AttributeError, MalformedActionError):
            return None
        return TransactionRetention.parse(metadata.configuration).kept(known, now_ms=now_ms)

    def domains_after(self, newer: tuple[DomainMetadata, ...]) -> dict[str, DomainMetadata] | None:
        """Return the domains in force; None where they are not known."""
        stated = self._raw.get("domainMetadata")
        if not isinstance(stated, list):
            return None
        try:
            known = [*map(DomainMetadata.from_json, stated), *newer]
        except (AttributeError, MalformedActionError):
            return None
        newest = {action.domain: action for action in known}
        return {name: action for name, action in newest.items() if not action.removed}


def _raw_before(committed: Committed) -> Mapping[str, Any]:
    """Return the checksum of the version before; it was read with the snapshot, mostly."""
    before = committed.version - 1
    known = None if committed.base is None else committed.base.checksum
    if known is not None and known.version == before:
        return known.raw
    try:
        return parse_object(bytes(committed.store.read(checksum_path(before))))
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
    features = supported_by_table(protocol)
    has_timestamps = "inCommitTimestamp" in features and (
        metadata.configuration.get("delta.enableInCommitTimestamps", "").lower() == "true"
    )
    body: dict[str, Any] = {
        "txnId": txn_id,
        **totals.to_checksum(has_vectors=_VECTORS in features),
        "numMetadata": 1,
        "numProtocol": 1,
        "inCommitTimestampOpt": timestamp_ms if has_timestamps else None,
        "setTransactions": _listed(txns),
        "domainMetadata": _listed(domains),
        "metadata": metadata.to_json(),
        "protocol": protocol.to_json(),
    }
    return {name: value for name, value in body.items() if value is not None}


def _listed(
    actions: Mapping[str, SetTransaction] | Mapping[str, DomainMetadata] | None,
) -> list[dict[str, Any]] | None:
    if actions is None or len(actions) > _MOST_LISTED:
        return None
    return [action.to_json() for action in actions.values()]
