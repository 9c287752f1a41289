"""Whether a transaction still holds after another writer's commit: the protocol's rules, no I/O.

Asked once per winner, oldest first. The checks come in the order of the conflict matrix in
docs/adr/0023: protocol, metadata, domains, applications, then files. What is not known to be
harmless is a conflict.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lazydelta.errors import (
    CommitConflictError,
    ConcurrentAppendError,
    ConcurrentDeleteDeleteError,
    ConcurrentDeleteReadError,
    ConcurrentTransactionError,
    MetadataChangedError,
    ProtocolChangedError,
    UnsupportedFeatureError,
)
from lazydelta.protocol import (
    TableProtocol,
    supported_by_table,
    unwritable_features,
    why_unreadable,
)
from lazydelta.replay import Pruner
from lazydelta.transaction.metadata_compatibility import is_adoptable
from lazydelta.transaction.transaction_state import ROW_TRACKING_DOMAIN, Standing, isolation_of

if TYPE_CHECKING:
    from lazydelta.transaction.transaction import Transaction
    from lazydelta.transaction.winning_commit import Winner

__all__ = ["AlreadyApplied", "check"]

# Features that another writer may have allowed meanwhile: they ask nothing of what was planned
# without them, or only what is filled in when a commit is prepared (row ids, times).
_HARMLESS_FEATURES = frozenset(
    {
        "checkpointProtection",
        "columnMapping",
        "deletionVectors",
        "domainMetadata",
        "inCommitTimestamp",
        "rowTracking",
        "v2Checkpoint",
        "vacuumProtocolCheck",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlreadyApplied:
    """Another commit says that the application has got at least as far: there is nothing to do."""

    version: int


def check(mine: Transaction, winner: Winner, standing: Standing) -> Standing | AlreadyApplied:
    """Return what the transaction stands on after a winner, as if it had read it.

    Args:
        mine: The transaction that lost.
        winner: The commit of the version after `standing`, with its file actions unless `mine` is
            a blind append.
        standing: What the transaction stood on.

    Raises:
        CommitConflictError: It does not hold any more; the subclass says why.
        UnsupportedFeatureError: The winner made the table one that this engine cannot write.
    """
    if winner.protocol is not None:
        _check_protocol(mine, winner, winner.protocol, standing)
    elif mine.protocol is not None:
        _check_dropped_features(mine, winner, standing)
    if winner.metadata is not None:
        _check_metadata(mine, winner, standing)
    _check_domains(mine, winner, standing)
    if _is_applied(mine, winner, standing):
        return AlreadyApplied(version=winner.version)
    if not mine.is_blind_append:
        _check_adds(mine, winner, standing)
        _check_removes(mine, winner, standing)
    return replace(
        standing.with_actions(winner.protocol, winner.metadata),
        version=winner.version,
        timestamp_ms=_time_after(winner, standing),
        row_id_mark=max(standing.row_id_mark, winner.row_id_mark),
    )


def _time_after(winner: Winner, standing: Standing) -> int | None:
    """Return when the winner was committed, where the next commit must be later."""
    if winner.timestamp_ms is not None or standing.timestamp_ms is None:
        return winner.timestamp_ms
    return max(standing.timestamp_ms, winner.stated_ms or 0)


def _conflict(
    kind: type[CommitConflictError], standing: Standing, winner: Winner, detail: str
) -> CommitConflictError:
    return kind(standing.table, winner.version, winner.operation, detail)


def _check_protocol(
    mine: Transaction, winner: Winner, protocol: TableProtocol, standing: Standing
) -> None:
    unwritable = unwritable_features(protocol)
    if unwritable:
        raise UnsupportedFeatureError(
            standing.table, unwritable, "write", why_unreadable(unwritable)
        )
    if mine.protocol is not None:
        raise _conflict(ProtocolChangedError, standing, winner, "both change the protocol")
    before, after = supported_by_table(standing.protocol), supported_by_table(protocol)
    if dropped := before - after:
        detail = f"it dropped {', '.join(sorted(dropped))}"
        raise _conflict(ProtocolChangedError, standing, winner, detail)
    if added := after - before - _HARMLESS_FEATURES:
        detail = f"it added {', '.join(sorted(added))}"
        raise _conflict(ProtocolChangedError, standing, winner, detail)


def _check_dropped_features(mine: Transaction, winner: Winner, standing: Standing) -> None:
    """A feature is dropped after all traces of it are gone; a winner may have left new ones."""
    assert mine.protocol is not None  # noqa: S101 - the caller looked
    dropped = supported_by_table(standing.protocol) - supported_by_table(mine.protocol)
    if dropped:
        detail = f"it may use {', '.join(sorted(dropped))}, which this one drops"
        raise _conflict(ProtocolChangedError, standing, winner, detail)


def _check_metadata(mine: Transaction, winner: Winner, standing: Standing) -> None:
    assert winner.metadata is not None  # noqa: S101 - the caller looked
    if mine.metadata is not None:
        raise _conflict(MetadataChangedError, standing, winner, "both change the metadata")
    if not is_adoptable(standing, winner.metadata):
        raise _conflict(
            MetadataChangedError, standing, winner, "the schema, partitioning or properties differ"
        )


def _check_domains(mine: Transaction, winner: Winner, standing: Standing) -> None:
    # Of row ids everyone takes the next ones after the winner's, so that domain never conflicts.
    names = {domain.domain for domain in mine.domains} - {ROW_TRACKING_DOMAIN}
    if both := names & {domain.domain for domain in winner.domains}:
        detail = f"metadata domain {min(both)!r}"
        raise _conflict(ConcurrentTransactionError, standing, winner, detail)


def _is_applied(mine: Transaction, winner: Winner, standing: Standing) -> bool:
    """Whether the winner is this very step of the application; another step is a conflict."""
    wins = {txn.app_id: txn.version for txn in winner.txns}
    own = {txn.app_id: txn.version for txn in mine.txns}
    touched = (own.keys() | mine.reads.app_ids) & wins.keys()
    if not touched:
        return False
    if own and all(app_id in wins and wins[app_id] >= own[app_id] for app_id in own):
        return True
    app_id = min(touched)
    detail = f"application {app_id!r} got to {wins[app_id]}"
    raise _conflict(ConcurrentTransactionError, standing, winner, detail)


def _check_adds(mine: Transaction, winner: Winner, standing: Standing) -> None:
    level = isolation_of(mine, standing)
    if level == "SnapshotIsolation" or not winner.adds.num_rows:
        return
    if level == "WriteSerializable" and mine.metadata is None and winner.is_blind_append:
        return  # the winner can be ordered after this transaction
    if mine.reads.whole_table:
        detail = f"{winner.adds.num_rows} files, and it read the whole table"
        raise _conflict(ConcurrentAppendError, standing, winner, detail)
    for predicate in mine.reads.predicates:
        pruner = Pruner.build(
            predicate,
            schema=standing.schema,
            partition_columns=standing.metadata.partition_columns,
            mapping_mode=standing.mapping_mode,
            generated=standing.supports("generatedColumns"),
        )
        mask = pruner.mask(winner.adds)
        matching = winner.adds if mask is None else winner.adds.filter(mask)
        if matching.num_rows:
            detail = f"{matching.column('path')[0].as_py()} may match {predicate}"
            raise _conflict(ConcurrentAppendError, standing, winner, detail)


def _check_removes(mine: Transaction, winner: Winner, standing: Standing) -> None:
    if not len(winner.removed):
        return
    gone = standing.resolver.keys(winner.removed)
    reads = mine.reads
    if reads.whole_table or (reads.predicates and reads.paths is None):
        detail = f"{winner.removed[0].as_py()}, and it may have read any file"
        raise _conflict(ConcurrentDeleteReadError, standing, winner, detail)
    if reads.paths is not None:
        read = standing.resolver.keys(_paths(reads.paths))
        if (found := _first_in(read, gone)) is not None:
            raise _conflict(ConcurrentDeleteReadError, standing, winner, found)
    # By path and not by path and vector: of two new vectors for one file both would stay live.
    own = standing.resolver.keys(_paths(mine.removes.column("path")))
    if (found := _first_in(own, gone)) is not None:
        raise _conflict(ConcurrentDeleteDeleteError, standing, winner, found)


def _paths(paths: pa.Array | pa.ChunkedArray) -> pa.Array:
    return paths.combine_chunks() if isinstance(paths, pa.ChunkedArray) else paths


def _first_in(paths: pa.Array, gone: pa.Array) -> str | None:
    found = paths.filter(pc.is_in(paths, value_set=gone))
    return found[0].as_py() if len(found) else None
