"""The files of the target that a MERGE has to read, pruned by statistics and partition values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lazydelta._arrow import from_mask
from lazydelta.expressions.nodes import Column, Or
from lazydelta.operations.dml.matched_files import candidates
from lazydelta.replay.skipping import ColumnBounds, Pruner, file_bounds
from lazydelta.schema import to_arrow_type
from lazydelta.transaction import ADDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from lazydelta.expressions import Predicate
    from lazydelta.operations.dml.merge.condition import Condition, KeyPair
    from lazydelta.operations.dml.merge.key_index import KeyIndex
    from lazydelta.snapshot import SnapshotState

__all__ = ["has_key_bounds", "target_files"]


def target_files(
    snapshot: SnapshotState,
    condition: Condition | None = None,
    index: KeyIndex | None = None,
    *,
    predicates: Sequence[Predicate] | None = None,
    files: pa.Table | None = None,
) -> pa.Table:
    """Return the add actions of files that may have rows that a MERGE changes.

    Args:
        snapshot: The table.
        condition: The condition that rows satisfy; None keeps all files.
        index: Keys of the source, of which the rows have one.
        predicates: Conditions on the target, one of which is true of each row.
        files: Add actions of the files to choose from; by default those of the snapshot.
    """
    where = None if condition is None else condition.target_only
    if predicates:
        where = predicates[0] if len(predicates) == 1 else Or(tuple(predicates))
    pruner = Pruner.build(
        where,
        schema=snapshot.schema,
        partition_columns=snapshot.partition_columns,
        mapping_mode=snapshot.column_mapping_mode,
        generated=snapshot.generates_columns,
    )
    batches = []
    for batch in candidates(snapshot, pruner, files):
        mask = None
        if condition is not None and index is not None:
            mask = _may_have_keys(snapshot, condition, index, batch)
        adds = batch.select(ADDS.names)
        batches.append(adds if mask is None else adds.filter(from_mask(mask)))
    return pa.Table.from_batches(batches, ADDS)


def has_key_bounds(snapshot: SnapshotState, condition: Condition, files: pa.Table) -> bool:
    """Whether bounds of a key are known for one of some files, so that keys can exclude files."""
    for batch in files.to_batches():
        for key in condition.keys:
            bounds = _key_bounds(snapshot, key, batch)
            if bounds is not None and bounds.lower.null_count < batch.num_rows:
                return True
    return False


def _may_have_keys(
    snapshot: SnapshotState, condition: Condition, index: KeyIndex, adds: pa.RecordBatch
) -> np.ndarray | None:
    """Return which files may have one of the source's keys; None if all may."""
    bounds = [_key_bounds(snapshot, key, adds) for key in condition.keys]
    if not any(bounds):
        return None
    lower, upper, nulls = zip(*(found or (None, None, None) for found in bounds), strict=True)
    return index.may_match(lower, upper, nulls)


def _key_bounds(snapshot: SnapshotState, key: KeyPair, adds: pa.RecordBatch) -> ColumnBounds | None:
    """Return the bounds of a key in each file, as the type of the key."""
    if key.target_path is None:
        return None
    fields = snapshot.schema.find(key.target_path)
    is_partition = len(fields) == 1 and fields[0].name in snapshot.partition_columns
    column = Column(key.target_path, fields[-1].type, is_partition)
    bounds = file_bounds(adds, column, snapshot.schema, snapshot.column_mapping_mode)
    kind = to_arrow_type(key.type)
    if bounds is None or bounds.lower.type == kind:
        return bounds
    return ColumnBounds(bounds.lower.cast(kind), bounds.upper.cast(kind), bounds.may_have_null)
