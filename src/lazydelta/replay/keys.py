"""The identity of a file action, as a column: canonical path, and deletion vector if it has one.

The protocol identifies a logical file by both, so the same path under another vector is another
file. A key without a vector is the path itself, which costs nothing; paths are canonicalised
before they get here. Also the hash by which keys are looked up. Pure: columns in, columns out.
"""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import integers, text

__all__ = ["file_keys", "hash_keys", "new_seed"]

_SEPARATOR = text("\0")
_AT = text("@")
_NOTHING = text("")
_HASHED_BYTES = 1024
_WORD = 8


def file_keys(paths: pa.Array, vectors: pa.Array | None) -> pa.Array:
    """Return the key of each file action.

    Args:
        paths: Canonical paths, none of them null.
        vectors: The `deletionVector` of each, or None where no row has one.
    """
    if vectors is None or vectors.null_count == len(vectors):
        return paths
    kind, where, offset = (
        pc.struct_field(vectors, name) for name in ("storageType", "pathOrInlineDv", "offset")
    )
    at = pc.coalesce(pc.binary_join_element_wise(_AT, offset.cast(pa.string()), _NOTHING), _NOTHING)
    ids = pc.binary_join_element_wise(kind, where, at, _NOTHING)
    return pc.coalesce(pc.binary_join_element_wise(paths, ids, _SEPARATOR), paths)


def hash_keys(keys: pa.Array, seed: np.ndarray) -> np.ndarray:
    """Return a 64-bit hash of each key: equal keys hash equal, whatever batch they come in.

    Keys of one batch mostly have one length, so their bytes are read as a matrix of words and
    multiplied by the seed at once; others are padded with zeros to one length first, which does
    not change the sum. It decides only where to look, never what is equal, so a seeded linear
    hash is enough, and a long key may be hashed by its beginning.

    Args:
        keys: A string array without nulls.
        seed: Random odd numbers, as many as `new_seed` makes.
    """
    if len(keys) == 0:
        return np.empty(0, np.uint64)
    lengths = integers(pc.binary_length(keys)).astype(np.int64)
    longest = int(lengths.max())
    if longest > _HASHED_BYTES:
        keys, longest = pc.binary_slice(keys.cast(pa.binary()), 0, _HASHED_BYTES), _HASHED_BYTES
    if longest < _WORD or int(lengths.min()) != longest:
        longest = max(longest, _WORD)
        keys = _padded(keys, longest)
    total = _sum_of_words(keys, longest, seed)
    total += lengths.astype(np.uint64) * seed[-1]
    total ^= total >> np.uint64(32)
    total *= seed[-2]
    total ^= total >> np.uint64(29)
    return total


def new_seed() -> np.ndarray:
    """Return fresh multipliers for `hash_keys`, so that names cannot be made to collide."""
    # Not numpy.random: importing it costs more than the first batch of a scan.
    return np.frombuffer(os.urandom(_HASHED_BYTES + 4 * _WORD), np.uint64) | np.uint64(1)


def _padded(keys: pa.Array, width: int) -> pa.Array:
    return pc.ascii_rpad(keys.cast(pa.binary()).cast(pa.string(), safe=False), width, "\0")


def _sum_of_words(keys: pa.Array, width: int, seed: np.ndarray) -> np.ndarray:
    _, offsets, data = keys.buffers()
    first = int(np.frombuffer(offsets, np.int32, 1, keys.offset * 4)[0])
    whole, rest = divmod(width, _WORD)
    shape, strides = (len(keys), whole), (width, _WORD)
    words = np.ndarray(shape, "<u8", data, offset=first, strides=strides)
    total = words @ seed[:whole]
    if rest:
        # The last bytes as a word of their own: read the word that ends there, shift the rest out.
        at = first + width - _WORD
        last = np.ndarray((len(keys),), "<u8", data, offset=at, strides=(width,))
        total += (last >> np.uint64(8 * (_WORD - rest))) * seed[whole]
    return total
