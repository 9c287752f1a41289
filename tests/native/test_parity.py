"""Random flat tables in every encoding: the decoder returns the same rows as pyarrow."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lazydelta._arrow import from_mask
from tests.native.support import is_view, plain, read, read_chosen, watched

TAKEN = ("none", "snappy", "zstd")
CODECS = (*TAKEN, "gzip", "brotli", "lz4")
STRINGS = st.text(max_size=20) | st.sampled_from(["", "\0", "twelve bytes", "é" * 7, "🦆" * 40])
BYTES = st.binary(max_size=20) | st.sampled_from([b"", b"\0" * 12, b"\xff" * 13])
WHOLE = st.integers(-(10**9), 10**9)  # of any unit of time
NUMBERS = pa.list_(pa.int8())
GROUPS = st.sampled_from([50, 120, 1000])
DECIMALS = [(1, 0), (1, 1), (4, 2), (9, 9), (10, 0), (18, 4), (19, 0), (28, 5), (38, 0), (38, 38)]


def numbers(kind):
    least = -(2 ** (kind.bit_width - 1)) if pa.types.is_signed_integer(kind) else 0
    most = 2 ** (kind.bit_width - (least < 0)) - 1
    return st.sampled_from([least, most, 0]) | st.integers(least, most)


def floats(width):
    odd = [0.0, -0.0, float("inf"), float("-inf"), float("nan")]
    return st.sampled_from(odd) | st.floats(width=width)


def decimals(precision, scale):
    most = 10**precision - 1
    digits = st.sampled_from([most, -most, 0]) | st.integers(-most, most)
    # Digit by digit: arithmetic would round to 28 of them.
    return digits.map(
        lambda n: Decimal((int(n < 0), tuple(int(one) for one in str(abs(n))), -scale))
    )


def kinds():
    """Return every flat type of data files, with values."""
    found: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [(pa.bool_(), st.booleans())]
    whole = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
    whole += [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
    found += [(kind, numbers(kind)) for kind in whole]
    found += [(pa.float16(), floats(16).map(np.float16)), (pa.float32(), floats(32))]
    found += [(pa.float64(), floats(64)), (pa.date32(), WHOLE.map(lambda n: n // 1000))]
    for zone in (None, "UTC", "Europe/Berlin"):
        found += [(pa.timestamp(unit, zone), WHOLE) for unit in ("s", "ms", "us", "ns")]
    times = [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")]
    found += [(kind, st.integers(0, 80_000)) for kind in times]
    for precision, scale in DECIMALS:
        found.append((pa.decimal128(precision, scale), decimals(precision, scale)))
    found += [(pa.decimal256(50, 3), decimals(38, 3))]
    found += [(pa.string(), STRINGS), (pa.binary(), BYTES)] * 4  # what this is all about
    found += [(pa.large_string(), STRINGS), (pa.large_binary(), BYTES)]
    found += [(pa.binary(3), st.binary(min_size=3, max_size=3)), (pa.null(), st.none())]
    found += [(pa.dictionary(pa.int32(), pa.string()), STRINGS), (pa.duration("us"), WHOLE)]
    return found


def encodings(kind):
    """Return the encodings of a type without a dictionary."""
    found = ["PLAIN"]
    if pa.types.is_integer(kind) or pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        found += ["DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT"]
    if kind in (pa.float32(), pa.float64()):
        found += ["BYTE_STREAM_SPLIT"]
    if kind in (pa.string(), pa.binary(), pa.large_string(), pa.large_binary()):
        found += ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"]
    return ["RLE", "PLAIN"] if kind == pa.bool_() else found


@dataclass
class Case:
    """A file and a read of it."""

    table: pa.Table
    options: dict[str, Any]
    columns: list[str]
    row_groups: list[int]
    batch_rows: int
    kept: np.ndarray


@st.composite
def columns(draw, rows):
    """Draw a column: a few values, some of them null, in some order or in runs."""
    kind, values = draw(st.sampled_from(kinds()))
    few = draw(st.lists(st.none() | values, min_size=1, max_size=12))
    chance = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    places = chance.integers(0, len(few), rows)
    if draw(st.booleans()):
        places.sort()
    array = pa.array([few[at] for at in places], kind)
    full = draw(st.booleans()) and not array.null_count and not pa.types.is_null(kind)
    return array, not full


@st.composite
def cases(draw):
    rows = draw(st.sampled_from([300, 1, 7, 300, 300, 0]))
    drawn = draw(st.lists(columns(rows), min_size=1, max_size=4))
    fields = [pa.field(f"c{at}", a.type, null) for at, (a, null) in enumerate(drawn)]
    arrays = [array for array, _ in drawn]
    names = [one.name for one in fields]
    if draw(st.booleans()):  # columns that are not flat do no harm beside others
        nested = pa.array(
            [{"t": "x", "l": [1]}] * rows, pa.struct({"t": pa.string(), "l": NUMBERS})
        )
        fields.insert(1, pa.field("s", nested.type))
        arrays.insert(1, nested)
    table = pa.Table.from_arrays(arrays, schema=pa.schema(fields))
    size = draw(st.sampled_from([1, 50, 120, 1000])) if rows < 300 else draw(GROUPS)
    groups = range(-(-rows // size))
    return Case(
        table,
        draw(how_written(fields)) | {"row_group_size": size},
        draw(st.lists(st.sampled_from(names), min_size=1, unique=True)),
        sorted(draw(st.sets(st.sampled_from(groups), min_size=1))) if groups else [],
        draw(st.sampled_from([1, 13, 64, 1000]) if rows < 300 else st.sampled_from([13, 64, 1000])),
        draw(kept(rows)),
    )


@st.composite
def kept(draw, rows):
    """Draw selected rows: scattered, runs, all or none."""
    chance = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    mask = chance.random(rows) < draw(st.sampled_from([0, 0.02, 0.5, 0.9, 0.99, 1]))
    return np.repeat(mask, draw(st.sampled_from([1, 1, 8, 50])))[:rows]


@st.composite
def how_written(draw, fields):
    chosen: dict[str, Any] = {"use_dictionary": draw(st.booleans())}
    chosen["use_deprecated_int96_timestamps"] = old = draw(st.sampled_from([False] * 4 + [True]))
    if not chosen["use_dictionary"] and not old and draw(st.booleans()):
        flat = [one for one in fields if not pa.types.is_nested(one.type)]
        chosen["column_encoding"] = {
            one.name: draw(st.sampled_from(encodings(one.type))) for one in flat
        }
    return chosen | {
        "compression": draw(st.sampled_from(CODECS) | st.sampled_from(TAKEN)),
        "data_page_version": draw(st.sampled_from(["1.0", "2.0"])),
        "data_page_size": draw(st.sampled_from([1, 100, 1 << 20])),
        "write_batch_size": draw(st.sampled_from([1, 20, 1024])),
        "dictionary_pagesize_limit": draw(st.sampled_from([1, 30, 1 << 20])),
        "store_schema": draw(st.booleans()),
        "write_page_index": draw(st.booleans()),
        "write_page_checksum": draw(st.booleans()),
        "store_decimal_as_integer": draw(st.booleans()),
    }


def agrees(case):
    """Read a case with and without the decoder; return whether it decoded, None without rows."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "a.parquet"
        pq.write_table(case.table, path, **case.options)
        arguments = {"columns": case.columns, "row_groups": case.row_groups}
        expected, places = read(path, views=False, batch_rows=case.batch_rows, **arguments)
        with watched() as taken:
            found, positions = read(path, views=True, batch_rows=case.batch_rows, **arguments)
        check_choice(case, path, expected, places)
    assert positions == places
    if found is None:
        assert expected is None
        return None
    found.validate(full=True)
    assert found.schema.names == expected.schema.names
    assert plain(found).equals(plain(expected))
    if any(taken):
        strings = [one.name for one in expected.schema if one.type in (pa.string(), pa.binary())]
        assert all(is_view(found.schema.field(name).type) for name in strings)
    return any(taken)


