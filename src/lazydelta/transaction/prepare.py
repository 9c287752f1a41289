"""A transaction and what it stands on -> the transaction as the next version will say it.

Fills in what depends on the version: row ids, in-commit timestamps, times of removal; done afresh
for every version a transaction is tried at. What the table does not allow is refused first, once
for each protocol and metadata that it stands on. No I/O.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import from_numpy, integers, selection
from lazydelta.errors import AppendOnlyError, InvalidCommitError, UnsupportedFeatureError
from lazydelta.formats import num_records
from lazydelta.protocol import DomainMetadata, unwritable_features, why_unreadable
from lazydelta.transaction.checks import check_actions
from lazydelta.transaction.metadata_compatibility import only_moves_marks
from lazydelta.transaction.transaction_state import ROW_TRACKING_DOMAIN, isolation_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lazydelta.transaction.transaction import Transaction
    from lazydelta.transaction.transaction_state import EffectiveIsolation, Standing

__all__ = ["Prepared", "check_allowed", "prepare"]

_ENABLED_AT_VERSION = "delta.inCommitTimestampEnablementVersion"
_ENABLED_AT_TIME = "delta.inCommitTimestampEnablementTimestamp"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A transaction, ready to be written as one version."""

    transaction: Transaction
    version: int
    timestamp_ms: int
    in_commit_timestamps: bool
    isolation: EffectiveIsolation
    tags: Mapping[str, str] = field(default_factory=dict)


def check_allowed(transaction: Transaction, standing: Standing) -> None:
    """Refuse what the table does not allow, by the protocol and metadata of the standing.

    Raises:
        UnsupportedFeatureError: The table is, or would become, one this engine cannot write.
        AppendOnlyError: It would remove rows of a table that only grows.
        InvalidCommitError: Its actions contradict each other or the table.
    """
    after = standing.with_actions(transaction.protocol, transaction.metadata)
    for protocol in {standing.protocol, after.protocol}:
        if unwritable := unwritable_features(protocol):
            reason = why_unreadable(unwritable)
            raise UnsupportedFeatureError(standing.table, unwritable, "write", reason)
    removes_rows = transaction.removes.num_rows and transaction.changes_removed_rows
    if after.properties.append_only and removes_rows:
        raise AppendOnlyError(standing.table, transaction.operation)
    check_actions(transaction, after)


def prepare(transaction: Transaction, standing: Standing, *, now_ms: int) -> Prepared:
    """Make a transaction that is allowed ready for the version after `standing`.

    Raises:
        InvalidCommitError: Rows need ids, and a file does not say how many it has.
    """
    version = standing.version + 1
    after = standing.with_actions(transaction.protocol, transaction.metadata)
    ready, timestamp_ms = _timed(transaction, standing, after, now_ms)
    return Prepared(
        transaction=_with_row_ids(_filled(ready, timestamp_ms), after, version),
        version=version,
        timestamp_ms=timestamp_ms,
        in_commit_timestamps=after.in_commit_timestamps,
        isolation=isolation_of(transaction, standing),
        tags={**_row_tags(transaction, after), **_mark_tags(standing, after)},
    )


def _timed(
    transaction: Transaction, standing: Standing, after: Standing, now_ms: int
) -> tuple[Transaction, int]:
    """Return the time of the commit: later than the one before where commits carry it."""
    if not after.in_commit_timestamps:
        return transaction, now_ms
    before = standing.timestamp_ms
    time = now_ms if before is None else max(now_ms, before + 1)
    is_first = standing.version >= 0 and not standing.in_commit_timestamps
    if not is_first or transaction.metadata is None:
        return transaction, time
    # Readers must know from where on commits carry a time, unless it is from the very first.
    since = {_ENABLED_AT_VERSION: str(standing.version + 1), _ENABLED_AT_TIME: str(time)}
    configuration = {**transaction.metadata.configuration, **since}
    metadata = replace(transaction.metadata, configuration=configuration)
    return replace(transaction, metadata=metadata), time


def _filled(transaction: Transaction, timestamp_ms: int) -> Transaction:
    """Return the transaction with what its file actions leave to the commit to say."""
    changes = selection(np.array([transaction.data_change]))[0]
    adds = _fill(transaction.adds, "dataChange", changes)
    removes = _fill(transaction.removes, "dataChange", changes)
    removes = _fill(removes, "deletionTimestamp", _number(timestamp_ms))
    return replace(transaction, adds=adds, removes=removes)


def _fill(files: pa.Table, name: str, value: pa.Scalar) -> pa.Table:
    column = files.column(name)
    if not column.null_count:
        return files
    at = files.schema.get_field_index(name)
    return files.set_column(at, files.schema.field(at), pc.fill_null(column, value))


def _with_row_ids(transaction: Transaction, after: Standing, version: int) -> Transaction:
    """Return the transaction with ids for the rows of files that have none yet."""
    adds = transaction.adds
    if not after.gives_row_ids or not adds.num_rows:
        return transaction
    versions = pc.fill_null(adds.column("defaultRowCommitVersion"), _number(version))
    given = adds.column("baseRowId").combine_chunks()
    fresh = given.is_null()
    stats = adds.column("stats").combine_chunks()
    counts = pc.if_else(fresh, num_records(stats), _number(0))
    if counts.null_count:
        path = adds.column("path").filter(counts.is_null())[0].as_py()
        reason = f"{path} needs numRecords in its statistics, since the table tracks rows"
        raise InvalidCommitError(after.table, reason)
    ends = pc.cumulative_sum(counts)
    starts = pc.add(pc.subtract(ends, counts), _number(after.row_id_mark + 1))
    adds = _set(adds, "baseRowId", pc.if_else(fresh, starts, given))
    adds = _set(adds, "defaultRowCommitVersion", versions)
    mark = after.row_id_mark + int(integers(ends)[-1])
    others = tuple(d for d in transaction.domains if d.domain != ROW_TRACKING_DOMAIN)
    if mark > after.row_id_mark:
        configuration = orjson.dumps({"rowIdHighWaterMark": mark}).decode()
        others += (DomainMetadata(domain=ROW_TRACKING_DOMAIN, configuration=configuration),)
    return replace(transaction, adds=adds, domains=others)


def _number(value: int) -> pa.Int64Scalar:
    return from_numpy(np.array([value], np.int64))[0]


def _set(files: pa.Table, name: str, values: pa.Array | pa.ChunkedArray) -> pa.Table:
    at = files.schema.get_field_index(name)
    return files.set_column(at, files.schema.field(at), values)


def _row_tags(transaction: Transaction, after: Standing) -> Mapping[str, str]:
    """Return what the protocol asks of `commitInfo.tags`: whether rows kept their ids.

    They did where none was copied: nothing was removed, or nothing was added, or what was added
    brought its ids along. Otherwise this cannot be known here, and false is always allowed.
    """
    if not (after.properties.row_tracking and after.supports("rowTracking")):
        return {}
    copies = transaction.adds.num_rows and transaction.removes.num_rows
    kept = not copies or not transaction.adds.column("baseRowId").null_count
    return {"delta.rowTracking.preserved": "true" if kept else "false"}


def _mark_tags(standing: Standing, after: Standing) -> Mapping[str, str]:
    """Return what Spark looks for, to go on after a commit that only numbered new rows."""
    moves = only_moves_marks(standing, after)
    return {"delta.identity.schemaUpdate": "true"} if moves else {}
