"""Golden tables: listed and read with a break after every batch, each part by a fresh handle."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lazydelta import Config, ReadOptions, Table
from lazydelta.errors import DeltaError
from tests.golden_pack import NEEDS_PACK, PACK, golden_tables

LEAST_TABLES = 150
PARTS = 4

pytestmark = [pytest.mark.acceptance, NEEDS_PACK]


def opened(name, **settings):
    return Table.open(PACK / "tables" / name, config=Config(**settings)).scan()


def listed(name):
    scan = opened(name)
    return pa.Table.from_batches(scan.file_batches(), scan.file_schema)


def check_breaks(name, kind):
    """Return whether a table can be read, after checking each break."""
    try:
        whole = opened(name).to_arrow() if kind == "rows" else listed(name)
    except DeltaError:
        return False  # other tests know which errors are right
    size = max(1, whole.num_rows // PARTS)
    settings = {"batch_rows": size} if kind == "files" else {"read": ReadOptions(batch_rows=size)}
    parts, token = [], None
    while True:
        with getattr(opened(name, **settings), f"resumable_{kind}")(token) as stream:
            delivered = next(stream, None)
        if delivered is None:
            break
        parts.append(delivered.batch)
        token = delivered.token
    assert pa.Table.from_batches(parts, whole.schema).equals(whole), name
    return True


def names():
    return [table["name"] for table in golden_tables() if table["kind"] == "ok"]


@pytest.mark.parametrize("kind", ["files", "rows"])
def test_some_golden_tables_continue_after_every_batch(kind):
    assert sum(check_breaks(name, kind) for name in names()[::5]) >= LEAST_TABLES // 5


@pytest.mark.long
@pytest.mark.parametrize("kind", ["files", "rows"])
def test_all_golden_tables_continue_after_every_batch(kind):
    assert sum(check_breaks(name, kind) for name in names()) >= LEAST_TABLES


@pytest.mark.parametrize("kind", ["files", "rows"])
def test_shares_of_golden_tables_are_complete(kind):
    read = 0
    for table in golden_tables()[::3]:
        try:
            scan = opened(table["name"])
            expected = (
                scan.to_arrow().num_rows if kind == "rows" else listed(table["name"]).num_rows
            )
        except DeltaError:
            continue
        shares = [scan.resume(share) for share in scan.shares(2, kind)]
        assert sum(batch.num_rows for share in shares for batch, _ in share) == expected
        read += 1
    assert read >= LEAST_TABLES // 5
