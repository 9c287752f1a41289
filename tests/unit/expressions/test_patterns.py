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
def test_texts_with_a_prefix_lie_between_it_and_the_next(prefix, text):
    try:
        (prefix + text).encode()
    except UnicodeEncodeError:
        return
    end = after_prefix(prefix)
    assert text.startswith(prefix) == (prefix <= text and (end is None or text < end))
    assert end is None or prefix + text < end
    assert end is None or end.encode() > (prefix + text).encode()


def test_there_is_nothing_after_the_last_character():
    assert after_prefix("\U0010ffff") is None
    assert after_prefix("a\U0010ffff") == "b"
    assert after_prefix("\ud7ff") == "\ue000"


@given(st.text(alphabet="a.*\n\\%_é"), st.text(alphabet="a.*\n\\%_é"))
def test_the_regex_means_the_pattern(pattern, text):
    try:
        regex = to_regex(pattern, "\\")
    except PredicateError:
        return
    assert bool(re.match(regex.removesuffix("$") + r"\Z", text)) == _matches(pattern, text)


def _matches(pattern: str, text: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "\\":
        return bool(text) and text[0] == pattern[1] and _matches(pattern[2:], text[1:])
    if pattern[0] == "%":
        return any(_matches(pattern[1:], text[at:]) for at in range(len(text) + 1))
    return bool(text) and pattern[0] in ("_", text[0]) and _matches(pattern[1:], text[1:])
