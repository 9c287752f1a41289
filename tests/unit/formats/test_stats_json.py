# ruff: noqa: DTZ001 - times without a zone are what is tested, and == builds a node
from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lazydelta.formats import num_records, parse_stats
from lazydelta.formats import stats_json as module
from lazydelta.schema import DecimalType, PrimitiveType

LONG, STRING = PrimitiveType("long"), PrimitiveType("string")
ID = ("minValues", "id")


def parse(rows, **leaves):
    wanted = {tuple(name.split("__")): kind for name, kind in leaves.items()}
    found = parse_stats(pa.array(rows, pa.string()), wanted)
    for path, values in found.items():
        values.validate(full=True)
        assert len(values) == len(rows), path
    return {"__".join(path): values.to_pylist() for path, values in found.items()}


def spark(low, high, nulls=0):
    return (
        f'{{"numRecords":10,"minValues":{{"id":{low},"s":"x"}},"maxValues":{{"id":{high},"s":"y"}},'
        f'"nullCount":{{"id":{nulls},"s":0}}}}'
    )


def test_rows_of_one_shape_need_no_json_reader(monkeypatch):
    def refuse(*_):
        raise AssertionError("the JSON reader was used")

    monkeypatch.setattr(module, "_by_reader", refuse)
    rows = [spark(at, at + 5, at) for at in range(100)]
    found = parse(
        rows, minValues__id=LONG, nullCount__id=LONG, maxValues__s=STRING, maxValues__none=LONG
    )
    assert found["minValues__id"] == list(range(100))
    assert found["nullCount__id"] == list(range(100))
    assert found["maxValues__s"] == ["y"] * 100
    assert found["maxValues__none"] == [None] * 100


def test_values_keep_all_their_digits():
    row = (
        '{"minValues":{"l":9007199254740993,"m":12345678901234567.12,"x":"NaN","f":0.1,'
        '"d":"2026-02-28","t":"2026-02-28T10:00:00.123+02:00","n":"2026-02-28T10:00:00.123",'
        '"o":true,"s":"é","e":1.5E3}}'
    )
    kinds = {
        "l": LONG,
        "m": DecimalType(20, 2),
        "x": PrimitiveType("double"),
        "f": PrimitiveType("float"),
        "d": PrimitiveType("date"),
        "t": PrimitiveType("timestamp"),
        "n": PrimitiveType("timestamp_ntz"),
        "o": PrimitiveType("boolean"),
        "s": STRING,
        "e": DecimalType(10, 2),
    }
    escaped = row.replace("é", "\\u00e9")  # not for the fast way
    found = parse(
        [row, escaped, row.replace('":', '": ')], **{f"minValues__{k}": v for k, v in kinds.items()}
    )
    expected = {
        "l": 2**53 + 1,
        "m": Decimal("12345678901234567.12"),
        "f": 0.10000000149011612,
        "d": date(2026, 2, 28),
        "t": datetime(2026, 2, 28, 8, 0, 0, 123_000, UTC),
        "n": datetime(2026, 2, 28, 10, 0, 0, 123_000),
        "o": True,
        "s": "é",
        "e": Decimal("1500.00"),
    }
    for name, value in expected.items():
        assert found[f"minValues__{name}"] == [value] * 3, name
    assert all(map(math.isnan, found["minValues__x"]))


BAD = [
    "",
    "{",
    "nonsense",
    "[]",
    "5",
    "null",
    '"x"',
    "{} {}",
    '{"minValues":5}',
    '{"minValues":{"id":"x"}}',
    '{"minValues":{"id":[1]}}',
    '{"minValues":{"id":{"a":1}}}',
    '{"minValues":{"id":1e999}}',
    '{"minValues":{"id":99999999999999999999}}',
    '{"minValues":{"id":null}}',
    "{" * 100_000,
]


@pytest.mark.parametrize("bad", BAD, ids=lambda text: text[:40])
def test_only_a_bad_row_is_unknown(bad):
    rows = [spark(1, 2), bad, None, spark(3, 4), spark(5, 6) + "\n", "\n" + spark(7, 8)]
    assert parse(rows, minValues__id=LONG)["minValues__id"] == [1, None, None, 3, 5, 7]


