"""Footer templates: validate a struct by a regular expression, in a tenth of the time.

Writers write the same fields for each column of each row group, with other integers and strings. A
template keeps the validated parts of a struct literally and accepts any integers and strings for
the rest, so whatever matches it is as valid as the struct it was compiled from.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from lazydelta.parquet import tuning
from lazydelta.parquet.footer.thrift import BINARY, INTEGERS, LIST, STRUCT, Reader

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["FixedParts", "FooterTemplates"]

_VARINT = rb"[\x80-\xff]*[\x00-\x7f]"
_LONG_LENGTH = 128
"""Lengths from here on take more than one byte."""

Path = tuple[int, ...]
"""Field numbers, from a struct down."""


class FixedParts(NamedTuple):
    """What must be equal in all structs of a template, besides fields and lengths of lists."""

    integers: Collection[Path]
    """Paths of integers with a fixed value."""
    lengths: Collection[Path]
    """Paths of strings with a fixed length."""


class FooterTemplates:
    """Templates of structs of one kind."""

    def __init__(self, fixed: FixedParts) -> None:
        self._fixed = fixed
        self._templates: list[list[re.Pattern[bytes]]] = []
        self._misses = 0

    def end_of(self, data: bytes, position: int) -> int | None:
        """Return the end of a struct that matches a template; None if it matches none."""
        for parts in self._templates:
            end = _match(parts, data, position)
            if end is not None:
                return end
        return None

    def add(self, data: bytes, position: int) -> None:
        """Count a valid struct that matches no template; compile one after some of them."""
        self._misses += 1
        is_due = self._misses % tuning.TEMPLATE_MISSES == 0
        if is_due and len(self._templates) < tuning.MAX_TEMPLATES:
            compiler = _Compiler(data, position, self._fixed)
            compiler.add_struct()
            self._templates.append([re.compile(part, re.DOTALL) for part in compiler.parts])


def _match(parts: list[re.Pattern[bytes]], data: bytes, position: int) -> int | None:
    """Return the end of a struct that matches; between two parts is a string of any length."""
    match = parts[0].match(data, position)
    for part in parts[1:]:
        if match is None:
            return None
        position = match.end()
        if position >= len(data) or data[position] >= _LONG_LENGTH:
            return None
        match = part.match(data, position + 1 + data[position])
    return None if match is None else match.end()


class _Compiler(Reader):
    """Makes regular expressions of a struct: one before, between and after its strings."""

    __slots__ = ("_fixed", "parts")

    def __init__(self, data: bytes, position: int, fixed: FixedParts) -> None:
        super().__init__(data, position)
        self._fixed = fixed
        self.parts = [b""]

    def add_struct(self, path: Path = ()) -> None:
        number, kind = 0, STRUCT
        while kind:
            start = self.position
            number, kind = self.field(number)
            self._add_literal(start)
            if kind:
                self._add(kind, (*path, number))

    def _add(self, kind: int, path: Path) -> None:
        start = self.position
        if kind == STRUCT:
            self.add_struct(path)
        elif kind == LIST:
            count, inner = self.list_size()
            self._add_literal(start)
            for _ in range(count):
                self._add(inner, path)
        elif kind == BINARY and path not in self._fixed.lengths:
            self.skip(kind)
            self.parts.append(b"")
        elif kind == BINARY:
            length = self.size()
            self._add_literal(start)
            self.position += length
            self.parts[-1] += b".{%d}" % length
        elif kind in INTEGERS and path not in self._fixed.integers:
            self.skip(kind)
            self.parts[-1] += _VARINT
        else:
            self.skip(kind)
            self._add_literal(start)

    def _add_literal(self, start: int) -> None:
        self.parts[-1] += re.escape(self.data[start : self.position])
