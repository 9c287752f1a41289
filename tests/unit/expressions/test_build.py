# ruff: noqa: DTZ001, E711, E712 - times without a zone are what is tested, and == builds a node
from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from lazydelta.errors import PredicateError
from lazydelta.expressions import as_predicate, bind, col, evaluate, lit
from lazydelta.schema import parse_columns


@pytest.mark.parametrize(
    ("built", "sql"),
    [
        pytest.param(col("a") > 1, "a > 1", id="greater"),
        pytest.param(col("a") < 1, "a < 1", id="reflected"),
        pytest.param(col("a.b") == "x", "a.b = 'x'", id="nested-equal"),
        pytest.param(col("a") != 1.5, "a != 1.5D", id="unequal"),
        pytest.param(col("a").eq_null_safe(None), "a <=> NULL", id="null-safe"),
        pytest.param(col("a").isin([1, 2]), "a IN (1, 2)", id="isin"),
        pytest.param(col("a").is_null() | ~(col("b") < 1), "a IS NULL OR NOT (b < 1)", id="or-not"),
        pytest.param(col("a").is_not_null(), "NOT (a IS NULL)", id="not-null"),
        pytest.param(
            col("a").between(1, 2) & (col("b") == True),
            "a >= 1 AND a <= 2 AND b = TRUE",
            id="between-flat",
        ),
        pytest.param(
            col("a").startswith("5%_\\"),
            "a LIKE '5\\\\%\\\\_\\\\\\\\%'",
            id="startswith-is-literal",
        ),
        pytest.param(col("a").like("x!%", escape="!"), "a LIKE 'x!%' ESCAPE '!'", id="like"),
        pytest.param(
            col("a").cast("date") == date(2026, 1, 1),
            "CAST(a AS DATE) = DATE '2026-01-01'",
            id="cast",
        ),
        pytest.param(col("a").call("YEAR") >= 2026, "year(a) >= 2026", id="call"),
        pytest.param(col("a") + 1 > col("b") - 2, "(a + 1) > (b - 2)", id="sums"),
        pytest.param(
            col("a") <= datetime(2026, 1, 1, tzinfo=UTC),
            "a <= TIMESTAMP '2026-01-01 00:00:00.000000Z'",
            id="timestamp",
        ),
        pytest.param(
            col("a") <= datetime(2026, 1, 1),
            "a <= TIMESTAMP_NTZ '2026-01-01 00:00:00.000000'",
            id="ntz",
        ),
        pytest.param(col("a") == Decimal("1.50"), "a = 1.50BD", id="decimal"),
        pytest.param(col("a") == np.int32(5), "a = 5", id="numpy"),
        pytest.param(col("a") == b"\x01", "a = X'01'", id="binary"),
    ],
)
def test_operators_build_their_nodes(built, sql):
    assert str(built) == sql
    assert as_predicate(sql) == built


@pytest.mark.parametrize(
    ("where", "sql"),
    [
        pytest.param([("a", "=", "1")], "a = '1'", id="one-tuple"),
        pytest.param([("a", "==", 1), ("b", "<>", 2)], "a = 1 AND b != 2", id="and"),
        pytest.param(
            [[("a", "=", 1)], [("b", ">", 2), ("c", "<=", 3)]],
            "a = 1 OR (b > 2 AND c <= 3)",
            id="or-of-ands",
        ),
        pytest.param([("a", "in", ["1", "2"])], "a IN ('1', '2')", id="in"),
        pytest.param([("a", "not in", {"1"})], "NOT (a IN ('1'))", id="not-in"),
        pytest.param([("a", "=", "")], "a IS NULL", id="empty-string-is-null"),
        pytest.param([("a", "!=", "")], "NOT (a IS NULL)", id="not-empty-is-not-null"),
        pytest.param([("a", "in", ["1", ""])], "a IN ('1') OR a IS NULL", id="in-with-null"),
        pytest.param(
            [("a", "not in", ["1", ""])], "NOT (a IN ('1') OR a IS NULL)", id="not-in-with-null"
        ),
        pytest.param({"date": "2026-02-08"}, "`date` = '2026-02-08'", id="map"),
        pytest.param({"a": None, "b": [1, 2]}, "a IS NULL AND b IN (1, 2)", id="map-null-and-list"),
        pytest.param('{"a": 1}', "a = 1", id="json"),
    ],
)
def test_tuples_and_maps(where, sql):
    assert str(as_predicate(where)) == sql


