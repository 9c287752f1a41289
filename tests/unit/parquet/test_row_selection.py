"""Rows without those left out by position, where pyarrow decodes: all of a file, or what is left of it.

Whether the compiled decoder gives the same is tested in `tests/native`.
"""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lazydelta._arrow import from_mask
from lazydelta.errors import DataFileError
from lazydelta.parquet import DataFile, selected_rows
from lazydelta.store import open_store

ROWS = 50
KEPT = {
    "all": np.ones(ROWS, bool),
    "none": np.zeros(ROWS, bool),
    "every-third": np.arange(ROWS) % 3 == 0,
    "all-but-a-run": (np.arange(ROWS) < 5) | (np.arange(ROWS) > 31),
}


@pytest.fixture
def file(tmp_path):
    numbers = pa.array(range(ROWS), pa.int64())
    rows = pa.table({"n": numbers, "t": [f"text {n % 5}" for n in range(ROWS)]})
    pq.write_table(rows, tmp_path / "a.parquet", row_group_size=20)
    found = DataFile(open_store(str(tmp_path)), "a.parquet", inflated_limit=1 << 30)
    yield found
    found.close()


def told(mask):
    """Return what tells which rows are kept, as a deletion vector does."""

    def kept(start, length):
        part = mask[start : start + length]
        assert len(part) == length
        return None if part.all() else from_mask(part)

    return kept


def numbers(chosen):
    """Return the first column of the rows that are meant."""
    found = []
    for rows, keep in chosen:
        assert keep is None or len(keep) == rows.length
        part = rows.columns if keep is None else rows.columns.filter(keep)
        found += part["n"].to_pylist()
    return found


def gave_up(batches):
    """Return a decoder that gives batches and then finds that the file is damaged."""

    def compiled(file, *_asked, **_more):
        def decoded():
            yield from batches
            raise DataFileError("t", file.path, "damaged")

        return decoded()

    return patch.object(DataFile, "compiled", compiled)


def by_pyarrow():
    return patch.object(DataFile, "compiled", lambda *_asked, **_more: None)


@pytest.mark.parametrize("batch_rows", [7, 1000])
@pytest.mark.parametrize("mask", [pytest.param(mask, id=name) for name, mask in KEPT.items()])
def test_what_pyarrow_decodes_comes_with_what_is_meant_of_it(file, mask, batch_rows):
    with by_pyarrow():
        chosen = selected_rows(
            file, ["n", "t"], [0, 2], batch_rows=batch_rows, kept=told(mask), views=False,
        )  # fmt: skip
        found = numbers(chosen)
    assert found == [n for n in range(ROWS) if mask[n] and not 20 <= n < 40]


@pytest.mark.parametrize("shown", [0, 1, 6, 7, 8, 20, 33])
@pytest.mark.parametrize("mask", [None, *(pytest.param(KEPT[name], id=name) for name in KEPT)])
def test_where_the_decoder_gives_up_pyarrow_goes_on(file, mask, shown):
    """No row twice and none missing, wherever that was."""
    expected = list(range(ROWS)) if mask is None else np.flatnonzero(mask).tolist()
    some = pa.RecordBatch.from_pydict({"n": expected[:shown], "t": [""] * len(expected[:shown])})
    pieces = [some.slice(0, 4), some.slice(4)]
    with gave_up(pieces):
        kept = None if mask is None else told(mask)
        chosen = selected_rows(file, ["n", "t"], [0, 1, 2], batch_rows=7, kept=kept, views=False)
        assert numbers(chosen) == expected


def test_with_views_a_file_that_the_decoder_refuses_is_refused(file):
    with gave_up([]), pytest.raises(DataFileError, match="damaged"):
        list(selected_rows(file, ["n"], [0], batch_rows=7, kept=None, views=True))


def test_without_columns_rows_are_counted(file):
    kept = told(KEPT["every-third"])
    chosen = list(selected_rows(file, [], [0, 1, 2], batch_rows=30, kept=kept, views=False))
    assert [(rows.start, rows.length, rows.columns) for rows, _ in chosen] == [
        (0, 30, None),
        (30, 20, None),
    ]
    assert sum(keep.true_count for _, keep in chosen) == KEPT["every-third"].sum()
