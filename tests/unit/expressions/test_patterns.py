from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lazydelta.errors import PredicateError
from lazydelta.expressions.nodes import after_prefix, fixed_prefix, to_regex


@pytest.mark.parametrize(
    ("pattern", "prefix", "after"),
    [
        ("ab%", "ab", "%"),
        ("ab", "ab", ""),
        ("a_c", "a", "?"),
        ("%", "", "%"),
        ("", "", ""),
        ("a\\%b%%", "a%b", "%"),
        ("a%b", "a", "?"),
        ("\\\\%", "\\", "%"),
        ("_", "", "?"),
    ],
)
def test_the_fixed_beginning(pattern, prefix, after):
    assert fixed_prefix(pattern, "\\") == (prefix, after)


@pytest.mark.parametrize("pattern", ["a\\", "\\a"])
def test_a_lost_escape_is_refused(pattern):
    with pytest.raises(PredicateError, match="must escape"):
        fixed_prefix(pattern, "\\")


@given(st.text(min_size=1), st.text())
def test_strings_with_a_prefix_are_between_it_and_its_successor(prefix, string):
    try:
        (prefix + string).encode()
    except UnicodeEncodeError:
        return
    end = after_prefix(prefix)
    assert string.startswith(prefix) == (prefix <= string and (end is None or string < end))
    assert end is None or prefix + string < end
    assert end is None or end.encode() > (prefix + string).encode()


def test_there_is_nothing_after_the_last_character():
    assert after_prefix("\U0010ffff") is None
    assert after_prefix("a\U0010ffff") == "b"
    assert after_prefix("\ud7ff") == "\ue000"


@given(st.text(alphabet="a.*\n\\%_é"), st.text(alphabet="a.*\n\\%_é"))
def test_the_regex_means_the_pattern(pattern, string):
    try:
        regex = to_regex(pattern, "\\")
    except PredicateError:
        return
    assert bool(re.match(regex.removesuffix("$") + r"\Z", string)) == _matches(pattern, string)


def _matches(pattern: str, string: str) -> bool:
    if not pattern:
        return not string
    if pattern[0] == "\\":
        return bool(string) and string[0] == pattern[1] and _matches(pattern[2:], string[1:])
    if pattern[0] == "%":
        return any(_matches(pattern[1:], string[at:]) for at in range(len(string) + 1))
    return bool(string) and pattern[0] in ("_", string[0]) and _matches(pattern[1:], string[1:])
