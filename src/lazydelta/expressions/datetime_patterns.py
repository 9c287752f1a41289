"""Datetime patterns as Java's DateTimeFormatter reads them: the common letters, in English.

`can_format` and `can_parse` say which patterns are supported; others are refused. The kernels in
`kernels.datetime_formats` use the fields.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import Any

__all__ = ["DEFAULT_FORMAT", "can_format", "can_parse", "format_fields"]

DEFAULT_FORMAT = "yyyy-MM-dd HH:mm:ss"
"""Of `from_unixtime`."""
_TOKEN = re.compile(r"([A-Za-z])\1*|'((?:[^']|'')*)'|([^A-Za-z'#{}\[\]])")
_FORMATTED = frozenset(
    {
        *("y", "yy", "yyyy", "M", "MM", "MMM", "MMMM", "d", "dd", "D", "DDD", "H", "HH", "h", "hh"),
        *("m", "mm", "s", "ss", "S", "SS", "SSS", "SSSS", "SSSSS", "SSSSSS", "a"),
        *("E", "EE", "EEE", "EEEE"),
    }
)
_PARSED = _FORMATTED - {"y", "D", "DDD", "E", "EE", "EEE", "EEEE"}
_VARIABLE = frozenset({"M", "d", "H", "h", "m", "s", "S", "SS", "SSS", "SSSS", "SSSSS", "SSSSSS"})
"""Numbers of one or two digits, or more."""


@lru_cache(maxsize=256)
def format_fields(pattern: str) -> tuple[tuple[str, bool], ...] | None:
    """Return the letters of a pattern and its literal strings (False); None if it is malformed."""
    fields, position = [], 0
    while position < len(pattern):
        match = _TOKEN.match(pattern, position)
        if match is None:
            return None
        if match[1]:
            fields.append((match[0], True))
        else:
            quoted = "'" if match[0] == "''" else (match[2] or "").replace("''", "'")
            fields.append((match[3] or quoted, False))
        position = match.end()
    return tuple(fields)


def can_format(pattern: Any) -> bool:
    """Whether dates and timestamps can be formatted with a pattern."""
    fields = format_fields(pattern) if isinstance(pattern, str) else None
    return fields is not None and all(
        field in _FORMATTED for field, is_letter in fields if is_letter
    )


def can_parse(pattern: Any) -> bool:
    """Whether strings can be parsed with a pattern: each field once, none of them ambiguous."""
    fields = format_fields(pattern) if isinstance(pattern, str) else None
    if not fields:
        return False
    letters = [field for field, is_letter in fields if is_letter]
    kinds = [field[0] for field in letters]
    joined = any(a[1] and b[1] and a[0] in _VARIABLE for a, b in pairwise(fields))
    half_day = ("h" in kinds) == ("a" in kinds) and not {"h", "H"} <= set(kinds)
    unique = len(set(kinds)) == len(kinds)
    return all(field in _PARSED for field in letters) and not joined and half_day and unique
