"""Page headers: all of them are found, and none is believed that cannot be true."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lazydelta.parquet.page_headers import BadPageError, read_pages

ROWS = 1000


def chunk_of(column, **options):
    """Return the bytes of a file with one column, and where its pages are."""
    sink = io.BytesIO()
    pq.write_table(pa.table({"x": column}), sink, **options)
    data = sink.getvalue()
    chunk = pq.ParquetFile(io.BytesIO(data)).metadata.row_group(0).column(0)
    start = chunk.dictionary_page_offset if chunk.has_dictionary_page else chunk.data_page_offset
    return data, start, chunk


def pages_of(data, start, length):
    return list(read_pages(lambda at, size: data[at : at + size], start, length))


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("codec", ["none", "zstd", "snappy"])
@pytest.mark.parametrize("dictionary", [True, False])
@pytest.mark.parametrize("checksum", [True, False])
@pytest.mark.parametrize(
    "column",
    [
        pytest.param(pa.array(np.arange(ROWS)), id="numbers"),
        pytest.param(pa.array([None, "text" * 3000, "b"] * 100), id="long-bounds"),
        pytest.param(pa.array([[1, 2], None, []] * 100), id="lists"),
    ],
)
def test_every_page_is_found(column, version, codec, dictionary, checksum):
    data, start, chunk = chunk_of(
        column, data_page_version=version, compression=codec, use_dictionary=dictionary,
        data_page_size=256, write_batch_size=16, write_page_checksum=checksum,
    )  # fmt: skip
    pages = pages_of(data, start, chunk.total_compressed_size)
    assert len(pages) > 1
    assert [page.is_dictionary for page in pages].count(True) == dictionary
    assert sum(page.values for page in pages if not page.is_dictionary) == chunk.num_values
    whole = sum(page.decompressed for page in pages)
    assert 0 < whole <= chunk.total_uncompressed_size  # which counts the headers too


DATA, START, CHUNK = chunk_of(pa.array(np.arange(ROWS)), compression="zstd")
LENGTH = CHUNK.total_compressed_size


def test_a_page_that_goes_beyond_its_column():
    with pytest.raises(BadPageError, match="does not fit"):
        pages_of(DATA, START, LENGTH - 1)


def test_a_file_that_ends_within_a_header():
    with pytest.raises(BadPageError, match="cut off"):
        pages_of(DATA[: START + 5], START, LENGTH)


@given(st.binary(max_size=200))
def test_any_bytes_are_pages_or_refused(data):
    try:
        found = pages_of(data, 0, len(data))
    except BadPageError:
        return
    assert all(page.values >= 0 and page.decompressed >= 0 for page in found)
