"""Rows chosen by position: the decoder returns what pyarrow does, near rows in one pass."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap64

import lazydelta as ld
from lazydelta.config import Config
from lazydelta.operations.dml.table_rules import plain_rows
from lazydelta.replay.skipping import Pruner
from lazydelta.scan import Scan
from lazydelta.scan.plan import live_adds
from lazydelta.scan.read import ChosenRows, read_files
from lazydelta.snapshot import load_snapshot
from lazydelta.store import open_store
from lazydelta.transaction import ADDS
from tests.native.support import watched, without_decoder

ROWS = 120_000


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory):
    """A table of one file with one row group."""
    path = tmp_path_factory.mktemp("chosen") / "t"
    strings = [f"text {at}" if at % 7 else None for at in range(ROWS)]
    ld.write(path, pa.table({"n": np.arange(ROWS), "t": strings}), "append")
    return load_snapshot(open_store(str(path)), Config())


def chosen(snapshot, positions, *, batch_rows=1 << 17, row_index=None, drops=False):
    options = replace(plain_rows(snapshot), batch_rows=batch_rows, row_index_column=row_index)
    batches = [batch.select(ADDS.names) for batch in live_adds(snapshot, ADDS, Pruner())]
    (path,) = pa.Table.from_batches(batches).column("path").to_pylist()
    rows = ChosenRows(positions={path: BitMap64(positions)}, drops=drops)
    with read_files(Scan(snapshot), batches, options=options, rows=rows) as found:
        return pa.Table.from_batches(found)


CHOICES = [
    pytest.param([0], id="first"),
    pytest.param([ROWS - 1], id="last"),
    pytest.param(range(5, ROWS, 400), id="scattered"),
    pytest.param([3, 4, 5, 110_000, 110_001], id="far-apart"),
    pytest.param(range(1000, 90_000), id="most"),
]


@pytest.mark.parametrize("batch_rows", [1000, 1 << 17])
@pytest.mark.parametrize("positions", CHOICES)
def test_the_chosen_rows_are_returned_with_and_without_the_decoder(snapshot, positions, batch_rows):
    found = chosen(snapshot, positions, batch_rows=batch_rows)
    assert found.column("n").to_pylist() == list(positions)
    with without_decoder():
        assert chosen(snapshot, positions, batch_rows=batch_rows).equals(found)


@pytest.mark.parametrize("positions", CHOICES)
def test_positions_are_those_in_the_file(snapshot, positions):
    found = chosen(snapshot, positions, row_index="row")
    assert found.column("row").to_pylist() == list(positions) == found.column("n").to_pylist()


def test_near_rows_are_decoded_in_one_pass_and_far_rows_one_by_one(snapshot):
    with watched() as calls:
        chosen(snapshot, range(5, ROWS, 2000))
    assert calls == [True]
    with watched() as calls:
        chosen(snapshot, [3, 110_000])
    assert calls == [True, True]


def test_other_rows_than_the_dropped_ones_are_returned(snapshot):
    found = chosen(snapshot, range(2, ROWS), drops=True)
    assert found.column("n").to_pylist() == [0, 1]
