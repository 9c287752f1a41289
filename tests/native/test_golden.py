"""The golden tables, read with and without views.

`tests/acceptance/test_golden.py` has the location of the pack.
"""

from __future__ import annotations

from contextlib import suppress

import pytest

from lazydelta import ReadOptions, Table
from lazydelta.errors import DeltaError
from tests.golden_pack import NEEDS_PACK, PACK, golden_tables
from tests.native.support import three_ways, watched

pytestmark = [pytest.mark.acceptance, NEEDS_PACK]


def tables():
    """Return the names of the tables and their row counts, if known."""
    return [(one["name"], one.get("expected", {}).get("rows")) for one in golden_tables()]


@pytest.mark.parametrize(("name", "rows"), tables())
def test_views_of_a_golden_table(name, rows):
    table = Table.open(PACK / "tables" / name)
    try:
        found, _ = three_ways(table.scan())
    except DeltaError as error:  # as it is without views; which of its files is named may differ
        with pytest.raises(type(error)):
            table.scan().to_arrow()
        return
    assert rows is None or found.num_rows == rows
    flat = [one.name for one in found.schema if not one.type.num_fields]
    if 0 < len(flat) < found.num_columns:
        three_ways(table.scan(columns=flat))


def test_the_decoder_reads_many_golden_tables():
    taken = 0
    for name, _ in tables()[::4]:
        with watched() as seen, suppress(DeltaError):
            views = ReadOptions(schema_force_view_types=True)
            Table.open(PACK / "tables" / name).scan().to_arrow(views)
        taken += any(seen)
    assert taken > len(tables()) // 12
