"""LIKE patterns: their fixed prefix, and their regular expression.

Strings are ordered by code point, which is also the order of their UTF-8 bytes.
"""

from __future__ import annotations

import re

from lazydelta.errors import PredicateError

__all__ = ["after_prefix", "fixed_prefix", "split_pattern", "to_regex"]

ANY = None
"""Stands for `%` in a split pattern; `_` is an empty string."""

_LAST = 0x10FFFF


def split_pattern(pattern: str, escape: str) -> list[str | None]:
    """Split a pattern into fixed characters, "" for each `_` and None for each `%`.

    Raises:
        PredicateError: The escape character precedes a character that it cannot escape.
    """
    parts: list[str | None] = []
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            escaped = next(characters, "")
            if escaped not in ("%", "_", escape) or not escaped:
                raise PredicateError(f"LIKE '{pattern}'", f"{escape!r} must escape %, _ or itself")
            parts.append(escaped)
        else:
            parts.append({"%": ANY, "_": ""}.get(character, character))
    return parts


def fixed_prefix(pattern: str, escape: str) -> tuple[str, str]:
    """Return the prefix of matching strings, and what follows: "" nothing, "%" any, "?" more."""
    parts = split_pattern(pattern, escape)
    fixed = 0
    while fixed < len(parts) and parts[fixed]:
        fixed += 1
    rest = parts[fixed:]
    after = "" if not rest else "%" if all(part is ANY for part in rest) else "?"
    return "".join(part for part in parts[:fixed] if part), after


def after_prefix(prefix: str) -> str | None:
    """Return the least string greater than all that begin with `prefix`; None if there is none.

    >>> after_prefix("ab")
    'ac'
    """
    for end in range(len(prefix), 0, -1):
        code = ord(prefix[end - 1]) + 1
        if code == 0xD800:
            code = 0xE000  # skip the surrogates
        if code <= _LAST:
            return prefix[: end - 1] + chr(code)
    return None


def to_regex(pattern: str, escape: str) -> str:
    """Return the pattern as a regular expression that matches whole strings."""
    parts = split_pattern(pattern, escape)
    body = "".join(".*" if p is ANY else re.escape(p) if p else "." for p in parts)
    return f"(?s)^{body}$"
