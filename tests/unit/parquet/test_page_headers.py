"""Page headers: all are read, and invalid ones are refused."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lazydelta.parquet.pages.page_headers import BadPageError, read_page_headers

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
    return list(read_page_headers(lambda at, size: data[at : at + size], start, length))


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("codec", ["none", "zstd", "snappy"])
@pytest.mark.parametrize("dictionary", [True, False])
@pytest.mark.parametrize("checksum", [True, False])
@pytest.mark.parametrize(
    "column",
    [
        pytest.param(pa.array(np.arange(ROWS)), id="integers"),
        pytest.param(pa.array([None, "text" * 3000, "b"] * 100), id="long-bounds"),
        pytest.param(pa.array([[1, 2], None, []] * 100), id="lists"),
    ],
)
def test_headers_of_all_pages_are_read(column, version, codec, dictionary, checksum):
    data, start, chunk = chunk_of(
        column, data_page_version=version, compression=codec, use_dictionary=dictionary,
        data_page_size=256, write_batch_size=16, write_page_checksum=checksum,
    )  # fmt: skip
    pages = pages_of(data, start, chunk.total_compressed_size)
    assert len(pages) > 1
    assert [page.is_dictionary for page in pages].count(True) == dictionary
    assert sum(page.num_values for page in pages if not page.is_dictionary) == chunk.num_values
    whole = sum(page.uncompressed_size for page in pages)
    assert 0 < whole <= chunk.total_uncompressed_size  # which counts the headers too


DATA, START, CHUNK = chunk_of(pa.array(np.arange(ROWS)), compression="zstd")
LENGTH = CHUNK.total_compressed_size


def test_a_page_that_exceeds_its_chunk():
    with pytest.raises(BadPageError, match="does not fit"):
        pages_of(DATA, START, LENGTH - 1)


def test_a_truncated_header():
    with pytest.raises(BadPageError, match="truncated"):
        pages_of(DATA[: START + 5], START, LENGTH)


@given(st.binary(max_size=200))
def test_any_bytes_are_pages_or_refused(data):
    try:
        found = pages_of(data, 0, len(data))
    except BadPageError:
        return
    assert all(page.num_values >= 0 and page.uncompressed_size >= 0 for page in found)
