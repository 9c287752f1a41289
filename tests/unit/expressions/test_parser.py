from __future__ import annotations

import contextlib
import pickle
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lazydelta.errors import PredicateError
from lazydelta.expressions import as_predicate, col, lit
from lazydelta.expressions.nodes import (
    And,
    Call,
    Cast,
    Column,
    Compare,
    Constant,
    In,
    IsNull,
    IsTrue,
    Like,
    Literal,
    Not,
    Or,
)
from lazydelta.schema import DecimalType, PrimitiveType
from tests.property.skip_cases import ROW_PREDICATES

A, B = Column(("a",)), Column(("b",))


def number(value):
    return Literal(value, PrimitiveType("integer"))


def string(value):
    return Literal(value, PrimitiveType("string"))


ONE = number(1)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        pytest.param("a = 1", Compare("=", A, ONE), id="equal"),
        pytest.param("a == 1", Compare("=", A, ONE), id="double-equal"),
        pytest.param("a <> 1", Compare("!=", A, ONE), id="unequal"),
        pytest.param("a<=>1", Compare("<=>", A, ONE), id="null-safe"),
        pytest.param("a >= -1", Compare(">=", A, number(-1)), id="minus"),
        pytest.param("a = - b", Compare("=", A, Call("-", (B,))), id="minus-column"),
        pytest.param(
            "a + 1 - b > 1", Compare(">", Call("-", (Call("+", (A, ONE)), B)), ONE), id="sums"
        ),
        pytest.param("`a.b`.c = 1", Compare("=", Column(("a.b", "c")), ONE), id="backticks"),
        pytest.param("`a``b` = 1", Compare("=", Column(("a`b",)), ONE), id="backtick-in-name"),
        pytest.param("été = 1", Compare("=", Column(("été",)), ONE), id="unicode-name"),
        pytest.param("a IN (1, NULL)", In(A, (ONE, Literal(None, PrimitiveType("void")))), id="in"),
        pytest.param("a not in (1)", Not(In(A, (ONE,))), id="not-in"),
        pytest.param(
            "a in (b, 1)", Or((Compare("=", A, B), Compare("=", A, ONE))), id="in-columns"
        ),
        pytest.param(
            "a between 1 and 2 and b = 1",
            And((And((Compare(">=", A, ONE), Compare("<=", A, number(2)))), Compare("=", B, ONE))),
            id="between",
        ),
        pytest.param(
            "a not between 1 and 2",
            Not(And((Compare(">=", A, ONE), Compare("<=", A, number(2))))),
            id="not-between",
        ),
        pytest.param("a like 'x%'", Like(A, "x%"), id="like"),
        pytest.param("a NOT LIKE 'x!%' ESCAPE '!'", Not(Like(A, "x!%", "!")), id="not-like-escape"),
        pytest.param("a is null", IsNull(A), id="is-null"),
        pytest.param("a is not null", Not(IsNull(A)), id="is-not-null"),
        pytest.param("(a = 1) is true", IsTrue(Compare("=", A, ONE)), id="is-true"),
        pytest.param(
            "(a = 1) is not false", Not(IsTrue(Not(Compare("=", A, ONE)))), id="is-not-false"
        ),
        pytest.param(
            "a", Compare("=", A, Literal(True, PrimitiveType("boolean"))), id="bare-boolean"
        ),
        pytest.param(
            "not a = 1 or b = 1 and a = 1",
            Or((Not(Compare("=", A, ONE)), And((Compare("=", B, ONE), Compare("=", A, ONE))))),
            id="precedence",
        ),
        pytest.param("TRUE", Constant(True), id="true"),
        pytest.param("null", Constant(None), id="null"),
        pytest.param(
            "a = DATE '2026-01-01'",
            Compare("=", A, Literal(20454, PrimitiveType("date"))),
            id="date",
        ),
        pytest.param(
            "a = TIMESTAMP '1970-01-01 00:00:01+00:00'",
            Compare("=", A, Literal(10**6, PrimitiveType("timestamp"))),
            id="timestamp",
        ),
        pytest.param(
            "a = TIMESTAMP_NTZ '1970-01-01 00:00:01'",
            Compare("=", A, Literal(10**6, PrimitiveType("timestamp_ntz"))),
            id="timestamp-ntz",
        ),
        pytest.param(
            "a = 1.50", Compare("=", A, Literal(Decimal("1.50"), DecimalType(3, 2))), id="decimal"
        ),
        pytest.param(
            "a = 1e2", Compare("=", A, Literal(100.0, PrimitiveType("double"))), id="double"
        ),
        pytest.param(
            "a = 1.5D", Compare("=", A, Literal(1.5, PrimitiveType("double"))), id="double-suffix"
        ),
        pytest.param(
            "a = 12345678901234567890123",
            Compare("=", A, Literal(Decimal(12345678901234567890123), DecimalType(23, 0))),
            id="huge",
        ),
        pytest.param(
            "a = X'0aFF'",
            Compare("=", A, Literal(b"\x0a\xff", PrimitiveType("binary"))),
            id="binary",
        ),
        pytest.param(r"a = 'it\'s'", Compare("=", A, string("it's")), id="escaped-quote"),
        pytest.param("a = 'it''s'", Compare("=", A, string("it's")), id="doubled-quote"),
        pytest.param('a = "x"', Compare("=", A, string("x")), id="double-quotes"),
        pytest.param(r"a = '\u00e9\n\\'", Compare("=", A, string("é\n\\")), id="escapes"),
        pytest.param(r"a = '\ud83d\ude00'", Compare("=", A, string("😀")), id="surrogate-pair"),
        pytest.param(r"a = r'\n'", Compare("=", A, string("\\n")), id="raw"),
        pytest.param(
            "cast(a as decimal(10, 2)) = 1",
            Compare("=", Cast(A, DecimalType(10, 2)), ONE),
            id="cast",
        ),
        pytest.param("YEAR(a) = 1", Compare("=", Call("year", (A,)), ONE), id="function"),
        pytest.param("date = 1", Compare("=", Column(("date",)), ONE), id="column-named-date"),
        pytest.param(
            "a = 1 -- why\n and /* not */ b = 1",
            And((Compare("=", A, ONE), Compare("=", B, ONE))),
            id="comments",
        ),
    ],
)
def test_sql(sql, expected):
    assert as_predicate(sql) == expected


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("", "expected a column or a constant"),
        ("a =", "found the end"),
        ("a = 1 b", "expected the end, but found 'b' at character 7"),
        ("a = 'x", "cannot read"),
        ("a ~ 1", "cannot read"),
        ("a in ()", "expected a column"),
        ("a in (1", r"expected '\)'"),
        ("(a = 1", r"expected '\)'"),
        ("a like b", "constant pattern"),
        ("a is 5", "expected NULL, TRUE, FALSE or DISTINCT"),
        ("a = date '2026-99-01'", "not a calendar date"),
        ("cast(a as nosuch)", "expected a type"),
        ("cast(a as decimal(99))", "at most 38"),
        ("5", "is not a condition"),
        (r"a = '\ud800'", "surrogate"),
        ("(" * 70 + "a" + ")" * 70, "nested more than 64"),
        ("not " * 70 + "a", "nested more than 64"),
        ("a = " + "- " * 70 + "1", "nested more than 64"),
        ("a in (" + ",".join("1" * 20_000) + ")", "more than 10000 parts"),
        ("a like 'x' escape 'ab'", "one character"),
        ("{bad", "begins like JSON"),
    ],
)
def test_a_syntax_error_shows_its_position(sql, reason):
    with pytest.raises(PredicateError, match=reason):
        as_predicate(sql)


def test_the_caret_points_at_the_fault():
    with pytest.raises(PredicateError) as caught:
        as_predicate("fare > 50 and and day = 1")
    *_, line, caret = str(caught.value).splitlines()
    assert line[caret.index("^") :].startswith("and day")


@given(ROW_PREDICATES)
def test_text_of_a_tree_parses_to_an_equal_tree(sql):
    tree = as_predicate(sql)
    assert as_predicate(str(tree)) == tree
    assert pickle.loads(pickle.dumps(tree)) == tree
    assert hash(pickle.loads(pickle.dumps(tree))) == hash(tree)


@given(st.text(), st.text(min_size=1))
def test_any_string_and_any_name_round_trip(value, name):
    tree = col([name]) == lit(value)
    if not any(0xD800 <= ord(c) <= 0xDFFF for c in value + name):
        assert as_predicate(str(tree)) == tree


@given(st.text(max_size=30))
def test_any_input_parses_or_is_a_predicate_error(sql):
    with contextlib.suppress(PredicateError):
        as_predicate(sql)
