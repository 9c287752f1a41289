"""Row selection by position, where pyarrow decodes all of a file or continues after the decoder.

`tests/native` compares the native decoder.
"""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lazydelta._arrow import from_mask
from lazydelta.errors import DataFileError
from lazydelta.parquet import DataFile
from lazydelta.parquet.native_reader import NativeReader
from lazydelta.parquet.row_batches import RowBatch
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
    found = DataFile(open_store(str(tmp_path)), "a.parquet", max_decoded_bytes=1 << 30)
    yield found
    found.close()


def keeping(mask):
    """Return the row selection of a mask, as a deletion vector makes it."""

    def kept(start, length):
        part = mask[start : start + length]
        assert len(part) == length
        return None if part.all() else from_mask(part)

    return kept


def numbers(chosen):
    """Return the first column of the selected rows."""
    found = []
    for rows in chosen:
        keep = rows.selected
        assert keep is None or len(keep) == rows.length
        part = rows.columns if keep is None else rows.columns.filter(keep)
        found += part["n"].to_pylist()
    return found


def gave_up(batches):
    """Patch the decoder to return batches and then fail on damage."""

    def read(*_args, **_kwargs):
        for batch in batches:
            yield RowBatch(0, batch.num_rows, batch)
        raise DataFileError("t", "a.parquet", "damaged")

    return patch.object(NativeReader, "read", read)


def by_pyarrow():
    return patch.object(NativeReader, "read", lambda *_args, **_kwargs: None)


@pytest.mark.parametrize("batch_rows", [7, 1000])
@pytest.mark.parametrize("mask", [pytest.param(mask, id=name) for name, mask in KEPT.items()])
def test_pyarrow_returns_a_mask_of_the_kept_rows(file, mask, batch_rows):
    with by_pyarrow():
        chosen = file.read(["n", "t"], [0, 2], batch_rows=batch_rows, keep=keeping(mask))
        found = numbers(chosen)
    assert found == [n for n in range(ROWS) if mask[n] and not 20 <= n < 40]


@pytest.mark.parametrize("shown", [0, 1, 6, 7, 8, 20, 33])
@pytest.mark.parametrize("mask", [None, *(pytest.param(KEPT[name], id=name) for name in KEPT)])
def test_pyarrow_continues_where_the_decoder_fails(file, mask, shown):
    """No row twice and none missing, wherever it fails."""
    expected = list(range(ROWS)) if mask is None else np.flatnonzero(mask).tolist()
    some = pa.RecordBatch.from_pydict({"n": expected[:shown], "t": [""] * len(expected[:shown])})
    pieces = [some.slice(0, 4), some.slice(4)]
    with gave_up(pieces):
        kept = None if mask is None else keeping(mask)
        chosen = file.read(["n", "t"], [0, 1, 2], batch_rows=7, keep=kept)
        assert numbers(chosen) == expected


def test_with_views_a_file_that_the_decoder_refuses_is_refused(file):
    with gave_up([]), pytest.raises(DataFileError, match="damaged"):
        list(file.read(["n"], [0], batch_rows=7, views=True))


def test_without_columns_rows_are_counted(file):
    kept = keeping(KEPT["every-third"])
    chosen = list(file.read([], [0, 1, 2], batch_rows=30, keep=kept))
    assert [(rows.start, rows.length, rows.columns) for rows in chosen] == [
        (0, 30, None),
        (30, 20, None),
    ]
    assert sum(rows.num_rows for rows in chosen) == KEPT["every-third"].sum()
