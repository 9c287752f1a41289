"""Keys of logical files (path and deletion vector unique id), and their hashes.

The protocol identifies a logical file by both, so the same path with another deletion vector is
another file. Paths must be canonical. The key of a file without a deletion vector is its path.
"""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import string_scalar, to_numpy
from lazydelta.replay import tuning

__all__ = ["file_keys", "hash_keys", "new_seed"]

_SEPARATOR = string_scalar("\0")
_OFFSET_PREFIX = string_scalar("@")
_EMPTY = string_scalar("")
_WORD = 8


def file_keys(paths: pa.Array, vectors: pa.Array | None) -> pa.Array:
    """Return the key of each file action.

    Args:
        paths: Canonical paths, without nulls.
        vectors: The `deletionVector` of each action; None if no action has one.
    """
    if vectors is None or vectors.null_count == len(vectors):
        return paths
    storage, path_or_inline, offset = (
        pc.struct_field(vectors, name) for name in ("storageType", "pathOrInlineDv", "offset")
    )
    suffix = pc.binary_join_element_wise(_OFFSET_PREFIX, offset.cast(pa.string()), _EMPTY)
    ids = pc.binary_join_element_wise(storage, path_or_inline, pc.coalesce(suffix, _EMPTY), _EMPTY)
    return pc.coalesce(pc.binary_join_element_wise(paths, ids, _SEPARATOR), paths)


def hash_keys(keys: pa.Array, seed: np.ndarray) -> np.ndarray:
    """Return a 64-bit hash of each key; equal keys have equal hashes in any batch.

    Most keys of a batch have the same length, so their bytes are read as a matrix of words and
    multiplied by the seed at once. Otherwise keys are padded with zeros, which does not change the
    sum. The hash only locates a key and never decides equality: a seeded linear hash suffices, and
    a long key may be hashed by its prefix.

    Args:
        keys: A string array without nulls.
        seed: Random odd numbers from `new_seed`.
    """
    if len(keys) == 0:
        return np.empty(0, np.uint64)
    lengths = to_numpy(pc.binary_length(keys)).astype(np.int64)
    width = int(lengths.max())
    if width > tuning.HASHED_BYTES:
        width = tuning.HASHED_BYTES
        keys = pc.binary_slice(keys.cast(pa.binary()), 0, width)
    if width < _WORD or int(lengths.min()) != width:
        width = max(width, _WORD)
        keys = _padded(keys, width)
    total = _sum_of_words(keys, width, seed)
    total += lengths.astype(np.uint64) * seed[-1]
    total ^= total >> np.uint64(32)
    total *= seed[-2]
    total ^= total >> np.uint64(29)
    return total


def new_seed() -> np.ndarray:
    """Return random multipliers for `hash_keys`, so that crafted names cannot collide."""
    # Not numpy.random: its import takes longer than the first batch of a scan.
    return np.frombuffer(os.urandom(tuning.HASHED_BYTES + 4 * _WORD), np.uint64) | np.uint64(1)


def _padded(keys: pa.Array, width: int) -> pa.Array:
    return pc.ascii_rpad(keys.cast(pa.binary()).cast(pa.string(), safe=False), width, "\0")


def _sum_of_words(keys: pa.Array, width: int, seed: np.ndarray) -> np.ndarray:
    _, offsets, data = keys.buffers()
    first = int(np.frombuffer(offsets, np.int32, 1, keys.offset * 4)[0])
    count, rest = divmod(width, _WORD)
    shape, strides = (len(keys), count), (width, _WORD)
    words = np.ndarray(shape, "<u8", data, offset=first, strides=strides)
    total = words @ seed[:count]
    if rest:
        # The remaining bytes: read the word that ends with them, and shift the others out.
        start = first + width - _WORD
        last = np.ndarray((len(keys),), "<u8", data, offset=start, strides=(width,))
        total += (last >> np.uint64(8 * (_WORD - rest))) * seed[count]
    return total
