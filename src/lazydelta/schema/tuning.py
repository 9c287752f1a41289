"""Limits on untrusted schemas."""

from __future__ import annotations

MAX_DEPTH = 100
"""Levels of nesting of a type; the parsers recurse, and no real schema is this deep."""

MAX_FIELDS = 100_000
"""Fields of one schema; stops a hostile `schemaString` before it fills memory."""
