"""Any value of a row round-trips through JSON and CSV, and stays on its line."""

from __future__ import annotations

import base64
import csv
import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lazydelta.cli import row_output
from lazydelta.cli.column_formats import printable, to_json, to_string

strings = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
INNER = pa.struct([('a"b', pa.int64()), ("list", pa.list_(pa.string()))])
SCHEMA = pa.schema(
    [
        ("text", pa.string()),
        ("number", pa.int64()),
        ("real", pa.float64()),
        ("flag", pa.bool_()),
        ("bytes", pa.binary()),
        ("inner", INNER),
        ("map", pa.map_(pa.string(), pa.list_(pa.int32()))),
        ("deep", pa.list_(INNER)),
        ("void", pa.null()),
    ]
)
inners = st.none() | st.fixed_dictionaries(
    {
        'a"b': st.none() | st.integers(-(2**63), 2**63 - 1),
        "list": st.none() | st.lists(st.none() | strings, max_size=3),
    }
)
rows = st.lists(
    st.fixed_dictionaries(
        {
            "text": st.none() | strings,
            "number": st.none() | st.integers(-(2**63), 2**63 - 1),
            "real": st.none() | st.floats(allow_nan=False, allow_infinity=False),
            "flag": st.none() | st.booleans(),
            "bytes": st.none() | st.binary(max_size=5),
            "inner": inners,
            "map": st.none()
            | st.dictionaries(
                strings, st.none() | st.lists(st.none() | st.integers(0, 9), max_size=2), max_size=3
            ).map(lambda found: list(found.items())),
            "deep": st.none() | st.lists(inners, max_size=3),
            "void": st.none(),
        }
    ),
    min_size=1,
    max_size=5,
)


def plain(row):
    """Return a row as JSON has it."""
    coded = None if row["bytes"] is None else base64.b64encode(row["bytes"]).decode()
    mapped = None if row["map"] is None else dict(row["map"])
    return row | {"bytes": coded, "map": mapped}


@given(rows, st.integers(0, 4))
def test_json_round_trips_the_rows(found, start):
    batch = pa.RecordBatch.from_pylist(found, SCHEMA).slice(start)
    if not batch.num_rows:
        return
    lines = row_output._ndjson(batch).decode().removesuffix("\n").split("\n")
    assert [json.loads(line) for line in lines] == [plain(row) for row in found[start:]]


@given(rows, st.integers(0, 4))
def test_tsv_fields_are_in_column_order(found, start):
    batch = pa.RecordBatch.from_pylist(found, SCHEMA).slice(start)
    if not batch.num_rows:
        return
    lines = row_output._tsv(batch).decode().removesuffix("\n").split("\n")
    assert len(lines) == batch.num_rows
    for line, row in zip(lines, found[start:], strict=True):
        fields = line.split("\t")
        assert len(fields) == len(SCHEMA)
        assert fields[1] == ("" if row["number"] is None else str(row["number"]))
        assert not any(ord(character) < 32 for character in line.replace("\t", ""))


@given(rows)
def test_csv_round_trips_the_rows(found):
    batch = pa.RecordBatch.from_pylist(found, SCHEMA)
    data = row_output._csv_header(SCHEMA) + row_output._csv(batch)
    read = list(csv.DictReader(io.StringIO(data.decode(), newline="")))
    assert len(read) == len(found)
    for given_row, row in zip(read, found, strict=True):
        assert given_row["text"] == (row["text"] or "")
        nested = given_row["inner"]
        assert (json.loads(nested) if nested else None) == row["inner"]


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        pytest.param(
            pa.array([1.5, float("nan"), float("inf"), float("-inf")]),
            ["1.5", '"NaN"', '"Infinity"', '"-Infinity"'],
            id="floats",
        ),
        pytest.param(pa.array([Decimal("1.20")], pa.decimal128(10, 2)), ["1.20"], id="decimal"),
        pytest.param(pa.array([date(2026, 1, 31)]), ['"2026-01-31"'], id="date"),
        pytest.param(
            pa.array([datetime(2026, 1, 31, 1, tzinfo=UTC)], pa.timestamp("us", "UTC")),
            ['"2026-01-31T01:00:00.000000Z"'],
            id="time",
        ),
        pytest.param(
            pa.array([datetime(2026, 1, 31, 1, tzinfo=UTC)], pa.timestamp("us", "+02:00")),
            ['"2026-01-31T01:00:00.000000Z"'],
            id="time-in-another-zone",
        ),
        pytest.param(
            pa.array([0], pa.timestamp("us")),
            ['"1970-01-01T00:00:00.000000"'],
            id="time-without-zone",
        ),
        pytest.param(pa.array([b"\xff\0"]), ['"/wA="'], id="bytes"),
        pytest.param(pa.array(["x", None]).dictionary_encode(), ['"x"', "null"], id="dictionary"),
        pytest.param(pa.array(["x"], pa.large_string()), ['"x"'], id="large-string"),
        pytest.param(pa.array(["x"], pa.string_view()), ['"x"'], id="string-view"),
        pytest.param(pa.array([[1, 2]], pa.list_(pa.int8(), 2)), ["[1,2]"], id="fixed-size-list"),
        pytest.param(pa.array([[1]], pa.large_list(pa.int8())), ["[1]"], id="large-list"),
        pytest.param(
            pa.array([[(1, "a")]], pa.map_(pa.int32(), pa.string())),
            ['{"1":"a"}'],
            id="map-with-numbers",
        ),
        pytest.param(pa.array([{}, None], pa.struct([])), ["{}", "null"], id="struct-of-nothing"),
        pytest.param(pa.array([61], pa.duration("s")), ['"61"'], id="duration"),
    ],
)
def test_types(array, expected):
    assert to_json(array).to_pylist() == expected
    for text in expected:
        json.loads(text)


def test_types_without_an_arrow_cast_are_formatted_by_python():
    array = pa.array([pa.MonthDayNano([1, 2, 3]), None])
    assert to_string(array).to_pylist() == [str(array[0].as_py()), None]
    assert json.loads(to_json(array)[0].as_py()) == str(array[0].as_py())


def test_control_characters_do_not_reach_a_terminal():
    assert printable(pa.array(["a\x1b[2J\n"])).to_pylist() == ["a\\x1b[2J\\n"]
