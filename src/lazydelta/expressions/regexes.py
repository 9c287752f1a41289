"""Regular expressions that Java, which Spark uses, and RE2, which Arrow uses, read alike.

Only such patterns are accepted: plain characters, classes of them, groups, repetitions, anchors.
Strings with line ends fail, because the two disagree about what ends a line.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lazydelta.expressions.coercion import STRING
from lazydelta.schema.values import build_array

__all__ = [
    "has_group",
    "is_regex",
    "is_replacement",
    "named_groups",
    "never_empty",
    "re2_replacement",
]

_ANY_STRING = build_array([""], STRING)
_PART = re.compile(
    r"[^\\\[\](){}?*+|^$.]|\\[dDwWsS.\\|(){}\[\]*+?^$/-]|\[\^?(?:[^\\\[\]&]|\\[dws.\\\]\[^-])+\]"
    r"|\((?!\?)|\(\?:|\)|[|^.$]|(?:[*+?]|\{\d{1,3}(?:,\d{0,3})?\})\??"
)
_REGEX = re.compile(rf"(?:{_PART.pattern})*")
_REPLACEMENT = re.compile(r"\$(\d)|\\(.)|([^$\\])", re.DOTALL)


@lru_cache(maxsize=256)
def is_regex(pattern: Any) -> bool:
    """Whether a pattern means the same to Java and to RE2."""
    if not isinstance(pattern, str) or "&&" in pattern or not _REGEX.fullmatch(pattern):
        return False
    try:
        pc.match_substring_regex(_ANY_STRING, pattern)
    except pa.ArrowInvalid:
        return False
    return True


def never_empty(pattern: Any) -> bool:
    """Whether a pattern never matches an empty string: Java and RE2 repeat that differently.

    Without assertions other than anchors, it does if it matches somewhere in "".
    """
    return is_regex(pattern) and not pc.match_substring_regex(_ANY_STRING, pattern)[0].as_py()


def has_group(pattern: Any, group: Any) -> bool:
    """Whether a pattern has a group of this number; 0 is the whole match."""
    if not is_regex(pattern) or group is None:
        return False
    return 0 <= group <= _PART.findall(pattern).count("(")


def named_groups(pattern: str) -> str:
    """Return the pattern with names g0 (the whole), g1... for its groups, as Arrow needs them."""
    count = 0
    parts = []
    for part in _PART.findall(pattern):
        count += part == "("
        parts.append(f"(?P<g{count}>" if part == "(" else part)
    return f"(?P<g0>{''.join(parts)})"


def is_replacement(pattern: Any, new: Any) -> bool:
    """Whether a replacement string, in Java's syntax, refers to groups that the pattern has."""
    if not isinstance(new, str):
        return False
    groups = [match[1] for match in _REPLACEMENT.finditer(new) if match[1]]
    # Java reads as many digits as there are groups; a digit behind a group is left alone here.
    clear = re.search(r"\$\d\d", new) is None
    whole = "".join(match[0] for match in _REPLACEMENT.finditer(new)) == new
    return whole and clear and all(has_group(pattern, int(group)) for group in groups)


def re2_replacement(new: str) -> str:
    """Return a replacement string of Java in the syntax of RE2."""

    def converted(match: re.Match[str]) -> str:
        if match[1]:
            return f"\\{match[1]}"
        plain = match[2] or match[3]
        return "\\\\" if plain == "\\" else plain

    return _REPLACEMENT.sub(converted, new)
