"""Values that expressions compute: one time a statement, nested values, and skipping around them."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

from lazydelta.errors import PredicateError
from lazydelta.expressions import as_predicate, bind, bind_expression, evaluate, to_skipping
from lazydelta.expressions.nodes import Call, Compare
from lazydelta.schema import from_arrow_schema

ROWS = pa.RecordBatch.from_pydict(
    {
        "i": pa.array([1, 2, None], pa.int32()),
        "t": pa.array(["abcd", None, "x"]),
        "d": pa.array([0.0, -0.0, math.nan]),
        "a": pa.array([[1, 2], None, []], pa.list_(pa.int32())),
        "m": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int32())),
        "y": pa.array(
            [{"k": 1}, None, {"k": None}], pa.struct([pa.field("k", pa.int32(), nullable=True)])
        ),
        "ts": pa.array([0, 1, None], pa.timestamp("us", "UTC")),
    }
)
SCHEMA = from_arrow_schema(ROWS.schema)


def computed(sql, **options):
    return bind_expression(sql, SCHEMA, strict=False, **options)(ROWS)


def skipping(where):
    return to_skipping(bind(as_predicate(where), SCHEMA, ()))


def test_the_current_time_is_one_value_of_a_statement():
    day = 86_400_000_000
    values = computed("struct(current_timestamp(), now(), current_date, curdate())", now=day + 7)
    first = values.values[0].as_py()
    assert first["col1"] == first["col2"]
    assert [str(first["col3"]), str(first["col4"])] == ["1970-01-02"] * 2
    assert first["col1"].microsecond == 7


def test_a_filter_keeps_the_time_at_which_it_was_made():
    where = as_predicate("ts < current_timestamp()", now=5)
    assert str(where) == "ts < TIMESTAMP '1970-01-01 00:00:00.000005Z'"
    assert as_predicate(str(where)) == where
    assert not any(isinstance(node, Call) for node in as_predicate("ts < now()").walk())


def test_a_column_of_the_name_of_a_time_needs_backticks():
    assert str(as_predicate("`current_date` = 1")) == "`current_date` = 1"


def test_nested_values_are_chosen_and_taken_apart():
    assert computed("coalesce(a, array(i))").values.to_pylist() == [[1, 2], [2], []]
    assert computed("if(i = 1, y, named_struct('k', 9))").values.to_pylist() == [
        {"k": 1},
        {"k": 9},
        {"k": 9},
    ]
    assert computed("m['k']").values.to_pylist() == [1, None, None]
    assert computed("coalesce(y, named_struct('k', 5)).k").values.to_pylist() == [1, 5, None]
    assert computed("size(coalesce(m, map('z', 1)))").values.to_pylist() == [1, 0, 1]


def test_rows_without_an_element_fail():
    result = computed("a[1]")
    assert result.values.to_pylist() == [2, None, None]
    assert result.failed.to_pylist() == [False, False, True]


@pytest.mark.parametrize("where", ["a = a", "m = m", "y = y", "a in (1)", "a > 1", "y"])
def test_nested_values_do_not_compare(where):
    with pytest.raises(PredicateError, match="cannot be compared"):
        bind(as_predicate(where), SCHEMA, ())


@pytest.mark.parametrize(
    "where",
    [
        "cast(d as string) = '-0.0' and d < 1",
        "hash(i) = 5",
        "concat_ws(',', t) = 'x'",
        "array(i)[0] = 1",
        "size(a) > 1 or size(m) > 1",
        "substring(t, 1, i) = 'ab'",
        "current_timestamp() > ts + interval 1 day",
    ],
)
def test_functions_that_statistics_say_nothing_of_keep_files(where):
    """The predicate may still ask for values at all, or compare what the others bound."""
    found = str(skipping(where))
    functions = ("hash(", "array(", "size(", "concat_ws(", "substring(", "STRING", "INTERVAL")
    assert not any(name in found for name in functions)


def test_a_string_of_zero_has_its_sign():
    where = bind(as_predicate("cast(d as string) = '-0.0'"), SCHEMA, ())
    found = evaluate(where, lambda ref: ROWS.column(ref.path[0]), 3)
    assert found.to_pylist() == [False, True, False]


def test_positions_may_be_columns():
    assert computed("substring(t, i)").values.to_pylist() == ["abcd", None, None]
    assert computed("left(t, i)").values.to_pylist() == ["a", None, None]
    assert computed("repeat('ab', i)").values.to_pylist() == ["ab", "abab", None]


def test_failures_count_only_where_they_are_used():
    assert computed("case when i = 1 then i div (i - 1) else i end").failed.to_pylist() == [
        True,
        False,
        False,
    ]
    assert computed("if(i <> 1, 1 / (i - 1), 0D)").failed is None
    assert computed("nvl2(t, 1, cast('x' as int))").failed.to_pylist() == [False, True, False]


def test_values_are_stored_by_the_rules_of_store_assignment():
    kinds = {field.name: field.type for field in SCHEMA}
    assert computed("i + 1", to_type=kinds["t"]).values.to_pylist() == ["2", "3", None]
    with pytest.raises(PredicateError, match="its values are string"):
        computed("t", to_type=kinds["i"])


def test_a_comparison_keeps_its_function():
    bound = bind(as_predicate("upper(t) = 'ABCD'"), SCHEMA, ())
    assert isinstance(bound, Compare)
