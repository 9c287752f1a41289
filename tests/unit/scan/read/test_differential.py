"""Tables written by deltalake: the same rows for every type, nulls and partitions."""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lazydelta import Table
from lazydelta.scan.read.reading import ReadOptions

deltalake = pytest.importorskip("deltalake")

DAY, TIME = date(2020, 1, 1), datetime(2020, 1, 1, tzinfo=UTC)
STRINGS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=4)
SCALARS = {
    "i8": (pa.int8(), st.integers(-128, 127)),
    "i16": (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    "i32": (pa.int32(), st.integers(-3, 3)),
    "i64": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "f32": (pa.float32(), st.floats(width=32)),
    # Filtered below: deltalake skips a file whose only match is NaN, which its maximum leaves out.
    "f64": (pa.float64(), st.floats(allow_nan=False)),
    "b": (pa.bool_(), st.booleans()),
    "s": (pa.string(), STRINGS),
    "y": (pa.binary(), st.binary(max_size=3)),
    "d": (pa.date32(), st.integers(-40_000, 40_000).map(lambda n: DAY + timedelta(days=n))),
    "t": (
        pa.timestamp("us", "UTC"),
        st.integers(-(10**15), 10**15).map(lambda n: TIME + timedelta(microseconds=n)),
    ),
    "n": (
        pa.timestamp("us"),
        st.integers(-(10**15), 10**15).map(
            lambda n: (TIME + timedelta(microseconds=n)).replace(tzinfo=None)
        ),
    ),
    "m": (pa.decimal128(12, 3), st.integers(-(10**11), 10**11).map(lambda n: Decimal(n) / 1000)),
}
NESTED = {
    "st": (
        pa.struct([("a", pa.int64()), ("b", pa.string())]),
        st.fixed_dictionaries({"a": st.none() | st.integers(0, 3), "b": st.none() | STRINGS}),
    ),
    "li": (pa.list_(pa.int32()), st.lists(st.none() | st.integers(0, 3), max_size=3)),
    "mp": (
        pa.map_(pa.string(), pa.int64()),
        st.dictionaries(st.sampled_from("abc"), st.integers(0, 3)).map(lambda d: list(d.items())),
    ),
}
COLUMNS = {**SCALARS, **NESTED}
FILTERS = (
    None, "i32 > 0", "i32 is null", "i32 in (1, 2) or b", "s >= 'a'", "f64 > 0", "not b",
    "d < date'2020-01-01'", "m between 0 and 1000", "i32 = 1 and s is not null",
)  # fmt: skip


@st.composite
def tables(draw):
    names = ["i32", *draw(st.lists(st.sampled_from(sorted(COLUMNS)), unique=True, max_size=6))]
    names = list(dict.fromkeys(names))
    parts = []
    for _ in range(draw(st.integers(1, 3))):
        kept = [n for n in names if n == "i32" or draw(st.booleans())]
        count = draw(st.integers(1, 12))
        arrays = [
            pa.array([draw(st.none() | COLUMNS[name][1]) for _ in range(count)], COLUMNS[name][0])
            for name in kept
        ]
        keys = pa.array(range(count), pa.int64())  # deltalake cannot write only partition columns
        parts.append(pa.table([*arrays, keys], names=[*kept, "key"]))
    return parts, draw(st.sampled_from([[], ["i32"]]))


def counted(table):
    """Return the rows as a multiset; NaN equals NaN, and maps are unordered."""
    return Counter(repr([plain(row[name]) for name in sorted(row)]) for row in table.to_pylist())


def plain(value):
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return {key: plain(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        items = [plain(one) for one in value]
        return sorted(items, key=repr) if items and isinstance(items[0], tuple) else items
    return value


@settings(max_examples=60)
@given(tables(), st.sampled_from(FILTERS), st.integers(1, 20))
def test_the_same_rows_as_deltalake(made, where, batch_rows):
    parts, partition_by = made
    with tempfile.TemporaryDirectory() as directory:
        path = str(Path(directory) / "t")
        for part in parts:
            deltalake.write_deltalake(
                path, part, mode="append", schema_mode="merge", partition_by=partition_by or None
            )
        known = {name for part in parts for name in part.schema.names}
        if where is not None and not {w for w in SCALARS if w in where.split()} <= known:
            where = "i32 > 0"
        query = "select * from t" + (f" where {where}" if where else "")
        other = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(path)).execute(query)
        expected = pa.table(other.read_all())
        scan = Table.open(path).scan(where)
        assert counted(scan.to_arrow(ReadOptions(batch_rows=batch_rows))) == counted(expected)
        some = sorted(known)[::2]
        projected = Table.open(path).scan(where, some).to_arrow()
        assert projected.schema.names == some
        assert counted(projected) == counted(expected.select(some))
