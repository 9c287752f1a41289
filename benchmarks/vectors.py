"""Deletion vectors of a generated table: `.bin` files, and the descriptors that point into them.

The layout of the protocol: a version byte, then for each vector its length, the portable bitmap
array behind a magic number, and a checksum. Many vectors share a file, as in Spark tables.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
from pyroaring import BitMap64

from benchmarks.columns import z85_strings

if TYPE_CHECKING:
    import uuid
    from collections.abc import Sequence
    from pathlib import Path

    from benchmarks.columns import Integers

__all__ = ["write_vectors"]

_MAGIC = 1681511377
_FORMAT_VERSION = b"\x01"


def _payload(positions: Integers) -> bytes:
    bitmap = BitMap64(positions.astype(np.uint64))
    bitmap.run_optimize()
    return struct.pack("<i", _MAGIC) + bitmap.serialize()


def write_vectors(
    folder: Path, identity: uuid.UUID, deleted: Sequence[Integers]
) -> list[dict[str, Any]]:
    """Write one `.bin` file with a vector for each entry of `deleted`; return their descriptors.

    Args:
        folder: The table's root.
        identity: The id of the file.
        deleted: The deleted positions of each vector.
    """
    words = np.frombuffer(identity.bytes, ">u4").reshape(1, 4)
    (name,) = z85_strings(words).to_pylist()
    descriptors = []
    with (folder / f"deletion_vector_{identity}.bin").open("wb") as file:
        file.write(_FORMAT_VERSION)
        for positions in deleted:
            payload = _payload(positions)
            descriptors.append(
                {
                    "storageType": "u",
                    "pathOrInlineDv": name,
                    "offset": file.tell(),
                    "sizeInBytes": len(payload),
                    "cardinality": len(positions),
                }
            )
            checksum = struct.pack(">I", zlib.crc32(payload))
            file.write(struct.pack(">i", len(payload)) + payload + checksum)
    return descriptors
