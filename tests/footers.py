"""Mutations of Parquet footers, one for every field.

Shares no code with the footer parser under test.
"""

from __future__ import annotations

from itertools import islice

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
INTEGERS = (I16, I32, I64)
NUMBERS = (-1, 0, 1, 2, 3, 5, 6, 7, 8, 14, 2**31 - 1, -(2**31), 2**32, 2**62)
OF_ANOTHER_TYPE = {
    I32: (I64, 1), I64: (I32, 1), BINARY: (I32, 1), LIST: (BINARY, b"ab"), STRUCT: (BINARY, b"ab"),
    TRUE: (FALSE, None), FALSE: (TRUE, None), BYTE: (I32, 1), I16: (I32, 1), DOUBLE: (I64, 1),
}  # fmt: skip


class Node:
    """A Thrift value: a number, bytes, struct fields (id and node), or list elements."""

    def __init__(self, kind, value, inner=0):
        self.kind = kind
        self.value = value
        self.inner = inner
        """The element type of a list."""

    def __getitem__(self, at):
        """Return a struct field by id, or a list element by index."""
        return self.value[self.place(at)] if self.kind == LIST else self.value[self.place(at)][1]

    def place(self, at):
        return at if self.kind == LIST else self.numbers.index(at)

    @property
    def numbers(self):
        """Ids of the struct fields."""
        return [number for number, _ in self.value]

    def take_out(self, at):
        del self.value[self.place(at)]

    def set(self, at, kind, value, inner=0):
        """Replace a struct field, or append it."""
        fields = [field for field in self.value if field[0] != at]
        self.value = sorted([*fields, (at, Node(kind, value, inner))], key=lambda field: field[0])


def footer_of(whole):
    """Return the footer of a file."""
    return whole[_start(whole) : -8]


def with_footer(whole, footer):
    """Return a file with another footer."""
    return whole[: _start(whole)] + footer + len(footer).to_bytes(4, "little") + whole[-4:]


def edited(whole, edit):
    """Return a file with a changed footer; `edit` receives its root."""
    root = parsed(footer_of(whole))
    edit(root)
    return with_footer(whole, encoded(root))


def deepened(whole, levels):
    """Return a file whose schema nests the last column in so many structs."""

    def edit(root):
        *others, leaf = root[2].value
        fields = [(3, Node(I32, 1)), (4, Node(BINARY, b"s")), (5, Node(I32, 1))]
        root[2].value = [*others, *(Node(STRUCT, fields) for _ in range(levels)), leaf]

    return edited(whole, edit)


def _start(whole):
    return len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")


# --- from bytes and back ----------------------------------------------------------------------------


def parsed(footer):
    """Return the root of a footer."""
    root, end = _value(STRUCT, footer, 0)
    assert end == len(footer)
    return root


def _value(kind, data, at):
    if kind in (TRUE, FALSE):
        return Node(kind, None), at
    if kind in INTEGERS:
        number, at = _varint(data, at)
        return Node(kind, (number >> 1) ^ -(number & 1)), at
    if kind == STRUCT:
        return _struct(data, at)
    if kind == LIST:
        return _list(data, at)
    length, at = _varint(data, at) if kind == BINARY else ({BYTE: 1, DOUBLE: 8}[kind], at)
    return Node(kind, data[at : at + length]), at + length


def _struct(data, at):
    fields, number = [], 0
    while head := data[at]:
        assert head >> 4, "the long form of a field's number"
        number += head >> 4
        value, at = _value(head & 15, data, at + 1)
        fields.append((number, value))
    return Node(STRUCT, fields), at + 1


def _list(data, at):
    count, inner = data[at] >> 4, data[at] & 15
    at += 1
    if count == 15:
        count, at = _varint(data, at)
    values = []
    for _ in range(count):
        value, at = _value(inner, data, at)
        values.append(value)
    return Node(LIST, values, inner), at


def _varint(data, at):
    number = shift = 0
    while True:
        number |= (data[at] & 127) << shift
        if data[at] < 128:
            return number, at + 1
        at, shift = at + 1, shift + 7


def encoded(node):
    """Return a value as bytes."""
    if node.kind in INTEGERS:
        return _number(node.value)
    if node.kind == STRUCT:
        return _fields(node.value)
    if node.kind == LIST:
        count = len(node.value)
        head = bytes([min(count, 15) << 4 | node.inner]) + (varint(count) if count >= 15 else b"")
        return head + b"".join(map(encoded, node.value))
    return (varint(len(node.value)) if node.kind == BINARY else b"") + (node.value or b"")


def _fields(fields):
    out, last = bytearray(), 0
    for number, node in fields:
        step = number - last
        is_short = 0 < step < 16
        out += bytes([step << 4 | node.kind]) if is_short else bytes([node.kind]) + _number(number)
        out += encoded(node)
        last = number
    return bytes(out) + b"\0"


def _number(number):
    return varint(number << 1 if number >= 0 else ~(number << 1))


def varint(number):
    """Return an unsigned integer as a varint."""
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


# --- one thing at a time ----------------------------------------------------------------------------


def changes(footer, *, every=1, first=0):
    """Yield every mutation of a footer: a description and the bytes, one change at a time.

    `every` and `first` select a subset of the mutations.
    """
    root = parsed(footer)
    assert encoded(root) == footer
    for what in islice(_changes_in(root, ""), first, None, every):
        yield what, encoded(root)


def _changes_in(node, name):
    """Mutate a node and its children in place, yielding after each change."""
    if node.kind not in (STRUCT, LIST):
        return
    is_list, whole = node.kind == LIST, node.value
    for at, entry in enumerate(whole):
        number, inner = (f"[{at}]", entry) if is_list else entry
        place = f"{name}.{number}".lstrip(".")
        for what, instead in _instead(inner, is_list=is_list):
            put = instead if is_list else [(number, other) for other in instead]
            node.value = [*whole[:at], *put, *whole[at + 1 :]]
            yield f"{place} {what}"
        node.value = whole
        yield from _changes_in(inner, place)
    if not is_list:  # beyond 16 bits some readers truncate the field id
        for number, inner in whole:
            node.value = [*whole, (number + 2**16, Node(inner.kind, inner.value, inner.inner))]
            yield f"{name}.{number} again, further up"
        node.value = whole
    elif whole:
        node.inner = BINARY if node.inner != BINARY else I32
        yield f"{name} of another type"
        node.inner = whole[0].kind


def _instead(node, *, is_list):
    """Yield replacements of a value: none, another one, or two."""
    yield "gone", []
    yield "twice", [node, node]
    for other in _others(node):
        shown = repr(other.value)[:40] if other.kind not in (LIST, STRUCT) else len(other.value)
        yield f"= {shown}", [other]
        if not is_list:
            yield f"= {shown} before", [other, node]
            yield f"= {shown} behind", [node, other]
    if not is_list:
        kind, value = OF_ANOTHER_TYPE[node.kind]
        yield "of another type", [Node(kind, value)]
        yield "of another type behind", [node, Node(kind, value)]


def _others(node):
    """Yield values of the same type."""
    value = node.value
    if node.kind in INTEGERS:
        found = [*NUMBERS, value + 1, value - 1]
    elif node.kind == BINARY:
        found = [b"", value[:-1], value[:2], value + b"\0", b"\xff" * len(value), value * 40]
    elif node.kind == LIST:
        found = [[], value[:-1], [*value, *value[-1:]]]
    elif node.kind == STRUCT:
        found = [[]]
    else:
        found = []
    for other in found:
        if other != value:
            yield Node(node.kind, other, node.inner)
