from __future__ import annotations

import pyarrow as pa
import pytest

from lazydelta.replay import BatchSpool


@pytest.mark.parametrize("limit", [0, 50, 1 << 20])
def test_batches_come_back_in_order_wherever_they_were_kept(limit):
    spool = BatchSpool(memory_limit=limit)
    batches = [pa.record_batch({"x": [f"{number}" * 5]}) for number in range(20)]
    for batch in batches:
        spool.append(batch)
    assert list(spool.drain()) == batches
    assert list(spool.drain()) == []


def test_closing_drops_what_is_left():
    spool = BatchSpool(memory_limit=0)
    spool.append(pa.record_batch({"x": [1]}))
    spool.close()
    spool.close()
    assert list(spool.drain()) == []
