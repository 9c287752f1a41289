"""The reference replay: load the checkpoint, apply every commit in order, list the live adds.

`replay.ReferenceReplay` does the work; this module reads its input. A damaged checkpoint is
replaced by an older one before the first add is returned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lazydelta._arrow import from_numpy
from lazydelta.protocol.schemas import ADD
from lazydelta.replay import ReferenceReplay
from lazydelta.scan.plan.add_columns import add_leaf_columns, conformed
from lazydelta.snapshot import skip_damaged_checkpoint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lazydelta.snapshot import SnapshotState


__all__ = ["reference_adds"]

_SCHEMA = pa.schema([*ADD, ("version", pa.int64())])


def reference_adds(snapshot: SnapshotState) -> Iterator[pa.RecordBatch]:
    """Yield every live add of a snapshot with the version of its commit, newest first."""
    for version, adds in skip_damaged_checkpoint(snapshot, _replay).live():
        versions = from_numpy(np.full(adds.num_rows, version, np.int64))
        names = adds.schema.names
        arrays = [
            conformed(adds.column(field.name), field.type)
            if field.name in names
            else pa.nulls(adds.num_rows, field.type)
            for field in ADD
        ]
        yield pa.RecordBatch.from_arrays([*arrays, versions], schema=_SCHEMA)


def _replay(snapshot: SnapshotState) -> ReferenceReplay:
    segment = snapshot.segment
    replay = ReferenceReplay(snapshot.resolver.keys)
    if segment.checkpoint is not None:
        checkpoint = snapshot.open_checkpoint(segment.checkpoint)
        if checkpoint.inline_actions is not None:
            blocks = snapshot.commits.batches([checkpoint.inline_actions])
            replay.apply_commit(segment.base_version, blocks)
        for reader in checkpoint.readers():
            if not reader.has_adds():
                continue
            columns = add_leaf_columns(ADD.names, list(reader.columns))
            groups = range(reader.metadata.num_row_groups)
            for adds in reader.adds(columns, groups, rows=snapshot.config.batch_rows):
                replay.apply_checkpoint(segment.base_version, adds)
    for file in segment.commits:
        replay.apply_commit(file.version, snapshot.commits.batches([file]))
    return replay
