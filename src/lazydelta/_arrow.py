"""Arrow helpers: conversion from and to numpy, string scalars, types without their encoding.

They replace `pa.array`, `pa.scalar` and `to_numpy`, which import pandas if it is installed: that
would delay every scan by a quarter of a second.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

__all__ = [
    "VARIANT_EXTENSIONS",
    "empty_table",
    "from_mask",
    "from_numpy",
    "numpy_dtype",
    "string_scalar",
    "to_mask",
    "to_numpy",
    "true_mask",
    "unencoded_type",
    "validity_buffer",
]

VARIANT_EXTENSIONS = ("arrow.parquet.variant", "parquet.variant")
"""Names of the extension types of variants."""
_STORAGE_EXTENSIONS = ("arrow.json", "arrow.uuid")
"""Extension types that are stored as their storage type."""
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


def from_mask(mask: np.ndarray) -> pa.BooleanArray:
    """Return a boolean array from a numpy mask.

    >>> from_mask(np.array([True, False])).to_pylist()
    [True, False]
    """
    bits = pa.py_buffer(np.packbits(mask, bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), len(mask), [None, bits])


def to_mask(mask: pa.BooleanArray) -> np.ndarray:
    """Return a boolean array without nulls as a numpy mask.

    >>> to_mask(from_mask(np.array([True, False, True])).slice(1)).tolist()
    [False, True]
    """
    packed = np.frombuffer(mask.buffers()[1] or b"", np.uint8)
    end = mask.offset + len(mask)
    return np.unpackbits(packed, bitorder="little", count=end)[mask.offset :].view(np.bool_)


def true_mask(values: pa.BooleanArray) -> np.ndarray:
    """Return where a boolean array is true, as a numpy mask; null counts as false.

    >>> true_mask(pa.nulls(2, pa.bool_())).tolist()
    [False, False]
    """
    return to_mask(pc.and_kleene(values, values.is_valid()) if values.null_count else values)


def numpy_dtype(kind: pa.DataType) -> np.dtype:
    """Return the numpy dtype of an integer or float type.

    Replaces `to_pandas_dtype`, for which some versions of pyarrow import pandas.

    >>> numpy_dtype(pa.uint16()), numpy_dtype(pa.float32())
    (dtype('uint16'), dtype('float32'))
    """
    letter = "f" if pt.is_floating(kind) else "u" if pt.is_unsigned_integer(kind) else "i"
    return np.dtype(f"{letter}{kind.bit_width // 8}")


def to_numpy(values: pa.Array) -> np.ndarray:
    """Return a numeric array without nulls as a numpy array that shares its memory.

    >>> to_numpy(from_numpy(np.arange(4)).slice(2)).tolist()
    [2, 3]
    """
    data = np.frombuffer(values.buffers()[1] or b"", numpy_dtype(values.type))
    return data[values.offset : values.offset + len(values)]


def validity_buffer(values: pa.Array) -> pa.Buffer | None:
    """Return the validity bitmap of an array, with offset 0; None without nulls.

    >>> list(validity_buffer(pa.nulls(3, pa.int8()).slice(2)).to_pybytes())
    [0]
    """
    return from_mask(to_mask(values.is_valid())).buffers()[1] if values.null_count else None


def unencoded_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values: without dictionary, run-end and known extension types.

    >>> unencoded_type(pa.dictionary(pa.int32(), pa.string()))
    DataType(string)
    """
    while True:
        if pt.is_dictionary(kind) or pt.is_run_end_encoded(kind):
            kind = kind.value_type
        elif isinstance(kind, pa.BaseExtensionType) and (
            kind.extension_name in (*_STORAGE_EXTENSIONS, *VARIANT_EXTENSIONS)
        ):
            kind = kind.storage_type
        else:
            return kind


def string_scalar(value: str) -> pa.StringScalar:
    """Return a string scalar.

    >>> string_scalar("x").as_py()
    'x'
    """
    raw = value.encode()
    offsets = pa.py_buffer(np.array([0, len(raw)], np.int32))
    return pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(raw)])[0]
