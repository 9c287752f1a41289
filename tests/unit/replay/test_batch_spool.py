from __future__ import annotations

import pyarrow as pa
import pytest

from lazydelta.replay import BatchSpool


@pytest.mark.parametrize("limit", [0, 50, 1 << 20])
def test_batches_are_drained_in_order(limit):
    spool = BatchSpool(memory_limit=limit)
    batches = [pa.record_batch({"x": [f"{number}" * 5]}) for number in range(20)]
    for batch in batches:
        spool.append(batch)
    assert list(spool.drain()) == batches
    assert list(spool.drain()) == []


def test_close_drops_remaining_batches():
    spool = BatchSpool(memory_limit=0)
    spool.append(pa.record_batch({"x": [1]}))
    spool.close()
    spool.close()
    assert list(spool.drain()) == []
