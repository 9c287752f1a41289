"""Property test: enforcement preserves random rows, however they are encoded and sliced."""

from __future__ import annotations

import pickle

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from lazydelta.schema import to_arrow_schema
from tests.unit.writer.support import planned, schema_of

TABLE = schema_of(
    "b tinyint, i int, l bigint, d double, t string, x binary, n decimal(10,2), day date, "
    "s struct<i: int, t: struct<u: string>>, a array<int>, r array<struct<k: bigint, v: string>>, "
    "m map<string, array<smallint>>"
)
TABLE_ROWS = to_arrow_schema(TABLE)
OTHER_ROWS = pa.schema(
    [
        ("b", pa.int64()),
        ("I", pa.uint32()),
        ("l", pa.int8()),
        ("d", pa.float32()),
        ("t", pa.dictionary(pa.int16(), pa.large_string())),
        ("x", pa.large_binary()),
        ("n", pa.decimal256(20, 1)),
        ("day", pa.date64()),
        ("s", pa.struct([("t", pa.struct([("u", pa.string_view())])), ("i", pa.int64())])),
        ("a", pa.large_list(pa.int64())),
        ("r", pa.list_(pa.struct([("v", pa.large_string()), ("k", pa.int32())]))),
        ("m", pa.map_(pa.large_string(), pa.large_list(pa.int64()))),
    ]
)
"""The same columns in other types, names of other case and another order within structs."""

SMALL = st.none() | st.integers(0, 127)
TEXT = st.none() | st.text(max_size=5)
ROWS = st.fixed_dictionaries(
    {
        "b": SMALL,
        "i": SMALL,
        "l": SMALL,
        "d": st.none() | st.floats(width=32, allow_nan=False),
        "t": TEXT,
        "x": st.none() | st.binary(max_size=5),
        "n": st.none() | st.decimals(-9999, 9999, places=1),
        "day": st.none() | st.dates(),
        "s": st.none()
        | st.fixed_dictionaries({"i": SMALL, "t": st.none() | st.fixed_dictionaries({"u": TEXT})}),
        "a": st.none() | st.lists(SMALL, max_size=3),
        "r": st.none()
        | st.lists(st.none() | st.fixed_dictionaries({"k": SMALL, "v": TEXT}), max_size=3),
        "m": st.none()
        | st.dictionaries(st.text(max_size=3), st.none() | st.lists(SMALL, max_size=2), max_size=2),
    }
)


def as_batch(rows, schema):
    """Return rows in a schema; maps are given as pairs, names may differ in case."""
    columns = []
    for field in schema:
        values = [row[field.name.lower()] for row in rows]
        if pa.types.is_map(field.type):
            values = [None if value is None else list(value.items()) for value in values]
        columns.append(pa.array(values, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(ROWS, max_size=6), start=st.integers(0, 6), count=st.integers(0, 6))
def test_enforcement_preserves_values(rows, start, count):
    wanted = as_batch(rows, TABLE_ROWS).slice(start, count).to_pylist()
    for schema in (TABLE_ROWS, OTHER_ROWS):
        enforcement = pickle.loads(pickle.dumps(planned(TABLE, schema)))
        taken = enforcement(as_batch(rows, schema).slice(start, count))
        taken.validate(full=True)
        assert taken.schema == TABLE_ROWS
        assert taken.to_pylist() == wanted