def test_the_same_name_at_another_level_is_another_leaf():
    rows = [
        '{"minValues":{"a":{"id":1},"id":2}}',
        '{"minValues":{"a":{"k":1,"id":3}}}',
        '{"minValues":{"a":{"k":1},"id":4}}',
        '{"minValues":{"minValues":{"id":9},"id":5}}',
    ]
    found = parse(rows, minValues__id=LONG, minValues__a__id=LONG)
    assert found["minValues__id"] == [2, None, 4, 5]
    assert found["minValues__a__id"] == [1, 3, None, None]


def test_keys_in_any_order():
    rows = [
        '{"maxValues":{"s":"b","id":2},"minValues":{"id":1,"s":"a"},"numRecords":3}',
        '{"numRecords":4,"minValues":{"s":"c","id":5},"maxValues":{"id":6,"s":"d"}}',
    ] * 5
    found = parse(rows, minValues__id=LONG, maxValues__id=LONG, numRecords=LONG)
    assert found == {
        "minValues__id": [1, 5] * 5,
        "maxValues__id": [2, 6] * 5,
        "numRecords": [3, 4] * 5,
    }


def test_no_leaves_and_no_rows():
    assert parse([], minValues__id=LONG) == {"minValues__id": []}
    assert parse([None, None], minValues__id=LONG) == {"minValues__id": [None, None]}
    assert parse_stats(pa.array(["{}"]), {}) == {}


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ('{"numRecords":5,"minValues":{}}', 5),
        ('{"numRecords":5}', 5),
        ('{ "numRecords" : 5 }', 5),
        ('{"minValues":{"numRecords":1},"numRecords":6}', 6),
        ('{"minValues":{"numRecords":1}}', None),
        ('{"numRecords":-5}', None),
        ('{"numRecords":"x"}', None),
        ("{", None),
        (None, None),
        ('{"numRecords":99999999999999999999}', None),
        ("", None),
    ],
)
def test_num_records(row, expected):
    rows = pa.array([row, '{"numRecords":1}', row], pa.string())
    assert num_records(rows).to_pylist() == [expected, 1, expected]


def test_num_records_of_no_rows():
    assert num_records(pa.array([], pa.string())).to_pylist() == []


@pytest.mark.parametrize("nul", ["\\u0000", "\0"], ids=["escaped", "plain"])
def test_a_nul_instead_of_a_number_is_unknown(nul):
    rows = [f'{{"minValues":{{"id":"{nul}"}},"other":[1]}}', '{"minValues":{"id":7},"other":[]}']
    assert parse(rows, minValues__id=LONG)["minValues__id"] == [None, 7]


NAMES = st.sampled_from(["id", "s", "a", 'q"t', "é", "a.b", "minValues"])
LEAF = st.one_of(st.integers(-(2**63), 2**63 - 1), st.text(max_size=5), st.booleans(), st.none())
OBJECTS = st.dictionaries(
    NAMES, st.one_of(LEAF, st.dictionaries(NAMES, LEAF, max_size=3)), max_size=4
)


@given(
    st.lists(
        st.fixed_dictionaries({"numRecords": st.integers(0, 9), "minValues": OBJECTS}), max_size=6
    ),
    st.booleans(),
    st.booleans(),
)
def test_any_statistics_are_parsed_as_by_json(rows, spaces, ascii_only):
    separators = None if spaces else (",", ":")
    strings = [json.dumps(row, separators=separators, ensure_ascii=ascii_only) for row in rows]
    if any("\ud800" <= c <= "\udfff" for text in strings for c in text):
        return
    found = parse(strings, minValues__id=LONG, minValues__a__s=STRING, numRecords=LONG)

    def long(value):
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    low = [row["minValues"] for row in rows]
    assert found["numRecords"] == [row["numRecords"] for row in rows]
    for values, given_id, got_id in zip(
        low, [v.get("id") for v in low], found["minValues__id"], strict=True
    ):
        assert got_id == long(given_id) or not isinstance(given_id, int), values
    for values, got in zip(low, found["minValues__a__s"], strict=True):
        inner = values.get("a")
        given_text = inner.get("s") if isinstance(inner, dict) else None
        assert got == given_text or not isinstance(given_text, str) or not given_text
