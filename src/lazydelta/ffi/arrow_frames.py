"""Arrow schemas and batches as bytes from which C rebuilds the structs of the C data interface.

A batch is one block of memory and the offsets of its buffers in it, so the receiver only turns
offsets into pointers, whatever the types are. It needs no reader of Arrow IPC.
"""

from __future__ import annotations

import ctypes
import struct
from ctypes import POINTER, c_char_p, c_int64, c_void_p
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lazydelta.ffi import tuning

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["batch_frame", "schema_frame"]


class _CSchema(ctypes.Structure):
    pass


class _CArray(ctypes.Structure):
    pass


# The two structs of the Arrow C data interface.
_CSchema._fields_ = [
    ("format", c_char_p),
    ("name", c_char_p),
    ("metadata", c_void_p),
    ("flags", c_int64),
    ("n_children", c_int64),
    ("children", POINTER(POINTER(_CSchema))),
    ("dictionary", POINTER(_CSchema)),
    ("release", ctypes.CFUNCTYPE(None, POINTER(_CSchema))),
    ("private_data", c_void_p),
]
_CArray._fields_ = [
    ("length", c_int64),
    ("null_count", c_int64),
    ("offset", c_int64),
    ("n_buffers", c_int64),
    ("n_children", c_int64),
    ("buffers", POINTER(c_void_p)),
    ("children", POINTER(POINTER(_CArray))),
    ("dictionary", POINTER(_CArray)),
    ("release", ctypes.CFUNCTYPE(None, POINTER(_CArray))),
    ("private_data", c_void_p),
]

_SCHEMA_NODE = struct.Struct("=qqiiii")  # flags, children, dictionary, lengths of the strings
_ARRAY_NODE = struct.Struct("=qqqiiii")  # length, nulls, offset, buffers, children, dictionary
_BATCH_HEAD = struct.Struct("=qiiii")  # start of the block, nodes, buffers, length of the token
_NO_BUFFER = -1
_NO_METADATA = -1


def schema_frame(schema: pa.Schema) -> bytes:
    """Return a schema: the number of its nodes, then each before its children."""
    exported = _CSchema()
    schema._export_to_c(ctypes.addressof(exported))  # noqa: SLF001 - the only way to its C struct
    try:
        nodes = list(_nodes(exported))
        return struct.pack("=q", len(nodes)) + b"".join(map(_schema_node, nodes))
    finally:
        exported.release(exported)


def batch_frame(batch: pa.RecordBatch, token: str) -> tuple[bytes, pa.Buffer]:
    """Return a batch: the positions of its buffers, and the block of memory that holds them."""
    # Serialized and read back, a batch has only the rows it shows, and all in one buffer.
    block = batch.serialize()
    compact = pa.ipc.read_record_batch(block, batch.schema)
    exported = _CArray()
    compact._export_to_c(ctypes.addressof(exported))  # noqa: SLF001 - likewise
    try:
        nodes = list(_nodes(exported))
        buffers = [
            _position(node.buffers[i], block) for node in nodes for i in range(node.n_buffers)
        ]
        fixed = b"".join(map(_array_node, nodes)) + struct.pack(f"={len(buffers)}q", *buffers)
    finally:
        exported.release(exported)
    described = fixed + token.encode() + b"\0"
    start = (
        -(-(_BATCH_HEAD.size + len(described)) // tuning.BUFFER_ALIGNMENT) * tuning.BUFFER_ALIGNMENT
    )
    head = _BATCH_HEAD.pack(start, len(nodes), len(buffers), len(token), 0)
    return (head + described).ljust(start, b"\0"), block


def _nodes(root: Any) -> Iterator[Any]:
    """Yield a node, its children and its dictionary."""
    yield root
    for index in range(root.n_children):
        yield from _nodes(root.children[index].contents)
    if root.dictionary:
        yield from _nodes(root.dictionary.contents)


def _position(address: int | None, block: pa.Buffer) -> int:
    return _NO_BUFFER if address is None else address - block.address


def _array_node(node: Any) -> bytes:
    return _ARRAY_NODE.pack(
        *(node.length, node.null_count, node.offset),
        *(node.n_buffers, node.n_children, bool(node.dictionary), 0),
    )


def _schema_node(node: Any) -> bytes:
    kind, name = node.format or b"", node.name or b""
    metadata = _metadata(node.metadata)
    head = _SCHEMA_NODE.pack(
        *(node.flags, node.n_children, bool(node.dictionary), len(kind), len(name)),
        _NO_METADATA if metadata is None else len(metadata),
    )
    return head + kind + b"\0" + name + b"\0" + (metadata or b"")


def _metadata(address: int | None) -> bytes | None:
    """Return the encoded metadata at an address: a count, then pairs of strings with lengths."""
    if address is None:
        return None
    end = address + 4
    for _ in range(2 * _int32_at(address)):
        end += 4 + _int32_at(end)
    return ctypes.string_at(address, end - address)


def _int32_at(address: int) -> int:
    return ctypes.c_int32.from_address(address).value
