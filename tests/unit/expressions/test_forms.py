"""Everyday expressions have the type and value that Spark gives, or are refused by name."""

from __future__ import annotations

import re

import pytest

from lazydelta.errors import PredicateError
from lazydelta.expressions.binding import bind_value
from lazydelta.expressions.parser import parse_expression
from lazydelta.schema import StructType
from tests.unit.expressions.forms import FORMS, REFUSED, computed, golden

WANTED = golden()
SUFFIX = re.compile(r"\d[LSY]\b")


def test_every_form_has_a_golden_result():
    assert list(WANTED) == FORMS
    assert len(FORMS) > 300
    assert sum(value == "failed" for _, value in WANTED.values()) > 30


@pytest.mark.parametrize("form", FORMS)
def test_forms_have_the_values_of_spark(form):
    assert computed(form) == WANTED[form]


@pytest.mark.parametrize(("form", "reason"), REFUSED, ids=[form for form, _ in REFUSED])
def test_an_unsupported_form_is_refused_by_name(form, reason):
    with pytest.raises(PredicateError, match=reason):
        bind_value(parse_expression(form), StructType(()))


@pytest.mark.parametrize("form", [form for form in FORMS if not SUFFIX.search(form)])
def test_the_sql_of_a_form_parses_to_an_equal_tree(form):
    """Suffixes of integers aside: they set a type, which the text of a literal does not show."""
    tree = parse_expression(form)
    assert parse_expression(str(tree)) == tree
