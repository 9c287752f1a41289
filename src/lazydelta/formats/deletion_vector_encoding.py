"""Encode deletion vectors: bitmaps to the entries of a `.bin` file and their descriptors."""

from __future__ import annotations

import struct
import uuid
import zlib
from typing import Any

__all__ = ["DeletionVectorFile"]

_ALPHABET = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_MAGIC = 1681511377
_VERSION = b"\x01"


class DeletionVectorFile:
    """The bytes of a `.bin` file under construction: a version byte, then one entry a vector."""

    def __init__(self) -> None:
        self._id = uuid.uuid4()
        self._parts = [_VERSION]
        self.size = len(_VERSION)

    @property
    def path(self) -> str:
        """The path of the file, relative to the table."""
        return f"deletion_vector_{self._id}.bin"

    def add(self, bitmap: Any) -> dict[str, Any]:
        """Append a 64-bit bitmap, and return the `deletionVector` field of its add action."""
        bitmap.run_optimize()
        payload = struct.pack("<i", _MAGIC) + bitmap.serialize()
        descriptor = {
            "storageType": "u",
            "pathOrInlineDv": z85_encode(self._id.bytes),
            "offset": self.size,
            "sizeInBytes": len(payload),
            "cardinality": len(bitmap),
        }
        entry = (struct.pack(">i", len(payload)), payload, struct.pack(">I", zlib.crc32(payload)))
        self._parts += entry
        self.size += sum(map(len, entry))
        return descriptor

    def to_bytes(self) -> bytes:
        """Return the file."""
        return b"".join(self._parts)


def z85_encode(data: bytes) -> str:
    """Return the Z85 string of bytes, a multiple of four.

    >>> z85_encode(bytes.fromhex("864fd26fb559f75b"))
    'HelloWorld'
    """
    digits = bytearray()
    for (value,) in struct.iter_unpack(">I", data):
        digits += bytes(_ALPHABET[value // 85**power % 85] for power in range(4, -1, -1))
    return digits.decode("ascii")
