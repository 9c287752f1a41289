"""Validation of object paths, and Arrow batches of listings.

Every implementation calls `validate_path` on each path: joined to the root unvalidated, a path
could escape it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lazydelta.errors import StoreError
from lazydelta.store.interface import LISTING_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["join_path", "listing_batch", "validate_directory", "validate_path"]

_INVALID = re.compile(r"[\x00-\x1f\x7f]|(?:^|/)\.{1,2}(?:/|$)|//|^/|/$|^$")


def validate_path(path: str) -> str:
    """Return `path` if it is a plain path below the root, else raise `StoreError`."""
    if _INVALID.search(path):
        raise StoreError(
            repr(path),
            "not a plain relative path: no leading, trailing or doubled '/', no '.' or '..' "
            "segments, no control characters",
        )
    return path


def validate_directory(directory: str) -> str:
    """Return `directory` validated, without a trailing slash; empty means the root."""
    trimmed = directory.removesuffix("/")
    return validate_path(trimmed) if trimmed else ""


def join_path(directory: str, name: str) -> str:
    """Return the path of the child `name` of `directory`."""
    return f"{directory}/{name}" if directory else name


def listing_batch(
    paths: Sequence[str], sizes: Sequence[int], modified_ms: Sequence[int]
) -> pa.RecordBatch:
    """Return a `LISTING_SCHEMA` batch; built from buffers, since `pa.array` may import pandas."""
    encoded = [path.encode() for path in paths]
    offsets = np.zeros(len(encoded) + 1, np.int32)
    np.cumsum([len(path) for path in encoded], out=offsets[1:])
    strings = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))]
    columns = [
        pa.Array.from_buffers(LISTING_SCHEMA.field(0).type, len(encoded), strings),
        _int64s(LISTING_SCHEMA.field(1).type, sizes),
        _int64s(LISTING_SCHEMA.field(2).type, modified_ms),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=LISTING_SCHEMA)


def _int64s(kind: pa.DataType, values: Sequence[int]) -> pa.Array:
    data = np.asarray(values, np.int64)
    return pa.Array.from_buffers(kind, len(data), [None, pa.py_buffer(data)])