@pytest.mark.parametrize(
    ("forms", "kept"),
    [
        pytest.param(
            [
                {"a": None},
                '{"a": null}',
                [("a", "=", None)],
                col("a") == None,
                col("a").isin([None]),
            ],
            [None],
            id="equal",
        ),
        pytest.param([[("a", "!=", None)], col("a") != None], [1, 2], id="unequal"),
        pytest.param(
            [{"a": [1, None]}, [("a", "in", [1, None])], col("a").isin([1, None])],
            [1, None],
            id="in",
        ),
        pytest.param([[("a", "not in", [1, None])], ~col("a").isin([1, None])], [2], id="not-in"),
        pytest.param(["a = NULL", "a IN (NULL)", col("a") == lit(None)], [], id="null-of-sql"),
        pytest.param(["a IN (1, NULL)"], [1], id="in-with-null-of-sql"),
    ],
)
def test_none_means_is_null_in_every_python_form(forms, kept):
    values = pa.array([1, 2, None], pa.int32())
    for where in forms:
        bound = bind(as_predicate(where), parse_columns("a int"), [])
        assert values.filter(evaluate(bound, lambda _: values, 3)).to_pylist() == kept, where


@pytest.mark.parametrize("make", [lambda: col("a") < None, lambda: col("a").between(None, 1)])
def test_none_has_no_order(make):
    with pytest.raises(PredicateError, match="None can only be compared"):
        make()


@pytest.mark.parametrize("where", [None, [], {}])
def test_nothing_is_no_filter(where):
    assert as_predicate(where) is None


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ([("a", "=")], "a condition is a tuple"),
        ([("a", "~", 1)], "no operator"),
        ([("a", "in", "12")], "must be a list"),
        ([("a", "<", None)], "only be compared with = or !="),
        ([("a", "=", 1), [("b", "=", 1)]], "only tuples, or only lists"),
        (5, "give an SQL string"),
        ([("a", "=", object())], "cannot be a constant"),
        ([("a b", "=", 1)], "expected the end"),
    ],
)
def test_a_bad_filter_is_refused(where, reason):
    with pytest.raises(PredicateError, match=reason):
        as_predicate(where)


@pytest.mark.parametrize("value", [col("a") > 1, col("a"), col("a") + 1, lit(True)])
def test_python_and_is_refused_rather_than_wrong(value):
    with pytest.raises(TypeError, match="combine with &"):
        value and col("b")


def test_chains_stay_flat():
    chain = col("a") == 0
    for value in range(500):
        chain = chain | (col("a") == value)
    assert len(chain.arms) == 501


def test_a_bare_column_is_a_condition_and_a_constant_is_not():
    assert str(as_predicate(col("flag"))) == "flag = TRUE"
    assert repr(col("a.b")) == "col('a.b')"
    assert str(lit(None).node) == "NULL"


# --- invalid values, names and predicates


@pytest.mark.parametrize(
    "make",
    [
        lambda: col(5),
        lambda: col(["a", 5]),
        lambda: col("a").isin("abc"),
        lambda: col("a").isin(b"abc"),
        lambda: col("a").isin(5),
        lambda: col("a").startswith(5),
        lambda: col("a").startswith(None),
    ],
)
def test_arguments_of_another_kind_are_refused(make):
    with pytest.raises(PredicateError):
        make()


@pytest.mark.parametrize("other", [5, "k", None, col("b")])
def test_predicates_are_joined_with_predicates_only(other):
    with pytest.raises(TypeError, match="unsupported operand"):
        (col("a") > 1) & other
    with pytest.raises(TypeError, match="unsupported operand"):
        (col("a") > 1) | other


def test_no_time_of_pandas_is_null():
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    assert str(col("a") == pandas.NaT) == "a IS NULL"


def test_an_expression_with_too_many_tokens_is_refused_with_the_cure():
    many = ", ".join(map(str, range(20_000)))
    with pytest.raises(PredicateError, match="isin"):
        as_predicate(f"a in ({many})")


def test_arithmetic_on_columns_is_that_of_sql():
    a = col("a")
    assert str((a * 2 + 1 > 3) & (a / 4 < a % 5)) == "((a * 2) + 1) > 3 AND (a / 4) < (a % 5)"
