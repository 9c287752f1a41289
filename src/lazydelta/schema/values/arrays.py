"""Build Arrow arrays from Python values without `pa.array`.

`pa.array(list)` imports pandas if it is installed, which would delay every scan by a quarter of a
second. Values have the representation of `literals`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lazydelta.schema.types import DecimalType, to_arrow_type

if TYPE_CHECKING:
    from collections.abc import Sequence
    from decimal import Decimal

    from lazydelta.schema.types import DataType

__all__ = ["build_array", "build_scalar"]


def build_array(values: Sequence[Any], kind: DataType) -> pa.Array:
    """Return an Arrow array of the values; None is null.

    A double that is too large for `float` becomes infinite, as in a cast.
    """
    target = to_arrow_type(kind)
    if pa.types.is_null(target):
        return pa.nulls(len(values))
    valid = _bits([value is not None for value in values])
    if pa.types.is_string(target) or pa.types.is_binary(target):
        return _variable(values, valid, target)
    if pa.types.is_boolean(target):
        return pa.Array.from_buffers(target, len(values), [valid, _bits([*map(bool, values)])])
    if isinstance(kind, DecimalType):
        decimals = b"".join(_unscaled(value, kind.scale) for value in values)
        return pa.Array.from_buffers(target, len(values), [valid, pa.py_buffer(decimals)])
    filled = [0 if value is None else value for value in values]
    with np.errstate(over="ignore"):
        numbers = np.array(filled, dtype=_DTYPES[str(target)])
    return pa.Array.from_buffers(target, len(values), [valid, pa.py_buffer(numbers)])


def build_scalar(value: Any, kind: DataType) -> pa.Scalar:
    """Return an Arrow scalar of the value."""
    return build_array([value], kind)[0]


_DTYPES = {
    "int8": np.int8,
    "int16": np.int16,
    "int32": np.int32,
    "int64": np.int64,
    "float": np.float32,
    "double": np.float64,
    "date32[day]": np.int32,
    "timestamp[us, tz=UTC]": np.int64,
    "timestamp[us]": np.int64,
    "timestamp[ns, tz=UTC]": np.int64,
    "timestamp[ns]": np.int64,
}


def _bits(flags: Sequence[bool]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(np.array(flags, dtype=np.bool_), bitorder="little"))


def _unscaled(value: Decimal | None, scale: int) -> bytes:
    if value is None:
        return bytes(16)
    sign, digits, exponent = value.as_tuple()
    unscaled = int("".join(map(str, digits))) * 10 ** (int(exponent) + scale)
    return (-unscaled if sign else unscaled).to_bytes(16, "little", signed=True)


def _variable(values: Sequence[Any], valid: pa.Buffer, target: pa.DataType) -> pa.Array:
    parts = [v.encode() if isinstance(v, str) else v or b"" for v in values]
    offsets = np.zeros(len(parts) + 1, dtype=np.int32)
    np.cumsum([len(part) for part in parts], out=offsets[1:])
    buffers = [valid, pa.py_buffer(offsets), pa.py_buffer(b"".join(parts))]
    return pa.Array.from_buffers(target, len(parts), buffers)
