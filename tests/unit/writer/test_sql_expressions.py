"""SQL expressions of table metadata have the values of the golden file, which Spark computed."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from lazydelta.errors import ColumnNotFoundError, PredicateError
from lazydelta.expressions import bind_condition, bind_equality, bind_expression
from lazydelta.schema import PrimitiveType, StructField, StructType
from tests.unit.writer.expression_cases import (
    COMPUTED,
    REFUSED,
    ROWS,
    SCHEMA,
    as_strings,
    computed,
    golden,
)

WANTED = golden()


def test_every_case_has_a_golden_result():
    assert list(WANTED) == COMPUTED
    assert sum(bool(one["failed"]) for one in WANTED.values()) > 20


@pytest.mark.parametrize("expression", COMPUTED)
def test_values_are_sparks(expression):
    assert computed(expression) == WANTED[expression]


@pytest.mark.parametrize(
    ("expression", "reason"), REFUSED, ids=[expression[:40] for expression, _ in REFUSED]
)
def test_an_unsupported_expression_is_refused_before_any_row(expression, reason):
    with pytest.raises((PredicateError, ColumnNotFoundError)) as refused:
        bind_expression(expression, SCHEMA)
    assert reason in str(refused.value)


@pytest.mark.parametrize("expression", COMPUTED)
def test_a_row_does_not_depend_on_its_neighbours(expression):
    """Results do not depend on how rows are sliced into batches."""
    bound = bind_expression(expression, SCHEMA)
    for start in range(ROWS.num_rows):
        result = bound(ROWS.slice(start, 1))
        failed = result.failed is not None and result.failed[0].as_py()
        assert as_strings(result.values) == WANTED[expression]["values"][start : start + 1]
        assert failed == (start in WANTED[expression]["failed"])


def test_no_rows_give_no_values():
    for expression in COMPUTED:
        result = bind_expression(f"({expression}\n) is null", SCHEMA)(ROWS.slice(0, 0))
        assert len(result.values) == 0
        assert result.failed is None


def test_an_expression_pickles_and_lists_its_columns():
    expression = pickle.loads(pickle.dumps(bind_condition("y.v.w = T", SCHEMA)))
    assert expression.columns == {("y", "v", "w"), ("t",)}
    assert expression(ROWS).values.to_pylist()[0] is False


@pytest.mark.parametrize(
    ("expression", "kind"), [("i", "string"), ("t", "long"), ("x", "long"), ("day", "integer")]
)
def test_values_of_another_family_need_a_cast(expression, kind):
    with pytest.raises(PredicateError, match="its values are"):
        bind_expression(expression, SCHEMA, to_type=PrimitiveType(kind))


def test_equality_takes_null_for_null_and_nan_for_nan():
    schema = StructType(tuple(StructField(n, PrimitiveType("double")) for n in ("a", "b")))
    rows = [(1.0, 1.0), (None, None), (float("nan"), float("nan")), (None, 1.0), (1.0, 2.0)]
    batch = pa.RecordBatch.from_pylist([{"a": a, "b": b} for a, b in rows])
    found = bind_equality("a", "b", schema)(batch)
    assert found.values.to_pylist() == [True, True, True, False, False]


def test_a_sum_of_very_many_terms_is_refused_and_no_stack_overflows():
    with pytest.raises(PredicateError, match="deep"):
        bind_condition(" + ".join(["i"] * 4000) + " > 0", SCHEMA)


def test_columns_may_come_as_views_or_dictionaries():
    schema = StructType((StructField("t", PrimitiveType("string")),))
    condition = bind_condition("upper(t) = 'A'", schema)
    for kind in (pa.string_view(), pa.dictionary(pa.int8(), pa.string())):
        batch = pa.RecordBatch.from_pydict({"t": pa.array(["a", "b", None]).cast(kind)})
        assert condition(batch).values.to_pylist() == [True, False, None]


def test_strings_that_two_engines_match_differently_fail():
    schema = StructType((StructField("t", PrimitiveType("string")),))
    batch = pa.RecordBatch.from_pydict({"t": ["ab", "ab\n", "a\u2028b", None]})
    result = bind_condition("t rlike '^a.?b$'", schema)(batch)
    assert result.values.to_pylist() == [True, None, None, None]
    assert result.failed.to_pylist() == [False, True, True, False]


def test_a_collated_column_is_refused():
    collated = StructField("t", PrimitiveType("string"), metadata={"__COLLATIONS": {"t": "ICU.X"}})
    with pytest.raises(PredicateError, match="collation"):
        bind_condition("t = 'a'", StructType((collated,)))
