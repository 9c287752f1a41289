"""Prepare a transaction for one version: fill in row ids, timestamps and deletion times.

Runs anew for every version that a transaction is attempted at. Validation runs once for each
protocol and metadata it is based on. No I/O.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import from_mask, from_numpy, to_numpy
from lazydelta.errors import AppendOnlyError, InvalidCommitError
from lazydelta.formats import num_records
from lazydelta.protocol import DomainMetadata
from lazydelta.protocol.features import unsupported_error, unwritable_features
from lazydelta.transaction.checks import check_actions
from lazydelta.transaction.metadata_compatibility import only_moves_identity_marks
from lazydelta.transaction.table_state import ROW_TRACKING_DOMAIN, effective_isolation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lazydelta.transaction.table_state import EffectiveIsolation, TableState
    from lazydelta.transaction.transaction import Transaction

__all__ = ["PreparedCommit", "check_allowed", "prepare"]

_ENABLEMENT_VERSION = "delta.inCommitTimestampEnablementVersion"
_ENABLEMENT_TIMESTAMP = "delta.inCommitTimestampEnablementTimestamp"


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedCommit:
    """A transaction that is ready to be committed as one version."""

    transaction: Transaction
    after: TableState
    """The table state that the commit creates."""
    timestamp_ms: int
    isolation: EffectiveIsolation
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def version(self) -> int:
        """The version of the commit."""
        return self.after.version


def check_allowed(transaction: Transaction, state: TableState) -> None:
    """Validate a transaction against the protocol and metadata of a table state.

    Raises:
        UnsupportedFeatureError: This engine cannot write the table, before or after it.
        AppendOnlyError: It would remove rows of an append-only table.
        InvalidCommitError: Its actions contradict each other or the table.
    """
    after = state.with_actions(transaction.protocol, transaction.metadata)
    for protocol in {state.protocol, after.protocol}:
        if unwritable := unwritable_features(protocol):
            raise unsupported_error(state.table, unwritable, "write")
    removes_rows = transaction.removes.num_rows and transaction.changes_removed_rows
    if after.properties.append_only and removes_rows:
        raise AppendOnlyError(state.table, transaction.operation)
    check_actions(transaction, after)


def prepare(transaction: Transaction, state: TableState, *, now_ms: int) -> PreparedCommit:
    """Prepare a valid transaction for the version after a table state.

    Raises:
        InvalidCommitError: Rows need ids, and a file has no row count.
    """
    after = state.with_actions(transaction.protocol, transaction.metadata)
    ready, timestamp_ms = _with_timestamp(transaction, state, after, now_ms)
    after = replace(after, version=state.version + 1, timestamp_ms=timestamp_ms)
    return PreparedCommit(
        transaction=_with_row_ids(_filled(ready, timestamp_ms), after),
        after=after,
        timestamp_ms=timestamp_ms,
        isolation=effective_isolation(transaction, state),
        tags={**_row_tracking_tags(transaction, after), **_identity_tags(state, after)},
    )


def _with_timestamp(
    transaction: Transaction, state: TableState, after: TableState, now_ms: int
) -> tuple[Transaction, int]:
    """Return the commit timestamp: greater than the last one, if it is an in-commit timestamp."""
    if not after.in_commit_timestamps:
        return transaction, now_ms
    last = state.timestamp_ms
    timestamp = now_ms if last is None else max(now_ms, last + 1)
    is_first = state.version >= 0 and not state.in_commit_timestamps
    if not is_first or transaction.metadata is None:
        return transaction, timestamp
    # Readers must know the first version with an in-commit timestamp, unless it is version 0.
    enablement = {
        _ENABLEMENT_VERSION: str(state.version + 1),
        _ENABLEMENT_TIMESTAMP: str(timestamp),
    }
    configuration = {**transaction.metadata.configuration, **enablement}
    metadata = replace(transaction.metadata, configuration=configuration)
    return replace(transaction, metadata=metadata), timestamp


def _filled(transaction: Transaction, timestamp_ms: int) -> Transaction:
    """Return the transaction with the defaults of its file actions."""
    changes = from_mask(np.array([transaction.data_change]))[0]
    adds = _fill(transaction.adds, "dataChange", changes)
    removes = _fill(transaction.removes, "dataChange", changes)
    removes = _fill(removes, "deletionTimestamp", _number(timestamp_ms))
    return replace(transaction, adds=adds, removes=removes)


def _fill(files: pa.Table, name: str, value: pa.Scalar) -> pa.Table:
    column = files.column(name)
    if not column.null_count:
        return files
    index = files.schema.get_field_index(name)
    return files.set_column(index, files.schema.field(index), pc.fill_null(column, value))


def _with_row_ids(transaction: Transaction, after: TableState) -> Transaction:
    """Return the transaction with row ids for the files that have none yet."""
    adds = transaction.adds
    if not after.assigns_row_ids or not adds.num_rows:
        return transaction
    versions = pc.fill_null(adds.column("defaultRowCommitVersion"), _number(after.version))
    row_ids = adds.column("baseRowId").combine_chunks()
    fresh = row_ids.is_null()
    stats = adds.column("stats").combine_chunks()
    counts = pc.if_else(fresh, num_records(stats), _number(0))
    if counts.null_count:
        path = adds.column("path").filter(counts.is_null())[0].as_py()
        reason = f"{path} needs numRecords in its statistics, as the table has row tracking"
        raise InvalidCommitError(after.table, reason)
    last = after.row_id_high_water_mark
    ends = pc.cumulative_sum(counts)
    starts = pc.add(pc.subtract(ends, counts), _number(last + 1))
    adds = _set(adds, "baseRowId", pc.if_else(fresh, starts, row_ids))
    adds = _set(adds, "defaultRowCommitVersion", versions)
    mark = last + int(to_numpy(ends)[-1])
    others = tuple(d for d in transaction.domains if d.domain != ROW_TRACKING_DOMAIN)
    if mark > last:
        configuration = orjson.dumps({"rowIdHighWaterMark": mark}).decode()
        others += (DomainMetadata(domain=ROW_TRACKING_DOMAIN, configuration=configuration),)
    return replace(transaction, adds=adds, domains=others)


def _number(value: int) -> pa.Int64Scalar:
    return from_numpy(np.array([value], np.int64))[0]


def _set(files: pa.Table, name: str, values: pa.Array | pa.ChunkedArray) -> pa.Table:
    index = files.schema.get_field_index(name)
    return files.set_column(index, files.schema.field(index), values)


def _row_tracking_tags(transaction: Transaction, after: TableState) -> Mapping[str, str]:
    """Return the `commitInfo` tag that states whether all rows kept their ids.

    They did if the transaction says so, or if no row was copied: nothing was removed, nothing was
    added, or all added files have row ids already. Otherwise it is unknown here, and false is
    always allowed.
    """
    if not (after.properties.row_tracking and after.supports("rowTracking")):
        return {}
    copies = transaction.adds.num_rows and transaction.removes.num_rows
    kept = not copies or not transaction.adds.column("baseRowId").null_count
    kept = kept or transaction.keeps_row_ids
    return {"delta.rowTracking.preserved": "true" if kept else "false"}


def _identity_tags(state: TableState, after: TableState) -> Mapping[str, str]:
    """Return the tag by which Spark rebases over commits that only move identity marks."""
    moves = only_moves_identity_marks(state, after)
    return {"delta.identity.schemaUpdate": "true"} if moves else {}
