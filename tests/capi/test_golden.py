"""Every golden table has the same files and rows over the C library as in process."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lazydelta.errors import DeltaError
from lazydelta.serving import error_kind
from tests.capi.host import running_host
from tests.golden_pack import NEEDS_PACK
from tests.serving.golden import (
    CAPABILITIES,
    ENTRIES,
    LIMITS,
    MOST_ROWS,
    PATHS,
    REST,
    SOME,
    TABLES,
    in_process,
    is_same,
)

pytestmark = [pytest.mark.acceptance, NEEDS_PACK]

REQUESTS = {"files": {"capabilities": CAPABILITIES}, "rows": {"limit": MOST_ROWS}}


@pytest.fixture(scope="module")
def host():
    with running_host(LAZYDELTA_BATCH_ROWS=str(LIMITS["batch_files"])) as host:
        yield host


def in_pieces(host, name, mode):
    """Return batches, each of which is the first one of a scan that another worker continues."""
    batches, token, before = [], None, None
    while True:
        scan = host.batches(
            PATHS[name], mode=mode, strategy="reverse", resume=token, **REQUESTS[mode]
        )
        step = next(scan, None)  # the scan before it still has its own worker
        if before is not None:
            before.close()
        if step is None:
            return batches
        before, (batch, token) = scan, step
        batches.append(batch)


@pytest.mark.parametrize(
    "name",
    [*SOME[:3], *(pytest.param(name, marks=pytest.mark.long) for name in [*SOME[3:], *REST])],
    ids=TABLES.get,
)
def test_another_worker_continues_after_each_batch(host, name, record_property):
    compared = 0
    for mode in REQUESTS:
        expected = in_process(name, mode)
        if isinstance(expected, DeltaError):
            with pytest.raises(OSError, match=r"\w") as caught:
                in_pieces(host, name, mode)
            if ENTRIES[name]["kind"] != "plan_only":  # the first of several missing files varies
                assert host.error_type == error_kind(expected), caught.value
            compared += 1
        else:
            batches = in_pieces(host, name, mode)
            assert is_same(pa.Table.from_batches(batches, expected.schema), expected)
            compared += 1 + len(batches)
    record_property("comparisons", compared)
