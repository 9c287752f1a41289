"""Which actions a lazy scan may meet without handing over to the reference replay.

`protocol` mode trips only on what the replay does not understand: an unknown action. `strict` is
the source design's rule, add and remove only: any other action, a deletion vector, or a metadata
change trips, save `commitInfo` (which is in every commit) and the commit that created the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

if TYPE_CHECKING:
    from lazydelta.protocol import CommitBatch

from lazydelta._arrow import bits

__all__ = ["Trip", "find_trip"]


@dataclass(frozen=True, slots=True)
class Trip:
    """The newest action that the lazy scan may not pass."""

    version: int
    action: str


def find_trip(batch: CommitBatch, mode: str) -> Trip | None:
    """Return the newest action of a batch that trips, if one does."""
    if mode == "protocol":
        return next((Trip(a.version, a.kind) for a in batch.others if a.kind == "unknown"), None)
    trips = [
        Trip(action.version, action.kind)
        for action in batch.others
        if action.kind != "commitInfo"
        and not (action.version == 0 and action.kind in ("metaData", "protocol"))
    ]
    for actions in (batch.add, batch.remove):
        vectors = pc.struct_field(actions, "deletionVector")
        if vectors.null_count < len(vectors):
            row = int(np.flatnonzero(bits(vectors.is_valid()))[0])
            trips.append(Trip(int(batch.versions[row]), "deletionVector"))
    return max(trips, key=lambda trip: trip.version, default=None)
