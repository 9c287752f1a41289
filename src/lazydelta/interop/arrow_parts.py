"""pyarrow's expressions as trees of parts. Knows how they are written down, not what they mean.

An `Expression` cannot be looked into from Python, but it pickles, as an Arrow batch: literals and
options are its columns, the tree is the sequence of keys in its metadata (keys repeat, so they are
read through Arrow's C interface, which keeps them all).
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Call", "Field", "Literal", "NotUnderstoodError", "Part", "parse", "walk"]


class NotUnderstoodError(Exception):
    """The expression has something that is not known here."""


@dataclass(frozen=True, slots=True)
class Field:
    """A column, or a field in it."""

    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant."""

    scalar: pa.Scalar


@dataclass(frozen=True, slots=True)
class Call:
    """A function of some parts."""

    name: str
    args: tuple[Part, ...]
    options: dict[str, Any]


Part = Field | Literal | Call


def parse(pickled: pa.Buffer) -> Part:
    """Return the tree of an expression, from what it pickles to.

    Raises:
        NotUnderstoodError: It has a part of a kind that was not seen yet.
    """
    batch = pa.ipc.open_file(pickled).get_batch(0)
    return _Parser(batch, list(_metadata(batch.schema))).part()


def walk(part: Part) -> Iterator[Part]:
    """Yield a part and all that is below it."""
    stack = [part]
    while stack:
        found = stack.pop()
        yield found
        if isinstance(found, Call):
            stack.extend(found.args)


def _metadata(schema: pa.Schema) -> Iterator[tuple[str, str]]:
    """Yield the metadata of a schema in order; pyarrow's own dictionary drops repeated keys.

    The third pointer of an `ArrowSchema` is to a count and that many pairs of key and value,
    each a length and so many bytes; all numbers are 32 bits in the machine's order.
    """
    capsule = schema.__arrow_c_schema__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address = pointer(capsule, b"arrow_schema")
    at = ctypes.c_void_p.from_address(address + 2 * ctypes.sizeof(ctypes.c_void_p)).value
    if at is None:
        return
    count = ctypes.c_int32.from_address(at).value
    at += 4
    for _ in range(count):
        pair = []
        for _ in range(2):
            length = ctypes.c_int32.from_address(at).value
            pair.append(ctypes.string_at(at + 4, length).decode())
            at += 4 + length
        yield pair[0], pair[1]


class _Parser:
    """Reads one tree from the sequence of its parts."""

    def __init__(self, batch: pa.RecordBatch, steps: list[tuple[str, str]]) -> None:
        self._batch = batch
        self._steps = iter(steps)

    def part(self) -> Part:
        return self._part(*next(self._steps, ("", "")))

    def _part(self, kind: str, value: str) -> Part:
        if kind == "literal":
            return Literal(self._batch.column(int(value))[0])
        if kind == "field_ref":
            return Field((value,))
        if kind == "nested_field_ref":
            steps = [next(self._steps, ("", "")) for _ in range(int(value))]
            if any(step != "field_ref" for step, _ in steps):
                raise NotUnderstoodError
            return Field(tuple(name for _, name in steps))
        if kind != "call":
            raise NotUnderstoodError
        return self._call(value)

    def _call(self, name: str) -> Call:
        args: list[Part] = []
        options: dict[str, Any] = {}
        for kind, value in self._steps:
            if kind == "end":
                return Call(name, tuple(args), options)
            if kind == "options":
                scalar = self._batch.column(int(value))[0]
                options = dict(scalar.items())
            else:
                args.append(self._part(kind, value))
        raise NotUnderstoodError
