"""Rows of files chosen by position: the rest is left out, like deleted rows."""

from __future__ import annotations

import shutil

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

import lazydelta as ld
from lazydelta.replay.skipping import Pruner
from lazydelta.scan import Scan, tuning
from lazydelta.scan.plan import live_adds
from lazydelta.scan.read import ChosenRows, read_files
from lazydelta.snapshot import load_snapshot
from lazydelta.transaction import ADDS

ROWS, FILES = 60, 2


def make(directory):
    shutil.rmtree(directory, ignore_errors=True)
    for file in range(FILES):
        ids = list(range(file * ROWS, (file + 1) * ROWS))
        rows = {"id": ids, "s": [f"text {i}" for i in ids], "p": ["a"] * ROWS}
        ld.write(
            directory, rows, partition_by=["p"],
            properties=None if file else {"delta.enableDeletionVectors": "true"},
            options=ld.WriteOptions(row_group_rows=16),
        )  # fmt: skip
    table = ld.Table.open(directory)
    table.delete(f"id % 10 = 3 AND id < {ROWS}", config=ld.Config(max_deleted_rows_ratio=1.0))
    return table


@pytest.mark.parametrize("columns", [["id", "s", "p"], ["p"], []])
@pytest.mark.parametrize("positions", [False, True])
@pytest.mark.parametrize("min_gap", [0, 5, 1 << 16])
@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(chosen=st.sets(st.integers(0, FILES * ROWS - 1)), drops=st.booleans())
def test_only_chosen_rows_are_read(
    tmp_path_factory, monkeypatch, columns, positions, min_gap, chosen, drops
):
    monkeypatch.setattr(tuning, "SELECTED_SKIP_ROWS", min_gap)
    directory = tmp_path_factory.getbasetemp() / "chosen"
    table = ld.Table.open(directory) if directory.exists() else make(directory)
    snapshot = load_snapshot(table._store, table._config)
    adds = [batch.select(ADDS.names) for batch in live_adds(snapshot, ADDS, Pruner())]
    live = {i for i in range(FILES * ROWS) if i >= ROWS or i % 10 != 3}
    chosen &= live
    first = {f.path: f.stats["minValues"]["id"] for f in table.scan().files()}
    bitmaps = {
        path: BitMap64([i - low for i in chosen if low <= i < low + ROWS])
        for path, low in first.items()
    }
    rows = ChosenRows(positions={p: b for p, b in bitmaps.items() if b}, drops=drops)
    options = ld.ReadOptions(row_index_column="row") if positions else ld.ReadOptions()
    expected = live - chosen if drops else chosen
    with read_files(Scan(snapshot), adds, columns, options, rows=rows) as batches:
        found = [row for batch in batches for row in batch.to_pylist()]
    assert len(found) == len(expected)
    if "id" in columns:
        assert {row["id"] for row in found} == expected
        assert all(row["s"] == f"text {row['id']}" for row in found)
        assert not positions or all(row["row"] == row["id"] % ROWS for row in found)
