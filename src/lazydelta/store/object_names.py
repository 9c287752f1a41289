"""What all stores share about names: which ones they take, and how a listing becomes Arrow.

Pure. A store that joins an unchecked name to its root can be led out of it, so every
implementation passes each path through `checked` before use.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lazydelta.errors import StoreError
from lazydelta.store.base import LISTING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["checked", "checked_directory", "listing_batch", "listing_name"]

_REFUSED = re.compile(r"[\x00-\x1f\x7f]|(?:^|/)\.{1,2}(?:/|$)|//|^/|/$|^$")


def checked(path: str) -> str:
    """Return `path` if it names an object below a root by itself, else raise `StoreError`."""
    if _REFUSED.search(path):
        raise StoreError(
            repr(path),
            "not a plain relative path: no leading, trailing or doubled '/', no '.' or '..' "
            "segments, no control characters",
        )
    return path


def checked_directory(directory: str) -> str:
    """Return `directory` without a trailing slash; the empty one is the root."""
    trimmed = directory.removesuffix("/")
    return checked(trimmed) if trimmed else ""


def listing_name(directory: str, name: str) -> str:
    """Return the path of the child `name` of `directory`."""
    return f"{directory}/{name}" if directory else name


def listing_batch(
    paths: Sequence[str], sizes: Sequence[int], modified_ms: Sequence[int]
) -> pa.RecordBatch:
    """Return one `LISTING` batch; built from buffers, because `pa.array` may import pandas."""
    encoded = [path.encode() for path in paths]
    offsets = np.zeros(len(encoded) + 1, np.int32)
    np.cumsum([len(path) for path in encoded], out=offsets[1:])
    text = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))]
    columns = [
        pa.Array.from_buffers(LISTING.field(0).type, len(encoded), text),
        _numbers(LISTING.field(1).type, sizes),
        _numbers(LISTING.field(2).type, modified_ms),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=LISTING)


def _numbers(kind: pa.DataType, values: Sequence[int]) -> pa.Array:
    data = np.asarray(values, np.int64)
    return pa.Array.from_buffers(kind, len(data), [None, pa.py_buffer(data)])
