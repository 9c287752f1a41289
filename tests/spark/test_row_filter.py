"""A predicate on rows is true, false or unknown for the same rows on Spark and on Arrow."""

from __future__ import annotations

import json
import os
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lazydelta import Table
from lazydelta.errors import ColumnNotFoundError, ConfigError, PredicateError
from lazydelta.expressions import as_predicate, bind, evaluate
from lazydelta.schema import parse_schema
from lazydelta.spark import read
from lazydelta.spark.row_filter import row_condition, untranslatable_reason
from tests.property.skip_cases import PARTITION_COLUMNS, SCHEMA, make_files
from tests.spark.cases import frame_of, predicates, rows_of, truths

EXAMPLES = int(os.environ.get("LAZYDELTA_TEST_SPARK_EXAMPLES", "3"))
TABLE = SimpleNamespace(schema=SCHEMA, partition_columns=PARTITION_COLUMNS)


def on_arrow(predicate, rows):
    bound = bind(as_predicate(predicate), SCHEMA, PARTITION_COLUMNS)

    def column(ref):
        found = rows.column(ref.path[0])
        return pc.struct_field(found, list(ref.path[1:])) if ref.path[1:] else found

    return evaluate(bound, column, rows.num_rows).to_pylist()


def check(spark, seed, strings):
    rows = rows_of(make_files(seed, 16))
    # Our readers evaluate the others, on executors too.
    translated = [where for where in strings if untranslatable_reason(TABLE, where) is None]
    found = truths(frame_of(spark, rows), [row_condition(TABLE, where) for where in translated])
    for where, truth in zip(translated, found, strict=True):
        assert truth == on_arrow(where, rows), where


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32), predicates(40))
def test_rows_are_true_false_and_unknown_alike(spark, seed, strings):
    check(spark, seed, strings)


@pytest.mark.long
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32), predicates(60))
def test_rows_are_true_false_and_unknown_alike_in_many_cases(spark, seed, strings):
    check(spark, seed, strings)


def test_the_comparison_can_fail(spark):
    """Guard of the tests above: the compared rows have all three truth values."""
    rows = rows_of(make_files(1, 16))
    (found,) = truths(frame_of(spark, rows), [row_condition(TABLE, "i > 0")])
    assert set(found) == {True, False, None}


LONG_LIST = ", ".join(f"{number}.0D" for number in range(40))


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        pytest.param("x = 0.0D", [True, True, False, None], id="the-two-zeros-are-equal"),
        pytest.param(f"x IN ({LONG_LIST})", [True, True, False, None], id="in-a-long-list-too"),
        pytest.param("x > 1e308D", [False, False, True, None], id="nan-is-above-all-numbers"),
        pytest.param("x IN (CAST('NaN' AS DOUBLE))", [False, False, True, None], id="nan-is-nan"),
        pytest.param("s LIKE 'a_c'", [True, False, False, None], id="underscore-is-a-code-point"),
        pytest.param("s LIKE '%.'", [False, True, False, None], id="a-dot-is-a-dot"),
        pytest.param("s LIKE '%\\n'", [False, False, True, None], id="the-last-newline-counts"),
        pytest.param("s LIKE '_b'", [False, False, False, None], id="nothing-before-a-newline-end"),
        pytest.param("s < '\U00010000'", [True, True, True, None], id="strings-by-code-point"),
        pytest.param("`odd.name``d` = 1", [True, False, False, None], id="a-name-is-not-a-path"),
        pytest.param("part IS NULL", [False, False, True, True], id="a-struct-may-be-null"),
    ],
)
def test_what_engines_disagree_about(spark, where, expected):
    kinds = {"x": "double", "s": "string", "odd.name`d": "long"}
    inner = {"type": "struct", "fields": [_field("k", "long")]}
    fields = [*(_field(*item) for item in kinds.items()), _field("part", inner)]
    schema = schema_of(fields)
    columns = {
        "x": pa.array([0.0, -0.0, float("nan"), None]),
        "s": pa.array(["a\U0001f600c", "ab.", "\uffffb\n", None]),
        "odd.name`d": pa.array([1, 2, 3, None], pa.int64()),
        "part": pa.array([{"k": 1}, {"k": None}, None, None], pa.struct([("k", pa.int64())])),
    }
    frame = frame_of(spark, pa.RecordBatch.from_pydict(columns))
    table = SimpleNamespace(schema=schema, partition_columns=())
    assert truths(frame, [row_condition(table, where)]) == [expected]


def schema_of(fields):
    return parse_schema(json.dumps({"type": "struct", "fields": fields}), where="test")


def _field(name, kind):
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


def test_no_predicate_is_true_for_every_row(spark):
    frame = spark.range(3)
    assert frame.where(row_condition(TABLE, None)).count() == 3


def test_hundreds_of_alternatives_are_no_problem(spark):
    rows = rows_of(make_files(3, 4))
    where = " OR ".join(f"i = {number} AND b < {number}" for number in range(-100, 100))
    assert truths(frame_of(spark, rows), [row_condition(TABLE, where)]) == [on_arrow(where, rows)]


def test_an_unknown_column_is_refused_before_spark_runs():
    with pytest.raises(ColumnNotFoundError, match="nope"):
        row_condition(TABLE, "nope = 1")


def test_strings_with_a_collation_are_refused(spark):
    kind = {"name": "s", "type": "string", "nullable": True}
    kind["metadata"] = {"__COLLATIONS": {"s": "icu.UNICODE_CI"}}
    schema = schema_of([kind])
    with pytest.raises(PredicateError, match="collation"):
        row_condition(SimpleNamespace(schema=schema, partition_columns=()), "s = 'a'")


def test_a_filter_without_translation_is_refused_by_name(spark):
    with pytest.raises(PredicateError, match="lower has no translation to a Spark column"):
        row_condition(TABLE, "lower(s) = 'a'")


def test_a_filter_without_translation_is_left_to_our_reader(spark, tmp_path):
    table = Table.create(tmp_path, "id int, n string")
    table.write(pa.table({"id": pa.array([1, 2, 3], pa.int32()), "n": ["A", "b", None]}))
    where = "coalesce(lower(n), 'a') = 'a'"
    assert sorted(row.id for row in read(spark, tmp_path, where=where).collect()) == [1, 3]
    with pytest.raises(ConfigError, match="coalesce has no translation"):
        read(spark, tmp_path, where=where, path="native")
