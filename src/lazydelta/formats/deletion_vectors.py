"""Deletion vectors: from the descriptor in the log to the rows of a file that are deleted.

Knows the bytes (Z85, the `.bin` entries, 64-bit Roaring bitmaps) and where they are kept; knows no
data files and no rows. Everything is checked before memory is taken for it: a vector may be a
kilobyte and claim a trillion rows, so its bitmap is never spread out for more than one batch.
"""

from __future__ import annotations

import re
import struct
import threading
import uuid
import zlib
from collections import defaultdict
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from lazydelta._arrow import from_mask
from lazydelta.errors import (
    DeletionVectorError,
    ObjectNotFoundError,
    PathNotAllowedError,
    StoreAccessError,
    StoreError,
    TransientStoreError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa

    from lazydelta.protocol.paths import Location, PathResolver
    from lazydelta.store import Store

__all__ = [
    "BadVectorError",
    "DeletedRows",
    "DeletionVectorGroup",
    "VectorDescriptor",
    "parse_vector",
    "z85_decode",
]

_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_DIGITS = {character: value for value, character in enumerate(_ALPHABET)}
_PADDED = re.compile(r"(#{1,3})([^#]+)")
_UUID_CHARACTERS = 20
_MAGIC, _NATIVE_MAGIC = 1681511377, 1681511376
_FRAME = 8  # length in front, checksum behind
_FIRST_ENTRY = 1  # behind the byte that says the version of the file
_LEAST_PAYLOAD = 12  # magic and number of buckets


class BadVectorError(ValueError):
    """A reason without a place; whoever knows the file adds it."""


@dataclass(frozen=True, slots=True)
class VectorDescriptor:
    """The `deletionVector` of an add, as the log has it."""

    storage_type: str
    path_or_inline: str
    offset: int | None
    size: int
    cardinality: int

    @classmethod
    def from_json(cls, obj: Mapping[str, Any]) -> VectorDescriptor:
        """Take the fields of the action; numbers that cannot be true are refused.

        Raises:
            BadVectorError: A field is missing or negative.
        """
        values = [obj.get(name) for name in ("sizeInBytes", "cardinality")]
        kind, where, offset = obj.get("storageType"), obj.get("pathOrInlineDv"), obj.get("offset")
        if not kind or where is None or None in values:
            raise BadVectorError("a field of its descriptor is missing")
        size, cardinality = (int(value or 0) for value in values)
        if size < 0 or cardinality < 0 or (offset or 0) < 0:
            raise BadVectorError("a number of its descriptor is negative")
        return cls(kind, where, offset, size, cardinality)


class DeletedRows:
    """The deleted rows of one file, by position in it."""

    __slots__ = ("_bitmap", "count", "last")

    def __init__(self, bitmap: Any) -> None:
        self._bitmap = bitmap
        self.count = len(bitmap)
        self.last = bitmap.max() if self.count else -1

    def kept(self, start: int, length: int) -> pa.BooleanArray | None:
        """Return which of `length` rows from `start` on are not deleted; None if all are kept."""
        if not self._bitmap.range_cardinality(start, start + length):
            return None
        wanted = type(self._bitmap)(range(start, start + length))
        found = np.frombuffer((self._bitmap & wanted).to_array(), np.uint64)
        mask = np.ones(length, np.bool_)
        mask[found.astype(np.int64) - start] = False
        return from_mask(mask)

    def positions(self) -> list[int]:
        """Return the deleted positions; for tests and for people."""
        return list(self._bitmap)


def z85_decode(text: str, size: int | None = None) -> bytes:
    """Return the bytes of a Z85 text.

    The Rust crate `z85` pads the last group with leading `#`, one for each byte that is missing.
    No plain group begins so (its value would pass 32 bits), hence that form is read as well.

    >>> z85_decode("HelloWorld").hex()
    '864fd26fb559f75b'

    Args:
        text: The text.
        size: How many of the bytes count; None takes all.

    Raises:
        BadVectorError: Not Z85, or too short for `size`.
    """
    if len(text) % 5:
        raise BadVectorError(f"its Z85 text has {len(text)} characters, not a multiple of five")
    parts = [_z85_group(text[at : at + 5], at + 5 == len(text)) for at in range(0, len(text), 5)]
    data = b"".join(parts)
    if size is None:
        return data
    if size > len(data) or size < len(data) - 3:
        raise BadVectorError(f"its text holds {len(data)} bytes where {size} are declared")
    return data[:size]


def _z85_group(group: str, is_last: bool) -> bytes:
    padded = _PADDED.fullmatch(group) if is_last else None
    digits, width = (padded[2], 4 - len(padded[1])) if padded else (group, 4)
    try:
        value = reduce(lambda total, digit: total * 85 + _DIGITS[digit], digits, 0)
        return value.to_bytes(width, "big")
    except (KeyError, OverflowError):
        raise BadVectorError(f"{group!r} is not Z85") from None


def parse_vector(payload: bytes | memoryview, cardinality: int) -> DeletedRows:
    """Return the rows that a serialised bitmap array lists.

    Raises:
        BadVectorError: The bytes are damaged, or hold another number of rows than declared.
    """
    from pyroaring import BitMap64

    if len(payload) < _LEAST_PAYLOAD:
        raise BadVectorError(f"{len(payload)} bytes are too few")
    (magic,) = struct.unpack_from("<i", payload)
    if magic != _MAGIC:
        native = struct.unpack_from(">i", payload)[0] == _NATIVE_MAGIC or magic == _NATIVE_MAGIC
        kind = "Java's native format, which no log should hold" if native else "not a bitmap"
        raise BadVectorError(f"its magic number is {magic}: {kind}")
    (buckets,) = struct.unpack_from("<Q", payload, 4)
    if buckets * 12 > len(payload):  # a key and the least 32-bit bitmap each
        raise BadVectorError(f"it claims {buckets} buckets in {len(payload)} bytes")
    try:
        rows = DeletedRows(BitMap64.deserialize(bytes(payload[4:])))
    except (ValueError, MemoryError, OverflowError) as error:
        raise BadVectorError(f"its bitmap cannot be read ({error})") from None
    if rows.count != cardinality:
        raise BadVectorError(f"it lists {rows.count} rows where {cardinality} are declared")
    if rows.last >= 2**63:
        raise BadVectorError(f"row {rows.last} cannot be")
    return rows


def _entry_payload(view: memoryview, size: int) -> bytes:
    """Return the payload of an entry of a `.bin` file: length, payload, checksum."""
    if view.nbytes != size + _FRAME:
        raise BadVectorError(f"its file ends before its {size} bytes do")
    (length,) = struct.unpack_from(">i", view)
    if length != size:
        raise BadVectorError(f"the entry has {length} bytes where {size} are declared")
    payload = bytes(view[4:-4])
    if zlib.crc32(payload) != struct.unpack_from(">I", view, size + 4)[0]:
        raise BadVectorError("its checksum does not match: the file is damaged")
    return payload


def _place(descriptor: VectorDescriptor, resolver: PathResolver) -> Location:
    where = descriptor.path_or_inline
    if descriptor.storage_type == "p":
        return resolver.to_open(where)
    if descriptor.storage_type != "u":
        raise BadVectorError(f"its storage type is {descriptor.storage_type!r}")
    if len(where) < _UUID_CHARACTERS:
        raise BadVectorError(f"{where!r} is too short to name its file")
    prefix, encoded = where[:-_UUID_CHARACTERS], where[-_UUID_CHARACTERS:]
    name = f"deletion_vector_{uuid.UUID(bytes=z85_decode(encoded))}.bin"
    return resolver.to_open(f"{prefix}/{name}" if prefix else name, decoded=True)


class DeletionVectorGroup:
    """The vectors of some files, fetched when the first of them is asked for.

    Vectors of one `.bin` file come in one call to the store; each is given out once and then let
    go of. Safe to use from several threads.

    Args:
        vectors: For each file its path, to be named in errors, and its `deletionVector` or None.
        resolver: Says where a vector's file may be.
        store_for: Gives the store of a place.
    """

    def __init__(
        self,
        vectors: Sequence[tuple[str, Mapping[str, Any] | None]],
        resolver: PathResolver,
        store_for: Callable[[Location], Store],
    ) -> None:
        self._vectors = vectors
        self._resolver = resolver
        self._store_for = store_for
        self._waiting: dict[Location, list[tuple[int, VectorDescriptor]]] | None = None
        self._payloads: dict[int, bytes | DeletionVectorError] = {}
        self._lock = threading.Lock()

    def take(self, at: int) -> DeletedRows | None:
        """Return the deleted rows of a file, by its place in the group; None if it has no vector.

        Raises:
            DeletionVectorError: It is missing, damaged, or not what the log says.
            PathNotAllowedError: It lies where this table may not reach.
        """
        path, raw = self._vectors[at]
        if raw is None:
            return None
        try:
            descriptor = VectorDescriptor.from_json(raw)
            if descriptor.storage_type == "i":
                payload = z85_decode(descriptor.path_or_inline, descriptor.size)
            else:
                payload = self._stored(at, _place(descriptor, self._resolver))
            return parse_vector(payload, descriptor.cardinality)
        except BadVectorError as error:
            raise DeletionVectorError(self._resolver.root, path, str(error)) from None

    def _stored(self, at: int, place: Location) -> bytes:
        with self._lock:
            if self._waiting is None:
                self._waiting = self._by_place()
            wanted = self._waiting.get(place)
            if wanted is not None:
                self._fetch(place, wanted)
                del self._waiting[place]
            found = self._payloads.pop(at)
        if isinstance(found, DeletionVectorError):
            raise found
        return found

    def _by_place(self) -> dict[Location, list[tuple[int, VectorDescriptor]]]:
        """Return the stored vectors by their file; those that `take` will refuse are left out."""
        waiting: dict[Location, list[tuple[int, VectorDescriptor]]] = defaultdict(list)
        for at, (_, raw) in enumerate(self._vectors):
            if raw is None:
                continue
            try:
                descriptor = VectorDescriptor.from_json(raw)
                if descriptor.storage_type != "i":
                    waiting[_place(descriptor, self._resolver)].append((at, descriptor))
            except (BadVectorError, PathNotAllowedError):
                continue
        return waiting

    def _fetch(self, place: Location, wanted: Sequence[tuple[int, VectorDescriptor]]) -> None:
        starts = [_FIRST_ENTRY if d.offset is None else d.offset for _, d in wanted]
        spans = [(s, s + d.size + _FRAME) for s, (_, d) in zip(starts, wanted, strict=True)]
        entries: Sequence[Any]
        try:
            entries = self._store_for(place).read_ranges(place.path, spans)
        except (TransientStoreError, StoreAccessError):
            raise
        except StoreError:  # one span may be wrong: find out which
            entries = [None] * len(spans)
        for (at, descriptor), span, entry in zip(wanted, spans, entries, strict=True):
            try:
                whole = self._one(place, span) if entry is None else memoryview(entry)
                self._payloads[at] = _entry_payload(whole, descriptor.size)
            except BadVectorError as error:
                reason = f"{error} (in {place.path})"
                path = self._vectors[at][0]
                self._payloads[at] = DeletionVectorError(self._resolver.root, path, reason)

    def _one(self, place: Location, span: tuple[int, int]) -> memoryview:
        try:
            return memoryview(self._store_for(place).read_ranges(place.path, [span])[0])
        except ObjectNotFoundError:
            raise BadVectorError("its file is missing") from None
        except (TransientStoreError, StoreAccessError):
            raise
        except StoreError as error:
            raise BadVectorError(f"its bytes cannot be read: {error.reason}") from None
