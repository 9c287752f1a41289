"""Row groups are skipped only if none of their rows can match."""

from __future__ import annotations

import io
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lazydelta.expressions import as_predicate, bind, evaluate, to_skipping
from lazydelta.parquet import matching_row_groups
from lazydelta.schema import DecimalType, PrimitiveType, StructField, StructType

DAY, TIME = date(2020, 1, 1), datetime(2020, 1, 1, tzinfo=UTC)

KINDS = {
    "long": (pa.int64(), st.integers(-5, 5), str),
    "short": (pa.int16(), st.integers(-5, 5), str),
    "double": (
        pa.float64(),
        st.sampled_from([-1.5, -0.0, 0.0, 2.5, float("inf"), float("nan")]),
        lambda v: f"cast('{v}' as double)",
    ),
    "string": (pa.string(), st.sampled_from(["", "a", "ab", "z", "é", "\U0001f600"]), repr),
    "boolean": (pa.bool_(), st.booleans(), str),
    "date": (
        pa.date32(),
        st.integers(-3, 3).map(lambda d: DAY + timedelta(days=d)),
        lambda v: f"date'{v}'",
    ),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        st.integers(-3, 3).map(lambda d: TIME + timedelta(microseconds=d)),
        lambda v: f"timestamp'{v.strftime('%Y-%m-%d %H:%M:%S.%f')}Z'",
    ),
    "decimal(9,2)": (pa.decimal128(9, 2), st.integers(-5, 5).map(lambda v: Decimal(v) / 4), str),
}


def delta_type(name):
    return DecimalType(9, 2) if name.startswith("decimal") else PrimitiveType(name)


@st.composite
def cases(draw):
    name = draw(st.sampled_from(sorted(KINDS)))
    arrow, values, text = KINDS[name]
    column = draw(st.lists(st.none() | values, min_size=1, max_size=24))
    column = [None if v is None else v for v in column]
    op = draw(st.sampled_from(["=", "!=", "<", "<=", ">", ">=", "<=>"]))
    constant = text(draw(values))
    shape = draw(st.sampled_from(["x {o} {c}", "not x {o} {c}", "x is null", "x is not null",
                                  "x in ({c})", "x {o} {c} or x is null"]))  # fmt: skip
    where = shape.format(o=op, c=constant)
    return name, arrow, column, where, draw(st.integers(1, 5))


def bound_to(where, name):
    schema = StructType(
        (StructField("x", delta_type(name)), StructField("p", PrimitiveType("long")))
    )
    return bind(as_predicate(where), schema, ("p",))


def footer_of(table, rows, **options):
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=rows, **options)
    return pq.ParquetFile(io.BytesIO(sink.getvalue())).metadata


@settings(max_examples=400)
@given(cases())
def test_a_row_group_with_a_match_is_kept(case):
    name, arrow, column, where, rows = case
    array = pa.array(column, arrow)
    predicate = bound_to(where, name)
    matches = evaluate(predicate, lambda _: array, len(array)).to_pylist()
    needed = {at // rows for at, match in enumerate(matches) if match}
    kept = matching_row_groups(
        footer_of(pa.table({"x": array}), rows), to_skipping(predicate), {("x",): "x"}, {}
    )
    assert needed <= set(kept)


def numbers(count=40):
    return footer_of(pa.table({"x": pa.array(range(count), pa.int64())}), 10)


@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ("x = 15", [1]),
        ("x > 25", [2, 3]),
        ("x < 0", []),
        ("x is null", []),
        ("x in (5, 35)", [0, 3]),
        ("p = 1 or x = 15", [0, 1, 2, 3]),
        ("p = 2 or x = 15", [1]),
        ("p = 2 and x = 15", []),
    ],
)
def test_matching_ranges_are_kept(where, kept):
    rule = to_skipping(bound_to(where, "long"))
    found = matching_row_groups(numbers(), rule, {("x",): "x"}, {"p": pa.scalar(1, pa.int64())})
    assert found == kept


def test_without_a_rule_all_are_kept():
    assert matching_row_groups(numbers(), None, {}, {}) == [0, 1, 2, 3]


def test_a_column_that_the_file_lacks_is_null():
    for where, kept in (("x = 5", []), ("x is null", [0, 1, 2, 3])):
        rule = to_skipping(bound_to(where, "long"))
        assert matching_row_groups(numbers(), rule, {}, {}) == kept


def test_bounds_of_another_type_are_not_used():
    """A column that was widened to a decimal keeps its integers in old files."""
    rule = to_skipping(bound_to("x = 99", "decimal(9,2)"))
    assert matching_row_groups(numbers(), rule, {("x",): "x"}, {}) == [0, 1, 2, 3]


def test_unsigned_bounds_are_not_used():
    table = pa.table({"x": pa.array([1, 2**32 - 1], pa.uint32())})
    rule = to_skipping(bound_to("x > 5", "long"))
    assert matching_row_groups(footer_of(table, 10), rule, {("x",): "x"}, {}) == [0]


def test_an_ambiguous_path_has_no_bounds():
    table = pa.table({"a": pa.array([{"b": 1}]), "a.b": pa.array([100])})
    rule = to_skipping(bound_to("x = 100", "long"))
    assert matching_row_groups(footer_of(table, 10), rule, {("x",): "a.b"}, {}) == [0]


def test_millisecond_and_nanosecond_bounds_are_used():
    for unit, scale in (("ms", 10**3), ("us", 10**6), ("ns", 10**9)):
        values = pa.array([scale * n for n in range(4)], pa.timestamp(unit, "UTC"))
        metadata = footer_of(pa.table({"x": values}), 1, version="2.6")
        rule = to_skipping(bound_to("x = timestamp'1970-01-01 00:00:02Z'", "timestamp"))
        assert matching_row_groups(metadata, rule, {("x",): "x"}, {}) == [2]
