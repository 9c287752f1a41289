"""The fallback: after an error, the second reader continues behind the rows already returned."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lazydelta._arrow import from_mask
from lazydelta.errors import DataFileError
from lazydelta.parquet.reader import read_with_fallback
from lazydelta.parquet.row_batches import RowBatch


def batches(*sizes, start=0):
    for size in sizes:
        yield pa.RecordBatch.from_pydict({"n": list(range(start, start + size))})
        start += size


def failing(*sizes):
    yield from batches(*sizes)
    raise DataFileError("t", "a.parquet", "damaged")


def numbers(found):
    return [n for batch in found for n in batch["n"].to_pylist()]


def never():
    raise AssertionError("the fallback is not needed")


def test_without_an_error_the_fallback_is_not_used():
    assert numbers(read_with_fallback(batches(3, 4), never)) == list(range(7))


def test_without_a_first_reader_the_fallback_reads_all():
    assert numbers(read_with_fallback(None, lambda: batches(3, 4))) == list(range(7))


@pytest.mark.parametrize("returned", [(), (2,), (3,), (3, 1), (5,), (3, 4)])
@pytest.mark.parametrize("sizes", [(7,), (3, 4), (1,) * 7, (0, 5, 0, 2)])
def test_rows_already_returned_are_skipped(returned, sizes):
    found = read_with_fallback(failing(*returned), lambda: batches(*sizes))
    assert numbers(found) == list(range(7))


def test_other_errors_are_raised():
    with pytest.raises(DataFileError):
        list(read_with_fallback(failing(2), never, (KeyError,)))


@pytest.mark.parametrize("returned", range(5))
def test_only_selected_rows_count(returned):
    """The first reader drops rows that are not selected; the fallback masks them."""
    mask = from_mask(np.array([True, False, True, True, False, True]))
    (columns,) = batches(6)
    selected = [0, 2, 3, 5]

    def first():
        some = pa.RecordBatch.from_pydict({"n": selected[:returned]})
        yield RowBatch(0, some.num_rows, some)
        raise DataFileError("t", "a.parquet", "damaged")

    found = []
    for rows in read_with_fallback(first(), lambda: iter([RowBatch(0, 6, columns, mask)])):
        part = rows.columns if rows.selected is None else rows.columns.filter(rows.selected)
        found += part["n"].to_pylist()
    assert found == selected


def test_a_batch_without_a_mask_keeps_its_positions():
    (columns,) = batches(6, start=10)
    rows = RowBatch(10, 6, columns).slice(2)
    assert (rows.start, rows.end, rows.columns["n"].to_pylist()) == (12, 16, [12, 13, 14, 15])
