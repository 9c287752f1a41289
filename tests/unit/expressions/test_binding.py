from __future__ import annotations

import json
import math

import pytest

from lazydelta.errors import ColumnNotFoundError, PredicateError
from lazydelta.expressions import as_predicate, bind, col, lit, split_conjuncts
from lazydelta.expressions.nodes import Column, Constant
from lazydelta.schema import PrimitiveType, parse_schema

FIELDS = [
    ("b", "byte"),
    ("i", "integer"),
    ("l", "long"),
    ("x", "double"),
    ("f", "float"),
    ("m", "decimal(10,2)"),
    ("d", "date"),
    ("t", "timestamp"),
    ("n", "timestamp_ntz"),
    ("s", "string"),
    ("o", "boolean"),
    ("z", "binary"),
    ("Fare", "long"),
    ("p", "integer"),
    ("a", {"type": "array", "elementType": "long", "containsNull": True}),
    ("st", {"type": "struct", "fields": [{"name": "K", "type": "long"}]}),
]
SCHEMA = parse_schema(
    json.dumps(
        {
            "type": "struct",
            "fields": [
                *({"name": name, "type": kind} for name, kind in FIELDS),
                {
                    "name": "c",
                    "type": "string",
                    "metadata": {"__COLLATIONS": {"c": "spark.UTF8_LCASE"}},
                },
            ],
        }
    ),
    where="test",
)


def bound(where):
    return bind(as_predicate(where), SCHEMA, ["p"])


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param("b < 1000", "NOT (b IS NULL) OR NULL", id="beyond-the-type-always"),
        pytest.param("b > 1000", "b IS NULL AND NULL", id="beyond-the-type-never"),
        pytest.param("b = 128", "b IS NULL AND NULL", id="does-not-wrap"),
        pytest.param("b <= 127", "NOT (b IS NULL) OR NULL", id="at-the-top"),
        pytest.param("b >= -128", "NOT (b IS NULL) OR NULL", id="at-the-bottom"),
        pytest.param("b > -128", "b > -128", id="above-the-bottom"),
        pytest.param("b <=> 1000", "FALSE", id="null-safe-never"),
        pytest.param("i < 10.5", "i < 11", id="less-than-a-fraction"),
        pytest.param("i <= 10.5", "i <= 10", id="at-most-a-fraction"),
        pytest.param("i > 10.5", "i > 10", id="more-than-a-fraction"),
        pytest.param("i >= -10.5", "i >= -10", id="at-least-a-negative-fraction"),
        pytest.param("i = 10.0", "i = 10", id="whole-decimal"),
        pytest.param("l = 9007199254740993", "l = 9007199254740993", id="long-beyond-doubles"),
        pytest.param("l < 1e3", "l < 1000", id="double-constant"),
        pytest.param("11 < i", "i > 11", id="constant-on-the-left"),
        pytest.param("m = 1.5", "m = 1.50BD", id="decimal-scale"),
        pytest.param("m < 0.005", "m < 0.01BD", id="decimal-between-steps"),
        pytest.param("m > 1e20", "m IS NULL AND NULL", id="decimal-overflow"),
        pytest.param("x = 5", "x = 5.0D", id="int-to-double"),
        pytest.param("f = 0.5", "f = 0.5F", id="float-holds-it"),
        pytest.param("f = 0.1", "CAST(f AS DOUBLE) = 0.1D", id="float-does-not"),
        pytest.param("f IN (0.5, 0.1)", "CAST(f AS DOUBLE) IN (0.1D, 0.5D)", id="float-options"),
        pytest.param("d = '2026-01-01'", "d = DATE '2026-01-01'", id="string-to-date"),
        pytest.param("d = '2026-01-01 10:00:00'", "d = DATE '2026-01-01'", id="time-cut-off"),
        pytest.param(
            "d > TIMESTAMP '2026-01-01 10:00:00Z'", "d > DATE '2026-01-01'", id="date-after-a-time"
        ),
        pytest.param(
            "t = '2026-01-01'",
            "t = TIMESTAMP '2026-01-01 00:00:00.000000Z'",
            id="string-to-timestamp",
        ),
        pytest.param(
            "t = DATE '2026-01-01'",
            "t = TIMESTAMP '2026-01-01 00:00:00.000000Z'",
            id="date-to-time",
        ),
        pytest.param(
            "n = TIMESTAMP '2026-01-01 02:00:00+02:00'",
            "n = TIMESTAMP_NTZ '2026-01-01 00:00:00.000000'",
            id="zoned-to-ntz",
        ),
        pytest.param("i = '7'", "i = 7", id="string-to-number"),
        pytest.param("o = 'TRUE'", "o = TRUE", id="string-to-boolean"),
        pytest.param("z = 'a'", "z = X'61'", id="string-to-binary"),
        pytest.param("i IN (1, 1, 2.5, 3)", "i IN (1, 3)", id="options-that-fit-once"),
        pytest.param("b IN (1000)", "b IS NULL AND NULL", id="no-option-fits"),
        pytest.param("b IN (1000, NULL)", "NULL", id="only-null-is-left"),
        pytest.param("i + 1 > 5", "i > 4", id="sum-moves"),
        pytest.param("1 - i > 5", "i < -4", id="difference-moves-and-flips"),
        pytest.param("i + 1 IN (5, 6)", "i IN (4, 5)", id="options-move"),
        pytest.param("b + 1 > 200", "b IS NULL AND NULL", id="sum-does-not-wrap"),
        pytest.param("i = NULL", "NULL", id="null-is-unknown"),
        pytest.param("i <=> NULL", "i IS NULL", id="null-safe-null"),
        pytest.param("fare > 1", "Fare > 1", id="case-is-ignored"),
        pytest.param("ST.k > 1", "st.K > 1", id="nested-case"),
        pytest.param("1 + 1 = 2", "TRUE", id="constants-are-computed"),
        pytest.param("year(DATE '2026-05-05') = 2026 AND i = 1", "i = 1", id="and-true"),
        pytest.param("i = 1 OR 'a' LIKE 'a%'", "TRUE", id="or-true"),
        pytest.param(
            "date(t) = DATE '2026-01-01'",
            "CAST(t AS DATE) = DATE '2026-01-01'",
            id="date-is-a-cast",
        ),
        pytest.param("b < l", "CAST(b AS LONG) < l", id="widened-column"),
        pytest.param(
            "i = m", "CAST(i AS DECIMAL(12,2)) = CAST(m AS DECIMAL(12,2))", id="to-decimal"
        ),
        pytest.param("a IS NULL", "a IS NULL", id="null-test-of-a-list"),
        pytest.param("'b' IN ('a', 'b')", "TRUE", id="constant-in"),
    ],
)
def test_constants_are_fitted_without_changing_the_answer(given, expected):
    assert str(bound(given)) == expected


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_nan_and_infinity_are_above_all_whole_numbers(value):
    assert str(bind(col("i") < lit(value), SCHEMA, [])) == "NOT (i IS NULL) OR NULL"
    assert str(bind(col("i") >= lit(value), SCHEMA, [])) == "i IS NULL AND NULL"


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("s = 5", r"column s has type string and cannot be compared with 5 \(integer\)"),
        ("i = 'abc'", "column i has type integer, and 'abc' cannot be converted to it"),
        ("d = 'soon'", "column d has type date, and 'soon' cannot be converted"),
        ("d = 5", "column d has type date and cannot be compared with 5"),
        ("o = 1", "column o has type boolean and cannot be compared with 1"),
        ("s < i", "string and integer cannot be compared"),
        ("a = 1", "values of type array<long> cannot be compared"),
        ("st = 1", "cannot be compared"),
        ("i LIKE 'x'", "integer is not a string"),
        ("s LIKE 'x!y' ESCAPE '!'", "must escape"),
        ("nosuch(i) = 1", "there is no function 'nosuch'"),
        ("year(i) = 1", "year takes date or timestamps, not integer"),
        ("trunc(d, 'eon') = d", "trunc does not support this constant"),
        ("date_format(d, 'G') = 'x'", "does not support this constant"),
        ("o + 1 = 2", "takes numbers"),
        ("cast(x as date) = d", "a double cannot be cast"),
        ("i = TRUE", "column i has type integer and cannot be compared with TRUE"),
    ],
)
def test_what_cannot_be_compared_is_refused(given, reason):
    with pytest.raises(PredicateError, match=reason):
        bound(given)


