"""Validate Parquet footers before pyarrow parses them: it aborts the process on some invalid ones.

pyarrow aborts on an unknown codec, and on statistics that do not have the column's type (ADR
0032). Such footers are refused, and so are ambiguous ones, in which a field is repeated or has
another type: two readers would read two things. Truncated bounds are removed from the footer, as
rows can be read without them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from lazydelta.parquet import tuning
from lazydelta.parquet.footer.footer_templates import FixedParts, FooterTemplates
from lazydelta.parquet.footer.thrift import (
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
from lazydelta.parquet.native import is_valid_footer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["validate_footer"]

_WIDTHS = (1, 4, 8, 12, 4, 8, 0, 0)
"""Bytes of a value by physical type; 0 if the type does not define it."""
_BYTE_ARRAY, _FIXED = 6, 7
_REPEATED = 2
_CODECS = range(8)
_LAST_FIELD = 2**15 - 1

# Structs of parquet.thrift: the type of each field by its number; a dict is a struct that is
# validated, a list has the type of its elements. Fields that are missing may be of any type.
_Shape = dict[int, Any]
_STATISTICS: _Shape = {  # 1, 2, 5, 6 are bounds
    1: BINARY, 2: BINARY, 3: I64, 4: I64, 5: BINARY, 6: BINARY, 7: BOOL, 8: BOOL, 9: I64,
}  # fmt: skip
_SIZES: _Shape = {
    1: I64,
    2: [I64],
    3: [I64],
}  # of strings; values by repetition and definition level
_DETAILS: _Shape = {  # 1 is the type, 4 the codec
    1: I32, 2: [I32], 3: [BINARY], 4: I32, 5: I64, 6: I64, 7: I64, 8: [STRUCT], 9: I64, 10: I64,
    11: I64, 12: _STATISTICS, 13: [STRUCT], 14: I64, 15: I32, 16: _SIZES, 17: {1: STRUCT, 2: [I32]},
}  # fmt: skip
_CHUNK: _Shape = {  # 8 is its encryption
    1: BINARY, 2: I64, 3: _DETAILS, 4: I64, 5: I32, 6: I64, 7: I32, 8: STRUCT, 9: BINARY,
}  # fmt: skip
_CHUNKS = [_CHUNK]
_ROW_GROUP: _Shape = {1: _CHUNKS, 2: I64, 3: I64, 4: [STRUCT], 5: I64, 6: I64, 7: I16}
_ELEMENT: _Shape = dict.fromkeys(range(1, 10), I32) | {4: BINARY, 10: STRUCT}  # see `_leaf_types`
_SCHEMA = [_ELEMENT]
_FILE: _Shape = {
    1: I32, 2: _SCHEMA, 3: I64, 4: [_ROW_GROUP], 5: [STRUCT], 6: BINARY, 7: [STRUCT],
    8: STRUCT, 9: BINARY,
}  # fmt: skip
_MISTYPED = "its footer has a field or list of the wrong type"
_MISNUMBERED = "its footer has a repeated field, or an invalid field number"
_VALIDATED = frozenset({(3, 1), (3, 4)})
"""Integers of a chunk that are validated: type and codec."""
_BOUNDS = frozenset({(3, 12, 1), (3, 12, 2), (3, 12, 5), (3, 12, 6)})
_POSITION = 0
"""Not a field number: the start and end of the struct itself."""


class _LeafType(NamedTuple):
    """The type of a leaf column."""

    physical: int
    width: int
    """Bytes of a value; 0 if they vary."""
    repetition_levels: int
    definition_levels: int


def validate_footer(data: bytes) -> bytes:
    """Return a footer that is safe for pyarrow: mostly the same, rarely without truncated bounds.

    Raises:
        ThriftError: It is invalid.
    """
    if is_valid_footer(data):
        return data
    validator = _Validator(data)
    try:
        validator.struct_of(_FILE)
    except IndexError:
        raise ThriftError("its footer is truncated") from None
    return without_fields(data, validator.truncated) if validator.truncated else data


def _leaf_types(elements: Iterable[_Shape]) -> Iterator[_LeafType]:
    """Yield the leaf columns of a schema, which is in depth-first order.

    Fields of an element: 1 is the type, 2 the length of values, 3 the repetition, and 5 the number
    of children.
    """
    around: list[tuple[int, int, int]] = []  # children still expected, and their levels
    for position, element in enumerate(elements):
        physical, length, repetition, children = (element.get(f, 0) for f in (1, 2, 3, 5))
        left, repetitions, definitions = around.pop() if around else (1 - position, 1, 1)
        if left < 1 or children < 0 or physical not in range(8) or repetition not in range(3):
            raise ThriftError("its schema is invalid")
        if position:
            around.append((left - 1, repetitions, definitions))
            repetitions += repetition == _REPEATED
            definitions += repetition > 0
        if position and children == 0 and 1 in element:
            if physical == _FIXED and length < 1:
                raise ThriftError("its schema has a fixed-length type without a length")
            width = length if physical == _FIXED else _WIDTHS[physical]
            yield _LeafType(physical, width, repetitions, definitions)
        else:
            around.append((children, repetitions, definitions))
        while around and not around[-1][0]:
            around.pop()
        if len(around) > tuning.MAX_SCHEMA_DEPTH:
            raise ThriftError(f"its schema is more than {tuning.MAX_SCHEMA_DEPTH} levels deep")
    if around:
        raise ThriftError("its schema is truncated")


@lru_cache(maxsize=256)
def _chunk_templates(leaf: _LeafType) -> FooterTemplates:
    """Return the templates of chunks of such columns, shared by all files."""
    return FooterTemplates(FixedParts(_VALIDATED, _BOUNDS if leaf.width else ()))


def _chunk_error(chunk: _Shape, leaf: _LeafType) -> str | None:
    """Return what is wrong with a column chunk; None if it is valid."""
    details = chunk.get(3, {})
    sizes, error = details.get(16, {}), None
    if 8 in chunk:
        error = "is encrypted"
    elif not details:
        error = "has no metadata"
    elif details.get(1) != leaf.physical:
        error = "has two types"
    elif (codec := details.get(4)) not in _CODECS:
        error = f"has the unknown codec {codec}"
    elif 1 in sizes and leaf.physical != _BYTE_ARRAY:
        error = "has string lengths, but no strings"
    elif sizes.get(2, 0) not in (0, leaf.repetition_levels):
        error = "has another number of repetition levels than its schema"
    elif sizes.get(3, 0) not in (0, leaf.definition_levels):
        error = "has another number of definition levels than its schema"
    elif _invalid_lengths(details, leaf) and not _is_truncated(details, leaf):
        error = "has bounds that are not of its type"
    return error


def _invalid_lengths(details: _Shape, leaf: _LeafType) -> set[int]:
    """Return the lengths of bounds that no value of the type has."""
    statistics = details.get(12, {})
    lengths = {statistics[number] for number in (1, 2, 5, 6) if number in statistics}
    return lengths - {leaf.width} if leaf.width else set()


def _is_truncated(details: _Shape, leaf: _LeafType) -> bool:
    """Whether bounds are shorter than a value: fixed-length ones may be, others only if empty."""
    lengths = _invalid_lengths(details, leaf)
    return bool(lengths) and max(lengths) < (leaf.width if leaf.physical == _FIXED else 1)


class _Validator(Reader):
    """Reads structs strictly: every field once, and of its type.

    Of strings and lists it returns the length. 64-bit integers are skipped.

    Args:
        data: The footer.
    """

    __slots__ = ("_leaves", "truncated")

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self._leaves: list[_LeafType] | None = None
        self.truncated: list[tuple[int, int, int]] = []
        """Start, end and field number of statistics with truncated bounds."""

    def struct_of(self, shape: _Shape) -> dict[int, Any]:
        """Return the fields of a struct by number; None for values that are not validated."""
        data, position, number = self.data, self.position, 0
        fields: dict[int, Any] = {}
        while kind := data[position] & 15:
            start, step = position, data[position] >> 4
            position += 1
            if step:
                number += step
            else:
                number, position = self._long_form(number, position)
            expected, byte = shape.get(number), data[position]
            if kind == I64 == expected:  # most fields are
                fields[number] = None
                while data[position] > 127:
                    position += 1
                position += 1
            elif kind == BINARY == expected and byte < 128:
                fields[number] = byte
                position += 1 + byte
            elif kind == I32 == expected and byte < 128:
                fields[number] = byte >> 1 ^ -(byte & 1)
                position += 1
            else:
                self.position = position
                fields[number] = value = self._value_of(expected, kind)
                position = self.position
                if value.__class__ is dict:
                    value[_POSITION] = start, position
        if number > _LAST_FIELD:
            raise ThriftError(_MISNUMBERED)
        self.position = position + 1
        return fields

    def _long_form(self, last: int, position: int) -> tuple[int, int]:
        """Return a field number in long form, and the position of the value."""
        self.position = position
        number = self.number()
        if number <= last:
            raise ThriftError(_MISNUMBERED)
        return number, self.position

    def _value_of(self, expected: Any, kind: int) -> Any:
        if kind == STRUCT and expected.__class__ is dict:
            return self.struct_of(expected)
        if kind == LIST and expected is _SCHEMA:
            self._leaves = list(_leaf_types(self._structs(_ELEMENT)))
            return None
        if kind == LIST and expected.__class__ is list:
            return self._chunks() if expected is _CHUNKS else self._list_of(expected[0])
        if expected is not None and expected != (BOOL if kind == FALSE else kind):
            raise ThriftError(_MISTYPED)
        if kind == I32:
            return self.number()
        if kind == BINARY:
            size = self.size()
            self.position += size
            return size
        self.skip(kind)
        return None

    def _list_of(self, expected: Any) -> int:
        """Skip a list; return its length."""
        if expected.__class__ is dict:
            return sum(1 for _ in self._structs(expected))
        count, kind = Reader(self.data, self.position).list_size()
        if count and kind != expected:
            raise ThriftError(_MISTYPED)
        self.skip(LIST)
        return count

    def _structs(self, shape: _Shape) -> Iterator[_Shape]:
        """Yield the structs of a list, one at a time: a hostile one may be very long."""
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
        for index, leaf in enumerate(leaves):
            templates, start = _chunk_templates(leaf), self.position
            end = templates.end_of(self.data, start)
            if end is not None:
                self.position = end
                continue
            chunk = self.struct_of(_CHUNK)
            if (error := _chunk_error(chunk, leaf)) is not None:
                raise ThriftError(f"column {_leaf_path(self.data, index)!r} {error}")
            if _is_truncated(chunk[3], leaf):
                self.truncated.append((*chunk[3][12][_POSITION], 12))
            else:
                templates.add(self.data, start)


def _leaf_path(data: bytes, leaf: int) -> str:
    """Return the path of a leaf column."""
    around: list[tuple[int, str]] = []  # children still expected, and the name
    paths = []
    for element in Reader(data).struct()[2][1:]:
        name, children = str(element.get(4, b""), errors="replace"), element.get(5, 0)
        if children:
            around.append((children, name))
            continue
        paths.append(".".join([*(outer for _, outer in around), name]))
        while around and around[-1][0] == 1:
            around.pop()
        if around:
            around[-1] = around[-1][0] - 1, around[-1][1]
    return paths[leaf]
