"""Row ranges are skipped only if no row of them can match by page statistics."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lazydelta.expressions import as_predicate, bind, evaluate, to_skipping
from lazydelta.parquet.footer.file_footer import read_footer
from lazydelta.parquet.footer.thrift import Reader
from lazydelta.parquet.pages.page_filter import PageFilter
from lazydelta.parquet.pages.page_headers import BadPageError, PageStatistics
from lazydelta.parquet.pages.page_index import PageMap, map_pages
from lazydelta.parquet.pages.row_ranges import matching_row_ranges
from lazydelta.schema import PrimitiveType, StructField, StructType
from tests.unit.parquet.test_row_group_filter import bound_to, cases

LEAVES = {("x",): "x", ("y",): "y"}


def ranges_of(table, rule, *, page_rows, **options):
    """Return the matching ranges of a file of one row group, with pages of `page_rows` rows."""
    sink = io.BytesIO()
    pq.write_table(
        table, sink, data_page_size=1, write_batch_size=page_rows, row_group_size=10**6, **options
    )
    source = pa.BufferReader(sink.getvalue())
    return PageFilter(read_footer(source), source).row_ranges(0, rule, LEAVES, {})


@settings(max_examples=150)
@given(cases(), st.booleans(), st.sampled_from(["1.0", "2.0"]))
def test_a_row_that_matches_is_kept(case, index, version):
    name, arrow, column, where, page_rows = case
    array = pa.array(column, arrow)
    predicate = bound_to(where, name)
    ranges = ranges_of(
        pa.table({"x": array}), to_skipping(predicate), page_rows=page_rows,
        write_page_index=index, data_page_version=version,
    )  # fmt: skip
    kept = {row for start, end in ranges for row in range(start, end)}
    matches = evaluate(predicate, lambda _: array, len(array)).to_pylist()
    assert {row for row, match in enumerate(matches) if match} <= kept


TWO = StructType(
    (StructField("x", PrimitiveType("long")), StructField("y", PrimitiveType("string")))
)


def rule_for(where):
    return to_skipping(bind(as_predicate(where), TWO, ()))


ORDERED = pa.table({"x": range(100), "y": [f"{i // 30:02d}" for i in range(100)]})


@pytest.mark.parametrize("index", [True, False], ids=["by-index", "by-headers"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize(
    ("where", "kept"),
    [
        pytest.param("x = 42", [(40, 50)], id="one-page"),
        pytest.param("x between 38 and 51", [(30, 60)], id="adjacent-pages"),
        pytest.param("x = 5 or x > 88", [(0, 10), (80, 100)], id="two-ranges"),
        pytest.param("x = 1000", [], id="none"),
        pytest.param("x is not null", [(0, 100)], id="all"),
        pytest.param("x is null", [], id="no-nulls"),
        pytest.param("x < 25 and y = '00'", [(0, 30)], id="two-columns"),
        pytest.param("x = 7 and y = '02'", [], id="two-columns-that-exclude-each-other"),
    ],
)
def test_matching_ranges_are_kept(where, kept, version, index):
    ranges = ranges_of(
        ORDERED, rule_for(where), page_rows=10, use_dictionary=False,
        write_page_index=index, data_page_version=version,
    )  # fmt: skip
    assert ranges == kept


def test_ranges_are_split_at_the_pages_of_both_columns():
    """Pages of `y` have thirty rows, those of `x` ten: the rows where both may match are kept."""
    strings = pa.array([f"{i // 30:02d}" for i in range(90)])
    sink = io.BytesIO()
    table = pa.table({"x": np.arange(90), "y": strings})
    pq.write_table(table, sink, data_page_size=80, write_batch_size=10, use_dictionary=["y"])
    source = pa.BufferReader(sink.getvalue())
    paging = PageFilter(read_footer(source), source)
    assert len(paging._pages_of(0, 0).rows) > len(paging._pages_of(0, 1).rows)
    rule = rule_for("x between 25 and 45 and y >= '01'")
    matching = [r for r in range(90) if 25 <= r <= 45 and strings[r].as_py() >= "01"]
    ranges = paging.row_ranges(0, rule, LEAVES, {})
    assert ranges
    assert all(any(start <= row < end for start, end in ranges) for row in matching)
    assert sum(end - start for start, end in ranges) < 45


@pytest.mark.parametrize(
    ("nulls", "where", "kept"),
    [
        pytest.param([15], "x is null", [(10, 20)], id="one-null"),
        pytest.param([15], "x is not null", [(0, 30)], id="all-but-one"),
    ],
)
@pytest.mark.parametrize("index", [True, False], ids=["by-index", "by-headers"])
def test_nulls(nulls, where, kept, index):
    column = [None if i in nulls else i for i in range(30)]
    table = pa.table({"x": pa.array(column, pa.int64())})
    ranges = ranges_of(
        table, rule_for(where), page_rows=10, use_dictionary=False, write_page_index=index
    )
    assert ranges == kept


def test_a_page_of_nulls_only():
    """The predicate cannot match there, though the page has no bounds."""
    pages = PageMap([0, 10, 20], [
        PageStatistics(None, None, 10), PageStatistics(b"\1" + bytes(7), b"\2" + bytes(7), 0),
    ])  # fmt: skip
    sink = io.BytesIO()
    pq.write_table(pa.table({"x": [None] * 10 + [1, 2] * 5}), sink)
    metadata = pq.read_metadata(sink)
    for where, kept in (("x is not null", [(10, 20)]), ("x is null", [(0, 10)])):
        found = matching_row_ranges(
            metadata, 0, rule_for(where), LEAVES, {}, pages_of=lambda _: pages
        )
        assert found == kept


def test_a_column_without_statistics_keeps_all():
    ranges = ranges_of(ORDERED, rule_for("x = 42"), page_rows=10, write_statistics=False)
    assert ranges == [(0, 100)]


# --- maps of pages --------------------------------------------------------------------------------


def chunk_and_source(**options):
    sink = io.BytesIO()
    table = pa.table({"x": [None if i % 7 == 3 else i // 3 for i in range(1000)]})
    pq.write_table(table, sink, data_page_size=100, write_batch_size=10, **options)
    data = sink.getvalue()
    size = pq.read_metadata(io.BytesIO(data)).serialized_size
    footer = Reader(data[-8 - size : -8]).struct()
    return footer[4][0][1][0], lambda at, size: data[at : at + size]


@pytest.mark.parametrize("dictionary", [True, False])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_headers_and_index_return_the_same_pages(dictionary, version):
    how = {"use_dictionary": dictionary, "data_page_version": version, "compression": "none"}
    with_index, without = (chunk_and_source(write_page_index=i, **how) for i in (True, False))
    by_index = map_pages(with_index[0], 1000, with_index[1])
    by_headers = map_pages(without[0], 1000, without[1])
    assert (4 in with_index[0], 4 in without[0]) == (True, False)
    assert by_index.rows == by_headers.rows
    assert by_index.statistics == by_headers.statistics
    assert len(by_index.rows) > 5
    assert by_index.statistics[0] != PageStatistics()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        pytest.param(lambda c: c.pop(3), "no-details", id="no-details"),
        pytest.param(lambda c: c[3].pop(9), "no-place", id="no-offset"),
        pytest.param(lambda c: c.update({1: b"b.parquet"}), "other-file", id="in-another-file"),
        pytest.param(lambda c: c[3].update({7: c[3][7] - 1}), "too-short", id="too-short"),
        pytest.param(lambda c: c.update({4: c[4] + 1}), "not-there", id="index-elsewhere"),
        pytest.param(lambda c: c.update({5: c[5] - 3}), "cut", id="index-truncated"),
    ],
)
def test_an_inconsistent_chunk_has_no_page_map(change, why):
    chunk, read_at = chunk_and_source(write_page_index=True)
    assert map_pages(chunk, 1000, read_at) is not None
    assert map_pages(chunk, 999, read_at) is None
    change(chunk)
    assert map_pages(chunk, 1000, read_at) is None, why


@pytest.mark.parametrize("footer", [b"", b"\x19", bytes(8), b"\x49\x0c\0", b"\x46\2\0"])
def test_a_footer_that_cannot_be_parsed_keeps_all_rows(footer):
    sink = io.BytesIO()
    pq.write_table(ORDERED, sink, data_page_size=1, write_batch_size=10, write_page_index=True)
    source = pa.BufferReader(sink.getvalue())
    paging = PageFilter(read_footer(source)._replace(data=footer), source)
    assert paging.row_ranges(0, rule_for("x = 42"), LEAVES, {}) == [(0, 100)]


@pytest.mark.parametrize(("position", "size"), [(2**40, 10), (-1, 10), (0, -1), (2**70, 1)])
def test_ranges_outside_of_the_file_are_not_read(position, size):
    sink = io.BytesIO()
    pq.write_table(ORDERED, sink)
    source = pa.BufferReader(sink.getvalue())
    paging = PageFilter(read_footer(source), source)
    assert paging._read_at(0, 2**62) == sink.getvalue()
    with pytest.raises(BadPageError):
        paging._read_at(position, size)


@given(st.binary(max_size=64), st.integers(0, 63))
def test_any_bytes_in_place_of_the_index(junk, at):
    chunk, read_at = chunk_and_source(write_page_index=True)
    start = chunk[4]

    def damaged(position, size):
        data = bytearray(read_at(position, size))
        if position == start:
            data[at : at + len(junk)] = junk
        return bytes(data)

    found = map_pages(chunk, 1000, damaged)
    assert found is None or (found.rows[0], found.rows[-1]) == (0, 1000)
