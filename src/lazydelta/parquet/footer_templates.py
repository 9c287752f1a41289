"""Structs that are like one that was looked at: told by a pattern, at a tenth of the time.

Writers write the same fields for each column of each row group, with other numbers and texts. A
pattern has what was looked at as it stands, and the rest as any numbers and texts: what matches is
as sound as the struct that it was made of. It is made where there are many.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from lazydelta.parquet.thrift import BINARY, INTEGERS, LIST, STRUCT, Reader

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["FooterTemplates", "Kept"]

_NUMBER = rb"[\x80-\xff]*[\x00-\x7f]"
_SHORT = 128
_WORTH = 16
"""To make a pattern takes as long as to look at thirty structs."""
_MOST = 8

Path = tuple[int, ...]
"""Numbers of fields, from a struct down."""


class Kept(NamedTuple):
    """What of a struct must be the same in another."""

    values: Collection[Path]
    """Numbers."""
    lengths: Collection[Path]
    """Of texts, whatever they are."""


class FooterTemplates:
    """Patterns of structs of one kind.

    Args:
        kept: What all that match one have in common, besides their fields and lengths of lists.
    """

    def __init__(self, kept: Kept) -> None:
        self._kept = kept
        self._known: list[list[re.Pattern[bytes]]] = []
        self._unlike = 0

    def end_of(self, data: bytes, at: int) -> int | None:
        """Return where a struct ends that is like one before; None if it is not."""
        for parts in self._known:
            end = _matched(parts, data, at)
            if end is not None:
                return end
        return None

    def add(self, data: bytes, at: int) -> None:
        """Note that there is a sound struct that is not like those before."""
        self._unlike += 1
        if self._unlike % _WORTH == 0 and len(self._known) < _MOST:
            made = _Maker(data, at, self._kept)
            made.add_struct()
            self._known.append([re.compile(part, re.DOTALL) for part in made.parts])


def _matched(parts: list[re.Pattern[bytes]], data: bytes, at: int) -> int | None:
    """Return where a struct ends that matches; between two parts is a text of some length."""
    found = parts[0].match(data, at)
    for part in parts[1:]:
        if found is None:
            return None
        at = found.end()
        if at >= len(data) or data[at] >= _SHORT:
            return None
        found = part.match(data, at + 1 + data[at])
    return None if found is None else found.end()


class _Maker(Reader):
    """Goes through a struct and makes patterns of it, one before, between and after texts."""

    __slots__ = ("_kept", "parts")

    def __init__(self, data: bytes, at: int, kept: Kept) -> None:
        super().__init__(data, at)
        self._kept = kept
        self.parts = [b""]

    def add_struct(self, path: Path = ()) -> None:
        number, kind = 0, STRUCT
        while kind:
            start = self.at
            number, kind = self.field(number)
            self._as_it_stands(start)
            if kind:
                self._add(kind, (*path, number))

    def _add(self, kind: int, path: Path) -> None:
        start = self.at
        if kind == STRUCT:
            self.add_struct(path)
        elif kind == LIST:
            count, inner = self.list_size()
            self._as_it_stands(start)
            for _ in range(count):
                self._add(inner, path)
        elif kind == BINARY and path not in self._kept.lengths:
            self.skip(kind)
            self.parts.append(b"")
        elif kind == BINARY:
            length = self.size()
            self._as_it_stands(start)
            self.at += length
            self.parts[-1] += b".{%d}" % length
        elif kind in INTEGERS and path not in self._kept.values:
            self.skip(kind)
            self.parts[-1] += _NUMBER
        else:
            self.skip(kind)
            self._as_it_stands(start)

    def _as_it_stands(self, start: int) -> None:
        self.parts[-1] += re.escape(self.data[start : self.at])
