"""Tripwire: the actions for which a lazy scan falls back to the reference replay.

In `protocol` mode only an unknown action trips. In `strict` mode everything except adds and
removes without deletion vectors trips, apart from `commitInfo` (which every commit has) and the
commit that created the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow.compute as pc

if TYPE_CHECKING:
    from lazydelta.protocol import CommitBatch

from lazydelta._arrow import to_mask

__all__ = ["Trip", "find_trip"]


class Trip(NamedTuple):
    """The newest action that trips."""

    version: int
    action: str


def find_trip(batch: CommitBatch, mode: str) -> Trip | None:
    """Return the newest action of a batch that trips; None if there is none."""
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
            row = int(np.flatnonzero(to_mask(vectors.is_valid()))[0])
            trips.append(Trip(int(batch.versions[row]), "deletionVector"))
    return max(trips, key=lambda trip: trip.version, default=None)
