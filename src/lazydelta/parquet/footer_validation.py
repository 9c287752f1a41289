"""Footers that pyarrow survives: what they say of columns, looked at before pyarrow is asked.

pyarrow refuses a footer that it cannot parse, but ends the process over some that it can: asked
for a column, it does not expect an unknown codec, nor statistics that are not of the column's type
(ADR 0032). Such footers are refused here, and so are those of which two readers read two things,
because a field is there twice or not of its type. Bounds that a writer cut off are left out of the
footer: rows can be had without them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from lazydelta.parquet.footer_templates import FooterTemplates, Kept
from lazydelta.parquet.native import is_valid_footer
from lazydelta.parquet.thrift import (
    BINARY,
    BOOL,
    FALSE,
    I16,
    I32,
    I64,
    LIST,
    STRUCT,
    Reader,
    ThriftError,
    without_fields,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["validate_footer"]

_WIDTHS = (1, 4, 8, 12, 4, 8, 0, 0)
"""Bytes of a value, by type; 0 where the type does not say."""
_TEXTS, _FIXED = 6, 7
_REPEATED = 2
_DEEPEST = 100
"""Structs, lists and maps in each other; pyarrow has no use for more, or does not survive them."""
_CODECS = range(8)
_LAST_NUMBER = 2**15 - 1

# Structs as `parquet.thrift` has them: the type of each field by its number; a dict is a struct
# that is looked into, a list holds what is in it. Fields that are not here may be of any type.
_Shape = dict[int, Any]
_STATISTICS: _Shape = {  # 1, 2, 5, 6 are bounds
    1: BINARY, 2: BINARY, 3: I64, 4: I64, 5: BINARY, 6: BINARY, 7: BOOL, 8: BOOL, 9: I64,
}  # fmt: skip
_SIZES: _Shape = {1: I64, 2: [I64], 3: [I64]}  # of texts; values by level of repetition, definition
_DETAILS: _Shape = {  # 1 is the type, 4 the codec
    1: I32, 2: [I32], 3: [BINARY], 4: I32, 5: I64, 6: I64, 7: I64, 8: [STRUCT], 9: I64, 10: I64,
    11: I64, 12: _STATISTICS, 13: [STRUCT], 14: I64, 15: I32, 16: _SIZES, 17: {1: STRUCT, 2: [I32]},
}  # fmt: skip
_CHUNK: _Shape = {  # 8 is how it is encrypted
    1: BINARY, 2: I64, 3: _DETAILS, 4: I64, 5: I32, 6: I64, 7: I32, 8: STRUCT, 9: BINARY,
}  # fmt: skip
_CHUNKS = [_CHUNK]
_ROW_GROUP: _Shape = {1: _CHUNKS, 2: I64, 3: I64, 4: [STRUCT], 5: I64, 6: I64, 7: I16}
_ELEMENT: _Shape = dict.fromkeys(range(1, 10), I32) | {4: BINARY, 10: STRUCT}  # see `_leaves_of`
_SCHEMA = [_ELEMENT]
_FILE: _Shape = {
    1: I32, 2: _SCHEMA, 3: I64, 4: [_ROW_GROUP], 5: [STRUCT], 6: BINARY, 7: [STRUCT],
    8: STRUCT, 9: BINARY,
}  # fmt: skip
_MISTYPED = "its footer has a field or a list that is not of its type"
_MISNUMBERED = "its footer has a field twice, or one of an unusual number"
_LOOKED_AT = frozenset({(3, 1), (3, 4)})
"""Numbers of a chunk that are: type and codec."""
_BOUNDS = frozenset({(3, 12, 1), (3, 12, 2), (3, 12, 5), (3, 12, 6)})
_PLACE = 0
"""No field has that number: where the struct that it is found in begins and ends."""


class _Kind(NamedTuple):
    """What can be said of a column depends on that."""

    number: int
    """Of its type."""
    width: int
    """Bytes of a value; 0 if not all have the same."""
    repetitions: int
    """How many levels there are."""
    definitions: int


def validate_footer(data: bytes) -> bytes:
    """Return a footer that pyarrow can be asked about: this one, but for few files.

    Raises:
        ThriftError: It makes no sense.
    """
    if is_valid_footer(data):
        return data
    look = _Look(data)
    try:
        look.struct_of(_FILE)
    except IndexError:
        raise ThriftError("its footer is cut off") from None
    return without_fields(data, look.cut_off) if look.cut_off else data


def _leaves_of(elements: Iterable[_Shape]) -> Iterator[_Kind]:
    """Yield the leaf columns of a schema, which has each element before those inside of it.

    Of an element, 1 is the type, 2 the length of values, 3 whether it is null or repeated, and 5
    how many are inside of it.
    """
    around: list[tuple[int, int, int]] = []  # how many are to come, and the levels there
    for at, element in enumerate(elements):
        number, length, repeated, inside = (element.get(field, 0) for field in (1, 2, 3, 5))
        left, repetitions, definitions = around.pop() if around else (1 - at, 1, 1)
        if left < 1 or inside < 0 or number not in range(8) or repeated not in range(3):
            raise ThriftError("its schema makes no sense")
        if at:
            around.append((left - 1, repetitions, definitions))
            repetitions += repeated == _REPEATED
            definitions += repeated > 0
        if at and inside == 0 and 1 in element:
            if number == _FIXED and length < 1:
                raise ThriftError("its schema has values of no length")
            width = length if number == _FIXED else _WIDTHS[number]
            yield _Kind(number, width, repetitions, definitions)
        else:
            around.append((inside, repetitions, definitions))
        while around and not around[-1][0]:
            around.pop()
        if len(around) > _DEEPEST:
            raise ThriftError(f"its schema is more than {_DEEPEST} levels deep")
    if around:
        raise ThriftError("its schema is cut off")


@lru_cache(maxsize=256)
def _skeletons(kind: _Kind) -> FooterTemplates:
    """Return what tells chunks of such columns that are like others, whatever file they are in."""
    return FooterTemplates(Kept(_LOOKED_AT, _BOUNDS if kind.width else ()))


def _wrong(chunk: _Shape, kind: _Kind) -> str | None:
    """Return what makes no sense in what is said of a column; None if all does."""
    details = chunk.get(3, {})
    sizes, wrong = details.get(16, {}), None
    if 8 in chunk:
        wrong = "is encrypted"
    elif not details:
        wrong = "is not described"
    elif details.get(1) != kind.number:
        wrong = "is of two types"
    elif (codec := details.get(4)) not in _CODECS:
        wrong = f"has codec {codec}, which nobody knows"
    elif 1 in sizes and kind.number != _TEXTS:
        wrong = "has lengths of texts, but no texts"
    elif sizes.get(2, 0) not in (0, kind.repetitions):
        wrong = "has other levels of repetition than it says"
    elif sizes.get(3, 0) not in (0, kind.definitions):
        wrong = "has other levels of definition than it says"
    elif _odd_lengths(details, kind) and not _are_cut_off(details, kind):
        wrong = "has bounds that are not of its type"
    return wrong


def _odd_lengths(details: _Shape, kind: _Kind) -> set[int]:
    """Return lengths of bounds that values do not have."""
    statistics = details.get(12, {})
    lengths = {statistics[number] for number in (1, 2, 5, 6) if number in statistics}
    return lengths - {kind.width} if kind.width else set()


def _are_cut_off(details: _Shape, kind: _Kind) -> bool:
    """Whether bounds are shorter than a value, as long ones may be, and empty ones of all types."""
    odd = _odd_lengths(details, kind)
    return bool(odd) and max(odd) < (kind.width if kind.number == _FIXED else 1)


class _Look(Reader):
    """Reads structs strictly: every field once, and of its type.

    What is looked at of texts and lists is how long they are. Numbers of 64 bits are passed over.

    Args:
        data: The footer.
    """

    __slots__ = ("_leaves", "cut_off")

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self._leaves: list[_Kind] | None = None
        self.cut_off: list[tuple[int, int, int]] = []
        """Where statistics begin and end whose bounds were cut off, and their number."""

    def struct_of(self, shape: _Shape) -> dict[int, Any]:
        """Return what is looked at of a struct by field number; None stands for what is not."""
        data, at, number = self.data, self.at, 0
        fields: dict[int, Any] = {}
        while kind := data[at] & 15:
            start, step = at, data[at] >> 4
            at += 1
            if step:
                number += step
            else:
                number, at = self._number_above(number, at)
            expected, byte = shape.get(number), data[at]
            if kind == I64 == expected:  # most fields are, and of no interest
                fields[number] = None
                while data[at] > 127:
                    at += 1
                at += 1
            elif kind == BINARY == expected and byte < 128:
                fields[number] = byte
                at += 1 + byte
            elif kind == I32 == expected and byte < 128:
                fields[number] = byte >> 1 ^ -(byte & 1)
                at += 1
            else:
                self.at = at
                fields[number] = value = self._value_of(expected, kind)
                at = self.at
                if value.__class__ is dict:
                    value[_PLACE] = start, at
        if number > _LAST_NUMBER:
            raise ThriftError(_MISNUMBERED)
        self.at = at + 1
        return fields

    def _number_above(self, last: int, at: int) -> tuple[int, int]:
        """Return a field's number that is no small step further, and where its value begins."""
        self.at = at
        number = self.number()
        if number <= last:
            raise ThriftError(_MISNUMBERED)
        return number, self.at

    def _value_of(self, expected: Any, kind: int) -> Any:
        if kind == STRUCT and expected.__class__ is dict:
            return self.struct_of(expected)
        if kind == LIST and expected is _SCHEMA:
            self._leaves = list(_leaves_of(self._structs(_ELEMENT)))
            return None
        if kind == LIST and expected.__class__ is list:
            return self._chunks() if expected is _CHUNKS else self._list_of(expected[0])
        if expected is not None and expected != (BOOL if kind == FALSE else kind):
            raise ThriftError(_MISTYPED)
        if kind == I32:
            return self.number()
        if kind == BINARY:
            size = self.size()
            self.at += size
            return size
        self.skip(kind)
        return None

    def _list_of(self, expected: Any) -> int:
        """Pass over a list; return how many values it has."""
        if expected.__class__ is dict:
            return sum(1 for _ in self._structs(expected))
        count, kind = Reader(self.data, self.at).list_size()
        if count and kind != expected:
            raise ThriftError(_MISTYPED)
        self.skip(LIST)
        return count

    def _structs(self, shape: _Shape) -> Iterator[_Shape]:
        """Yield the structs of a list, one at a time: it may be hostile, and very long."""
        count, kind = self.list_size()
        if count and kind != STRUCT:
            raise ThriftError(_MISTYPED)
        for _ in range(count):
            yield self.struct_of(shape)

    def _chunks(self) -> None:
        leaves, (count, inner) = self._leaves, self.list_size()
        if leaves is None:
            raise ThriftError("its schema is missing")
        if count != len(leaves) or (count and inner != STRUCT):
            raise ThriftError(f"a row group has {count} columns, not {len(leaves)}")
        for place, kind in enumerate(leaves):
            skeletons, start = _skeletons(kind), self.at
            end = skeletons.end_of(self.data, start)
            if end is not None:
                self.at = end
                continue
            chunk = self.struct_of(_CHUNK)
            if (wrong := _wrong(chunk, kind)) is not None:
                raise ThriftError(f"column {_path_of(self.data, place)!r} {wrong}")
            if _are_cut_off(chunk[3], kind):
                self.cut_off.append((*chunk[3][12][_PLACE], 12))
            else:
                skeletons.add(self.data, start)


def _path_of(data: bytes, place: int) -> str:
    """Return the name of a leaf column, with those around it."""
    around: list[tuple[int, str]] = []  # how many are to come, and its name
    paths = []
    for element in Reader(data).struct()[2][1:]:
        name, inside = str(element.get(4, b""), errors="replace"), element.get(5, 0)
        if inside:
            around.append((inside, name))
            continue
        paths.append(".".join([*(outer for _, outer in around), name]))
        while around and around[-1][0] == 1:
            around.pop()
        if around:
            around[-1] = around[-1][0] - 1, around[-1][1]
    return paths[place]
