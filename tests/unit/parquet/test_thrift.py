"""Thrift structs round-trip, and no input does harm."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lazydelta.parquet.footer.thrift import BINARY, I32, I64, LIST, STRUCT, Reader, ThriftError
from tests.thrift import encoded

INTEGERS = st.integers(-(2**62), 2**62)
VALUES = st.one_of(
    st.tuples(st.just(I64), INTEGERS),
    st.tuples(st.just(I32), st.integers(-(2**31), 2**31 - 1)),
    st.tuples(st.just(BINARY), st.binary(max_size=300)),
    st.tuples(st.just(LIST), st.tuples(st.just(I64), st.lists(INTEGERS, max_size=40))),
    st.tuples(st.just(LIST), st.tuples(st.just(BINARY), st.lists(st.binary(), max_size=20))),
)


@given(st.lists(st.tuples(st.integers(1, 15), VALUES), max_size=10))
def test_encoded_structs_round_trip(steps):
    fields, number = [], 0
    for step, (kind, value) in steps:
        number += step
        fields.append((number, kind, value))
    inner = encoded(fields)
    whole = encoded([(1, STRUCT, inner), (2, LIST, (STRUCT, [inner, inner]))])
    plain = {at: value[1] if kind == LIST else value for at, kind, value in fields}
    reader = Reader(whole)
    assert reader.struct() == {1: plain, 2: [plain, plain]}
    assert reader.position == len(whole)


def test_a_footer_parses_as_in_pyarrow():
    sink = io.BytesIO()
    table = pa.table({"x": range(100), "y": [str(i) for i in range(100)]})
    pq.write_table(table, sink, row_group_size=40, write_page_index=True)
    metadata = pq.read_metadata(sink)
    data = sink.getvalue()
    footer = Reader(data[-8 - metadata.serialized_size : -8]).struct()
    assert footer[3] == 100
    assert [group[3] for group in footer[4]] == [40, 40, 20]
    for at, group in enumerate(footer[4]):
        for place, chunk in enumerate(group[1]):
            known = metadata.row_group(at).column(place)
            assert chunk[3][9] == known.data_page_offset
            assert chunk[3][7] == known.total_compressed_size
            assert chunk[3][12][6] == (known.statistics.min_raw.to_bytes(8, "little")
                                       if place == 0 else known.statistics.min.encode())  # fmt: skip
    assert footer[6].decode() == metadata.created_by


def test_booleans_of_fields_and_of_lists():
    assert Reader(bytes([0x11, 0x12, 0x19, 0x31, 1, 2, 1, 0])).struct() == {
        1: True, 2: False, 3: [True, False, True],
    }  # fmt: skip


def test_a_field_number_in_long_form():
    assert Reader(bytes([0x06, 0xC8, 0x01, 0x02, 0])).struct() == {100: 1}


@pytest.mark.parametrize(
    ("data", "why"),
    [
        pytest.param(bytes([0x1C]) * 40 + bytes(41), "deep", id="structs-in-structs"),
        pytest.param(bytes([0x19]) + bytes([0x19]) * 40, "deep", id="lists-in-lists"),
        pytest.param(bytes([0x16]) + bytes([0xFF]) * 12, "too long", id="overlong-integer"),
        pytest.param(bytes([0x1F, 0]), "type 15", id="unknown-type"),
        pytest.param(bytes([0x1B, 0]), "type 11", id="maps"),
    ],
)
def test_invalid_bytes_are_refused(data, why):
    with pytest.raises(ThriftError, match=why):
        Reader(data).struct()


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(bytes([0x18, 0x7F, 1]), id="string-longer-than-input"),
        pytest.param(bytes([0x19, 0xF6, 0xFF, 0xFF, 0xFF, 0x7F]), id="list-longer-than-input"),
        pytest.param(bytes([0x16]), id="missing-integer"),
    ],
)
def test_truncated_bytes_raise_index_error(data):
    with pytest.raises(IndexError):
        Reader(data).struct()


@given(st.binary(max_size=300))
def test_any_bytes_are_a_struct_or_refused(data):
    reader = Reader(data)
    try:
        assert isinstance(reader.struct(), dict)
    except (ThriftError, IndexError):
        return
    assert reader.position <= len(data)
