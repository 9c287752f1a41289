"""Between Arrow and numpy without `pa.array`, `pa.scalar` and `to_numpy`.

Those import pandas when it is installed: a quarter of a second on the way to the first file.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

__all__ = [
    "bits",
    "certain",
    "empty_table",
    "from_numpy",
    "integers",
    "numpy_kind",
    "selection",
    "text",
    "validity",
]

_TYPES = {"i8": pa.int64(), "i4": pa.int32(), "u8": pa.uint64()}


def from_numpy(values: np.ndarray) -> pa.Array:
    """Return an integer array that shares the memory of `values`.

    >>> from_numpy(np.arange(3)).to_pylist()
    [0, 1, 2]
    """
    kind = _TYPES[values.dtype.str[1:]]
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(kind, len(values), [None, data])


def empty_table(schema: pa.Schema) -> pa.Table:
    """Return a table without rows.

    >>> empty_table(pa.schema([("a", pa.int64())])).num_rows
    0
    """
    return pa.Table.from_arrays([pa.nulls(0, kind) for kind in schema.types], schema=schema)


def selection(mask: np.ndarray) -> pa.BooleanArray:
    """Return a boolean array from a numpy mask.

    >>> selection(np.array([True, False])).to_pylist()
    [True, False]
    """
    bits = pa.py_buffer(np.packbits(mask, bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), len(mask), [None, bits])


def bits(mask: pa.BooleanArray) -> np.ndarray:
    """Return a boolean array without nulls as a numpy mask.

    >>> bits(selection(np.array([True, False, True])).slice(1)).tolist()
    [False, True]
    """
    packed = np.frombuffer(mask.buffers()[1] or b"", np.uint8)
    end = mask.offset + len(mask)
    return np.unpackbits(packed, bitorder="little", count=end)[mask.offset :].view(np.bool_)


def certain(truth: pa.BooleanArray) -> np.ndarray:
    """Return where something is true, as a numpy mask; unknown is not.

    >>> certain(pa.nulls(2, pa.bool_())).tolist()
    [False, False]
    """
    return bits(pc.and_kleene(truth, truth.is_valid()) if truth.null_count else truth)


def numpy_kind(kind: pa.DataType) -> np.dtype:
    """Return numpy's type for one of integers or floats.

    Not `to_pandas_dtype`, for which some versions of pyarrow load pandas.

    >>> numpy_kind(pa.uint16()), numpy_kind(pa.float32())
    (dtype('uint16'), dtype('float32'))
    """
    letter = "f" if pt.is_floating(kind) else "u" if pt.is_unsigned_integer(kind) else "i"
    return np.dtype(f"{letter}{kind.bit_width // 8}")


def integers(values: pa.Array) -> np.ndarray:
    """Return an integer array without nulls as a numpy array that shares its memory.

    >>> integers(from_numpy(np.arange(4)).slice(2)).tolist()
    [2, 3]
    """
    data = np.frombuffer(values.buffers()[1] or b"", numpy_kind(values.type))
    return data[values.offset : values.offset + len(values)]


def validity(values: pa.Array) -> pa.Buffer | None:
    """Return the validity bits of an array as a buffer that begins with its first value.

    >>> list(validity(pa.nulls(3, pa.int8()).slice(2)).to_pybytes())
    [0]
    """
    return selection(bits(values.is_valid())).buffers()[1] if values.null_count else None


def text(value: str) -> pa.StringScalar:
    """Return a string scalar.

    >>> text("x").as_py()
    'x'
    """
    raw = value.encode()
    offsets = pa.py_buffer(np.array([0, len(raw)], np.int32))
    return pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(raw)])[0]