def test_an_unknown_column_is_an_error_with_near_matches():
    with pytest.raises(ColumnNotFoundError, match="did you mean 'Fare'"):
        bound("Fares > 1")


def test_a_partition_column_is_marked():
    assert bound("p = 1").left == Column(("p",), PrimitiveType("integer"), is_partition=True)


def test_a_collated_string_has_its_own_type():
    assert str(bound("c = 'x'").left.type) == "string collate spark.UTF8_LCASE"


def test_too_deep_a_tree_is_refused():
    tree = col("i") == 1
    for _ in range(200):
        tree = ~(tree & (col("i") == 2))
    with pytest.raises(PredicateError, match="nested more than"):
        bind(tree, SCHEMA, [])


@pytest.mark.parametrize(
    ("given", "exact", "rest"),
    [
        ("p = 1 AND i > 2", "p = 1", "i > 2"),
        (
            "p IN (1, 2) AND p IS NOT NULL AND NOT (p > 5)",
            "p IN (1, 2) AND NOT (p IS NULL) AND NOT (p > 5)",
            None,
        ),
        ("p = 1 OR i = 1", None, "p = 1 OR i = 1"),
        ("p <=> 1", None, "p <=> 1"),
        ("p + 1 = 2", "p = 1", None),
        ("year(d) = 1 AND p BETWEEN 1 AND 2", "p >= 1 AND p <= 2", "year(d) = 1"),
    ],
)
def test_conjuncts_that_partitions_decide_are_split_off(given, exact, rest):
    found = split_conjuncts(bound(given))
    assert [None if part is None else str(part) for part in found] == [exact, rest]


def test_constants_fold():
    assert bound("FALSE AND i = 1") == Constant(False)
    assert bound("NOT (NULL)") == Constant(None)
    assert bound("(NULL) IS NULL") == Constant(True)
