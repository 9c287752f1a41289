"""Double quotes: a string that names a column is the column; what two engines read differently is refused."""

from __future__ import annotations

import pytest

from lazydelta.errors import PredicateError
from lazydelta.expressions import as_predicate, bind, bind_condition, bind_expression
from lazydelta.schema import parse_columns

SCHEMA = parse_columns(
    "id int, Status string, Price double, kind string, type string, `a b` int, flag boolean"
)


@pytest.mark.parametrize(
    ("sql", "bound"),
    [
        ("\"Status\" != 'bad'", "Status != 'bad'"),
        ('"Price" >= 0', "Price >= 0.0D"),
        ('"status" = "kind"', "Status = kind"),
        ('"a b" > 1 AND id = 1', "`a b` > 1 AND id = 1"),
        ('"id" IS NULL', "id IS NULL"),
        ('"flag"', "flag = TRUE"),
        ("lower(\"Status\") IN ('a', 'b')", "lower(Status) IN ('a', 'b')"),
        ('"Price" >= id', "Price >= CAST(id AS DOUBLE)"),
        ('kind = "x"', "kind = 'x'"),
        ('kind IN ("x", "y")', "kind IN ('x', 'y')"),
        ('kind LIKE "type%"', "kind LIKE 'type%'"),
    ],
)
def test_a_double_quoted_column_name_is_the_column(sql, bound):
    assert str(bind(as_predicate(sql), SCHEMA, [])) == bound


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("\"idd\" = 'a'", 'no column is named "idd"'),
        ('"Status" != "bad"', '"Status" names a column and "bad" does not'),
        ('"Status" != \'bad\' OR kind = "x"', '"Status" names a column and "x" does not'),
        ('kind = "type"', '"type" may be the column or the string'),
        ('kind IN ("type", "status")', "may be the column or the string"),
        ("concat(kind, \"type\") = 'x'", "may be the column or the string"),
    ],
)
def test_ambiguous_double_quotes_are_refused_with_the_cure(sql, reason):
    for make in (lambda: bind(as_predicate(sql), SCHEMA, []), lambda: bind_condition(sql, SCHEMA)):
        with pytest.raises(PredicateError) as refused:
            make()
        assert reason in str(refused.value)
        assert "'single quotes'" in str(refused.value)


def test_a_double_quoted_default_is_a_string():
    assert bind_expression('"abc"', parse_columns("x string")).node.value == "abc"


@pytest.mark.parametrize("sql", ["true", "1 = 1", "null", "id = id OR true"])
def test_a_condition_without_a_column_is_refused(sql):
    with pytest.raises(PredicateError, match="depends on no column"):
        bind_condition(sql, SCHEMA)


def test_double_quotes_survive_the_rendering_of_a_predicate():
    predicate = as_predicate('"it\'s \\"odd\\"" = 1')
    assert str(as_predicate(str(predicate))) == str(predicate) == '"it\'s \\"odd\\"" = 1'
