"""Conflict detection: whether a transaction is valid after another writer's commit. No I/O.

Runs once per winning commit, oldest first, in the order of the conflict matrix in docs/adr/0023:
protocol, metadata, domains, applications, then files. What is not known to be harmless is a
conflict.
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
)
from lazydelta.protocol.features import (
    enabled_features,
    supported_features,
    unsupported_error,
    unwritable_features,
)
from lazydelta.replay.skipping import Pruner
from lazydelta.transaction.metadata_compatibility import is_compatible
from lazydelta.transaction.table_state import ROW_TRACKING_DOMAIN, TableState, effective_isolation

if TYPE_CHECKING:
    from lazydelta.protocol import TableMetadata, TableProtocol
    from lazydelta.transaction.transaction import Transaction
    from lazydelta.transaction.winning_commit import WinningCommit

__all__ = ["AlreadyApplied", "check", "state_after"]

# Features that a winning commit may add: they require nothing of a transaction planned without
# them, or only what is filled in when a commit is prepared (row ids, timestamps).
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

# A higher legacy writer version adds all features of the versions below it. They require something
# only where the metadata uses them: by a table property, or by these keys of field metadata.
_LEGACY_FEATURES = {
    "appendOnly": None,
    "changeDataFeed": None,
    "checkConstraints": None,
    "generatedColumns": "delta.generationExpression",
    "identityColumns": "delta.identity.",
    "invariants": "delta.invariants",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AlreadyApplied:
    """A winning commit has this version of the application transaction: nothing is left to do."""

    version: int


def check(
    mine: Transaction, winner: WinningCommit, state: TableState
) -> TableState | AlreadyApplied:
    """Return the table state after a winning commit, on which the transaction is rebased.

    Args:
        mine: The transaction that lost the version.
        winner: The commit of the version after `state`, with its file actions unless `mine` is
            a blind append.
        state: The state that the transaction was prepared on.

    Raises:
        CommitConflictError: The commits conflict; the subclass is the kind of conflict.
        UnsupportedFeatureError: This engine cannot write the table after the winning commit.
    """
    if winner.protocol is not None:
        _check_protocol(mine, winner, winner.protocol, state)
    elif mine.protocol is not None:
        _check_dropped_features(mine, winner, state)
    if winner.metadata is not None:
        _check_metadata(mine, winner, state)
    _check_domains(mine, winner, state)
    if _is_applied(mine, winner, state):
        return AlreadyApplied(version=winner.version)
    if not mine.is_blind_append:
        _check_adds(mine, winner, state)
        _check_removes(mine, winner, state)
    return state_after(winner, state)


def state_after(winner: WinningCommit, state: TableState) -> TableState:
    """Return the table state after a commit of the next version."""
    return replace(
        state.with_actions(winner.protocol, winner.metadata),
        version=winner.version,
        timestamp_ms=_timestamp_after(winner, state),
        row_id_high_water_mark=max(state.row_id_high_water_mark, winner.row_id_high_water_mark),
    )


def _timestamp_after(winner: WinningCommit, state: TableState) -> int | None:
    """Return the timestamp that the next in-commit timestamp must exceed."""
    if winner.in_commit_timestamp is not None or state.timestamp_ms is None:
        return winner.in_commit_timestamp
    return max(state.timestamp_ms, winner.info_timestamp or 0)


def _conflict(
    kind: type[CommitConflictError], state: TableState, winner: WinningCommit, detail: str
) -> CommitConflictError:
    return kind(state.table, winner.version, winner.operation, detail)


def _check_protocol(
    mine: Transaction, winner: WinningCommit, protocol: TableProtocol, state: TableState
) -> None:
    unwritable = unwritable_features(protocol)
    if unwritable:
        raise unsupported_error(state.table, unwritable, "write")
    if mine.protocol is not None:
        raise _conflict(ProtocolChangedError, state, winner, "both change the protocol")
    before, after = supported_features(state.protocol), supported_features(protocol)
    if dropped := before - after:
        detail = f"it dropped {', '.join(sorted(dropped))}"
        raise _conflict(ProtocolChangedError, state, winner, detail)
    metadata = winner.metadata or state.metadata
    if added := after - before - _HARMLESS_FEATURES - _unused_legacy_features(metadata):
        detail = f"it added {', '.join(sorted(added))}"
        raise _conflict(ProtocolChangedError, state, winner, detail)


def _unused_legacy_features(metadata: TableMetadata) -> set[str]:
    active = enabled_features(metadata.configuration)
    return {
        feature
        for feature, key in _LEGACY_FEATURES.items()
        if feature not in active and (key is None or key not in metadata.schema_string)
    }


def _check_dropped_features(mine: Transaction, winner: WinningCommit, state: TableState) -> None:
    """A feature is dropped after its last trace is removed; a winner may have added new ones."""
    assert mine.protocol is not None  # noqa: S101 - the caller checked
    dropped = supported_features(state.protocol) - supported_features(mine.protocol)
    if dropped:
        detail = f"it may use {', '.join(sorted(dropped))}, which this one drops"
        raise _conflict(ProtocolChangedError, state, winner, detail)


def _check_metadata(mine: Transaction, winner: WinningCommit, state: TableState) -> None:
    assert winner.metadata is not None  # noqa: S101 - the caller checked
    if mine.metadata is not None:
        raise _conflict(MetadataChangedError, state, winner, "both change the metadata")
    if not is_compatible(state, winner.metadata):
        raise _conflict(
            MetadataChangedError, state, winner, "the schema, partitioning or properties differ"
        )


def _check_domains(mine: Transaction, winner: WinningCommit, state: TableState) -> None:
    # Row ids are assigned anew after the winner's, so this domain never conflicts.
    names = {domain.domain for domain in mine.domains} - {ROW_TRACKING_DOMAIN}
    if both := names & {domain.domain for domain in winner.domains}:
        detail = f"metadata domain {min(both)!r}"
        raise _conflict(ConcurrentTransactionError, state, winner, detail)


def _is_applied(mine: Transaction, winner: WinningCommit, state: TableState) -> bool:
    """Whether the winner has this application transaction; an earlier version is a conflict."""
    wins = {txn.app_id: txn.version for txn in winner.txns}
    own = {txn.app_id: txn.version for txn in mine.txns}
    touched = (own.keys() | mine.reads.app_ids) & wins.keys()
    if not touched:
        return False
    if own and all(app_id in wins and wins[app_id] >= own[app_id] for app_id in own):
        return True
    app_id = min(touched)
    detail = f"application {app_id!r} committed version {wins[app_id]}"
    raise _conflict(ConcurrentTransactionError, state, winner, detail)


def _check_adds(mine: Transaction, winner: WinningCommit, state: TableState) -> None:
    level = effective_isolation(mine, state)
    if level == "SnapshotIsolation" or not winner.adds.num_rows:
        return
    if level == "WriteSerializable" and mine.metadata is None and winner.is_blind_append:
        return  # the winner can be ordered after this transaction
    if mine.reads.whole_table:
        detail = f"{winner.adds.num_rows} files, and it read the whole table"
        raise _conflict(ConcurrentAppendError, state, winner, detail)
    for predicate in mine.reads.predicates:
        pruner = Pruner.build(
            predicate,
            schema=state.schema,
            partition_columns=state.metadata.partition_columns,
            mapping_mode=state.mapping_mode,
            generated=state.supports("generatedColumns"),
        )
        mask = pruner.mask(winner.adds)
        matching = winner.adds if mask is None else winner.adds.filter(mask)
        if matching.num_rows:
            detail = f"{matching.column('path')[0].as_py()} may match {predicate}"
            raise _conflict(ConcurrentAppendError, state, winner, detail)


def _check_removes(mine: Transaction, winner: WinningCommit, state: TableState) -> None:
    if not len(winner.removed):
        return
    removed = state.resolver.keys(winner.removed)
    reads = mine.reads
    if reads.whole_table or (reads.predicates and reads.paths is None):
        detail = f"{winner.removed[0].as_py()}, and it may have read any file"
        raise _conflict(ConcurrentDeleteReadError, state, winner, detail)
    if reads.paths is not None:
        read = state.resolver.keys(_paths(reads.paths))
        if (path := _first_in(read, removed)) is not None:
            raise _conflict(ConcurrentDeleteReadError, state, winner, path)
    # By path alone: two new deletion vectors of one file would both stay live.
    own = state.resolver.keys(_paths(mine.removes.column("path")))
    if (path := _first_in(own, removed)) is not None:
        raise _conflict(ConcurrentDeleteDeleteError, state, winner, path)


def _paths(paths: pa.Array | pa.ChunkedArray) -> pa.Array:
    return paths.combine_chunks() if isinstance(paths, pa.ChunkedArray) else paths


def _first_in(paths: pa.Array, removed: pa.Array) -> str | None:
    common = paths.filter(pc.is_in(paths, value_set=removed))
    return common[0].as_py() if len(common) else None
