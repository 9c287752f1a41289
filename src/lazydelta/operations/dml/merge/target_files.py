"""The files of the target that a MERGE has to read, pruned by statistics and partition values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lazydelta.expressions.nodes import Or
from lazydelta.replay.skipping import Pruner
from lazydelta.scan.plan import live_adds
from lazydelta.transaction import ADDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lazydelta.expressions import Predicate
    from lazydelta.operations.dml.merge.condition import Condition
    from lazydelta.operations.dml.merge.key_index import KeyIndex
    from lazydelta.snapshot import SnapshotState

__all__ = ["target_files"]


def target_files(
    snapshot: SnapshotState,
    condition: Condition | None = None,
    index: KeyIndex | None = None,
    *,
    predicates: Sequence[Predicate] | None = None,
) -> pa.Table:
    """Return the add actions of files that may have rows that a MERGE changes.

    Args:
        snapshot: The table.
        condition: The condition that rows satisfy; None keeps all files.
        index: Keys of the source, of which the rows have one.
        predicates: Conditions on the target, one of which is true of each row.
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
    batches = [batch.select(ADDS.names) for batch in live_adds(snapshot, ADDS, pruner)]
    return pa.Table.from_batches(batches, ADDS)
