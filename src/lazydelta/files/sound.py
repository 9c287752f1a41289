"""Footers that pyarrow survives: what they say of columns, looked at before pyarrow is asked.

pyarrow refuses a footer that it cannot parse, but ends the process over some that it can: asked
for a column, it does not expect an unknown codec, nor statistics that are not of the column's type
(ADR 0032). Statistics that make no sense are left out of the footer, since rows can be had without
them; what else makes none is refused. So is a footer of which pyarrow reads something else than is
written: a list that says to hold other things than it must, or a field whose number is too large.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lazydelta.files.compiled import is_sound
from lazydelta.files.footer import leaf_columns
from lazydelta.files.structs import (
    BINARY,
    I32,
    I64,
    LIST,
    STRUCT,
    BadStructError,
    Reader,
    end_of,
    without_fields,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow.parquet as pq

__all__ = ["sound_footer"]

_TYPES = {
    "BOOLEAN": (0, 1), "INT32": (1, 4), "INT64": (2, 8), "INT96": (3, 12), "FLOAT": (4, 4),
    "DOUBLE": (5, 8), "BYTE_ARRAY": (6, 0), "FIXED_LEN_BYTE_ARRAY": (7, 0),
}  # fmt: skip
"""Number of a type, and bytes of a value; 0 where the type does not say."""
_TEXTS = 6
_CODECS = range(8)
_NUMBERS = range(1, 2**15)

_Shape = dict[int, tuple[int, int]]
"""Fields of a struct: the type of each, and of lists that of what they hold."""
_STRUCTS = (LIST, STRUCT)
_OTHER = (0, 0)
_ROW_GROUPS = 4
_FILE: _Shape = {2: _STRUCTS, _ROW_GROUPS: _STRUCTS, 5: _STRUCTS, 7: _STRUCTS}
_CHUNKS = 1
_ROW_GROUP: _Shape = {_CHUNKS: _STRUCTS, 4: _STRUCTS}
_DETAILS, _ENCRYPTION = 3, 8
_CHUNK: _Shape = {_DETAILS: (STRUCT, 0), _ENCRYPTION: (STRUCT, 0)}
_TYPE, _CODEC, _STATISTICS, _SIZES, _AREA = 1, 4, 12, 16, 17
_DETAIL: _Shape = {
    _TYPE: (I32, 0), 2: (LIST, I32), 3: (LIST, BINARY), _CODEC: (I32, 0), 8: _STRUCTS,
    _STATISTICS: (STRUCT, 0), 13: _STRUCTS, _SIZES: (STRUCT, 0), _AREA: (STRUCT, 0),
}  # fmt: skip
_BOUND: _Shape = dict.fromkeys((1, 2, 5, 6), (BINARY, 0))
_TEXT_BYTES, _REPETITIONS, _DEFINITIONS = 1, 2, 3
_SIZE: _Shape = {_TEXT_BYTES: (I64, 0), _REPETITIONS: (LIST, I64), _DEFINITIONS: (LIST, I64)}
_PLACE: _Shape = {2: (LIST, I32)}


class _Leaf(NamedTuple):
    """A leaf column, by the schema of the file."""

    path: str
    kind: int
    width: int
    """Bytes of a value; 0 if not all have the same."""
    levels: tuple[int, int]
    """How many there are of repetition and of definition."""


def sound_footer(data: bytes, metadata: pq.FileMetaData) -> bytes:
    """Return a footer that pyarrow can be asked about: this one, but for few files.

    Args:
        data: The footer.
        metadata: What pyarrow made of it.

    Raises:
        BadStructError: It makes no sense.
    """
    if is_sound(data):
        return data
    check = _Check(data, _leaves_of(metadata))
    try:
        check.file()
    except IndexError:
        raise BadStructError("its footer is cut off") from None
    return without_fields(data, check.senseless) if check.senseless else data


def _leaves_of(metadata: pq.FileMetaData) -> list[_Leaf]:
    columns, found = leaf_columns(metadata), []
    for leaf in map(columns.column, range(len(columns))):
        kind, width = _TYPES[leaf.physical_type]
        levels = leaf.max_repetition_level + 1, leaf.max_definition_level + 1
        found.append(_Leaf(leaf.path, kind, width or leaf.length, levels))
    return found


class _Check(Reader):
    """Goes through a footer once, and notes where what makes no sense begins and ends."""

    __slots__ = ("_leaves", "senseless")

    def __init__(self, data: bytes, leaves: Sequence[_Leaf]) -> None:
        super().__init__(data)
        self._leaves = leaves
        self.senseless: list[tuple[int, int, int]] = []

    def file(self) -> None:
        for number, _ in self._fields(_FILE):
            if number == _ROW_GROUPS:
                for _ in range(self.list_size()[0]):
                    self._row_group()
            else:
                self.skip(LIST)

    def _row_group(self) -> None:
        for number, _ in self._fields(_ROW_GROUP):
            if number == _CHUNKS:
                self._chunks(self.list_size()[0])
            else:
                self.skip(LIST)

    def _chunks(self, count: int) -> None:
        if count != len(self._leaves):
            raise BadStructError(f"a row group has {count} columns, not {len(self._leaves)}")
        for leaf in self._leaves:
            is_described = False
            for number, _ in self._fields(_CHUNK):
                if number == _ENCRYPTION:
                    raise BadStructError(f"column {leaf.path!r} is encrypted")
                self._details(leaf)
                is_described = True
            if not is_described:
                raise BadStructError(f"its footer does not describe column {leaf.path!r}")

    def _details(self, leaf: _Leaf) -> None:
        for number, start in self._fields(_DETAIL):
            if number in (_TYPE, _CODEC):
                self._check_number(number, leaf)
            elif number == _STATISTICS:
                self._note_unless(self._have_width(leaf.width), start, number)
            elif number == _SIZES:
                self._note_unless(self._are_sizes_of(leaf), start, number)
            elif number == _AREA:
                for _ in self._fields(_PLACE):
                    self.skip(LIST)
            else:
                self.skip(LIST)

    def _check_number(self, number: int, leaf: _Leaf) -> None:
        value = self.number()
        if number == _TYPE and value != leaf.kind:
            raise BadStructError(f"column {leaf.path!r} is of two types")
        if number == _CODEC and value not in _CODECS:
            raise BadStructError(f"column {leaf.path!r} has codec {value}, which nobody knows")

    def _note_unless(self, is_sound: bool, start: int, number: int) -> None:
        if not is_sound:
            self.senseless.append((start, self.at, number))

    def _have_width(self, width: int) -> bool:
        """Pass over statistics; return whether their bounds are as long as values are."""
        found = True
        for _ in self._fields(_BOUND):
            start = self.at
            found &= not width or self.size() == width
            self.at = start
            self.skip(BINARY)
        return found

    def _are_sizes_of(self, leaf: _Leaf) -> bool:
        """Pass over sizes; return whether a column can have such: texts, and so many levels."""
        found = True
        for number, _ in self._fields(_SIZE):
            if number == _TEXT_BYTES:
                found &= leaf.kind == _TEXTS
                self.skip(I64)
                continue
            start = self.at
            found &= self.list_size()[0] in (0, leaf.levels[number - _REPETITIONS])
            self.at = start
            self.skip(LIST)
        return found

    def _fields(self, shape: _Shape) -> Iterator[tuple[int, int]]:
        """Yield number and beginning of those fields of a struct that are in its shape.

        Whoever asks passes over their values.
        """
        data, at, number = self.data, self.at, 0
        while kind := data[at] & 15:
            start, step = at, data[at] >> 4
            at += 1
            number += step
            if not step:
                self.at = at
                number = self.number()
                at = self.at
            if number not in _NUMBERS:
                raise BadStructError("its footer has a field of an unusual number")
            expected, inner = shape.get(number, _OTHER)
            if kind != expected:
                at = end_of(kind, data, at)
                continue
            if inner and data[at] >> 4 and data[at] & 15 != inner:
                raise BadStructError("its footer has a list of other things than it should hold")
            self.at = at
            yield number, start
            at = self.at
        self.at = at + 1
