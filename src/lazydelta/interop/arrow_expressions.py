"""Decode pyarrow expressions into trees of nodes. Knows their serialization, not their semantics.

pyarrow has no API to inspect an `Expression`, but it can be pickled. The pickle is an Arrow batch:
its columns are the literals and options, the key sequence of its schema metadata is the tree. Keys
repeat, so they are read through the Arrow C interface, which keeps all of them.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Call", "Field", "Literal", "Node", "NotUnderstoodError", "parse", "walk"]


class NotUnderstoodError(Exception):
    """The expression contains an unknown construct."""


@dataclass(frozen=True, slots=True)
class Field:
    """A reference to a column or a nested field."""

    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant."""

    scalar: pa.Scalar


@dataclass(frozen=True, slots=True)
class Call:
    """A function call."""

    name: str
    args: tuple[Node, ...]
    options: dict[str, Any]


Node = Field | Literal | Call


def parse(pickled: pa.Buffer) -> Node:
    """Return the tree of a pickled expression.

    Raises:
        NotUnderstoodError: It contains a node of an unknown kind.
    """
    batch = pa.ipc.open_file(pickled).get_batch(0)
    return _Parser(batch, list(_metadata(batch.schema))).node()


def walk(node: Node) -> Iterator[Node]:
    """Yield a node and all its descendants."""
    stack = [node]
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, Call):
            stack.extend(node.args)


def _metadata(schema: pa.Schema) -> Iterator[tuple[str, str]]:
    """Yield the metadata of a schema in order; pyarrow's own dictionary drops repeated keys.

    The third pointer of an `ArrowSchema` addresses an int32 count of key-value pairs. Keys and
    values are an int32 length followed by the bytes. Integers are in native byte order.
    """
    capsule = schema.__arrow_c_schema__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address = pointer(capsule, b"arrow_schema")
    position = ctypes.c_void_p.from_address(address + 2 * ctypes.sizeof(ctypes.c_void_p)).value
    if position is None:
        return
    count = ctypes.c_int32.from_address(position).value
    position += 4
    for _ in range(count):
        pair = []
        for _ in range(2):
            length = ctypes.c_int32.from_address(position).value
            pair.append(ctypes.string_at(position + 4, length).decode())
            position += 4 + length
        yield pair[0], pair[1]


class _Parser:
    """Reads one tree from the sequence of its nodes, in prefix order."""

    def __init__(self, batch: pa.RecordBatch, steps: list[tuple[str, str]]) -> None:
        self._batch = batch
        self._steps = iter(steps)

    def node(self) -> Node:
        return self._node(*next(self._steps, ("", "")))

    def _node(self, kind: str, value: str) -> Node:
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
        args: list[Node] = []
        options: dict[str, Any] = {}
        for kind, value in self._steps:
            if kind == "end":
                return Call(name, tuple(args), options)
            if kind == "options":
                scalar = self._batch.column(int(value))[0]
                options = dict(scalar.items())
            else:
                args.append(self._node(kind, value))
        raise NotUnderstoodError
