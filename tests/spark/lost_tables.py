"""A table to read while processes are lost."""

from __future__ import annotations

import pyarrow as pa

from tests.unit.changes.support import FeedTable

PARTS = 8
OLD, TAIL = 10 * PARTS, 2 * PARTS
ROWS = 50 * (OLD + 1) - 2


def create_read_table(place):
    """A checkpoint of many parts and a tail of many commits; each file has a number of its own."""
    kinds = {"id": "long", "n": "integer"}
    made = FeedTable(place, schema=kinds, partition_by=["n"])
    made.file("0", pa.table({"id": pa.array(range(50), pa.int64())}))

    def added(number, **more):
        if not (place / str(number)).exists():
            (place / str(number)).hardlink_to(place / "0")
        return made.add(str(number), values={"n": str(number)}, **more)

    made.commit(*map(added, range(OLD)))
    made.log.checkpoint("multipart", parts=PARTS)
    for at in range(TAIL):
        made.commit(made.remove(str(at), values={"n": str(at)}), added(OLD + at))
    made.commit(added(1, deleted=[7, 8]))