def check_choice(case, path, expected, places):
    """Read the selected rows with and without views; the latter have pyarrow's types."""
    arguments = {
        "columns": case.columns,
        "row_groups": case.row_groups,
        "batch_rows": case.batch_rows,
    }
    left = [] if expected is None else expected.filter(pa.array(case.kept[places]))
    for views in (True, False):
        found = read_chosen(
            path, lambda start, length: from_mask(case.kept[start : start + length]),
            views=views, **arguments,
        )  # fmt: skip
        if found is None:
            assert len(left) == 0
            continue
        found.validate(full=True)
        assert plain(found).equals(plain(left))
        assert views or found.schema.types == left.schema.types


def is_simple(case):
    """Whether the decoder supports everything in the file."""
    odd = (pa.large_string(), pa.large_binary(), pa.duration("us"), pa.null())
    types = [case.table.schema.field(name).type for name in case.columns]
    times = any(pa.types.is_timestamp(kind) for kind in types)
    coded = any(pa.types.is_dictionary(kind) or kind in odd for kind in types)
    return not times and not coded and "column_encoding" not in case.options


def check(case):
    taken = agrees(case)
    if taken is None:
        return
    if case.options["compression"] not in TAKEN:
        assert not taken
    elif is_simple(case):
        assert taken


@settings(max_examples=100)
@given(cases())
def test_the_decoder_returns_the_same_rows(case):
    check(case)


@pytest.mark.long
@settings(max_examples=6000)
@given(cases())
def test_the_decoder_returns_the_same_rows_long(case):
    check(case)
