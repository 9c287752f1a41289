"""Deletion vectors: from the descriptor in the log to the deleted rows of a file.

Decodes Z85, `.bin` files and 64-bit Roaring bitmaps; knows no data files and no rows. Everything is
validated before memory is allocated for it: a vector of a kilobyte may claim a trillion rows, so
its bitmap is never expanded for more than one batch.
"""

from __future__ import annotations

import re
import struct
import threading
import uuid
import zlib
from collections import defaultdict
from concurrent.futures import Future
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
from lazydelta.formats import tuning
from lazydelta.store import is_local
from lazydelta.store.layers import read_cached

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
_FIRST_ENTRY = 1  # after the version byte of the file
_MIN_PAYLOAD = 12  # magic and number of buckets


class BadVectorError(ValueError):
    """An invalid deletion vector; the caller adds the file."""


@dataclass(frozen=True, slots=True)
class VectorDescriptor:
    """The `deletionVector` of an add action."""

    storage_type: str
    path_or_inline: str
    offset: int | None
    size: int
    cardinality: int

    @classmethod
    def from_json(cls, obj: Mapping[str, Any]) -> VectorDescriptor:
        """Return the descriptor of an action's fields.

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
        batch = type(self._bitmap)(range(start, start + length))
        deleted = np.frombuffer((self._bitmap & batch).to_array(), np.uint64)
        mask = np.ones(length, np.bool_)
        mask[deleted.astype(np.int64) - start] = False
        return from_mask(mask)

    def union(self, positions: Any) -> Any:
        """Return a new 64-bit bitmap of these rows and those of another bitmap."""
        return self._bitmap | positions

    def extends(self, other: DeletedRows | None, *, without: Any) -> bool:
        """Whether these are all rows of another vector, and none of a bitmap of positions."""
        has_all = other is None or len(other.union(self._bitmap)) == self.count
        return bool(has_all and self._bitmap.isdisjoint(without))

    def serialized(self) -> bytes:
        """Return the rows as a 64-bit Roaring bitmap in the portable format."""
        return bytes(self._bitmap.serialize())

    def ranges(self) -> np.ndarray:
        """Return runs of deleted rows: an array of first rows and ends, shape (runs, 2).

        Raises:
            BadVectorError: There are too many rows to expand.
        """
        if self.count > tuning.MAX_EXPANDED_ROWS:
            raise BadVectorError(f"its {self.count} rows are too many to list as ranges")
        rows = np.frombuffer(self._bitmap.to_array(), np.uint64).astype(np.int64)
        cuts = np.flatnonzero(np.diff(rows) > 1)
        firsts = rows[np.append(0, cuts + 1)] if len(rows) else rows
        ends = rows[np.append(cuts, len(rows) - 1)] + 1 if len(rows) else rows
        return np.stack([firsts, ends], axis=1)

    def positions(self) -> list[int]:
        """Return the deleted positions; for tests and debugging."""
        return list(self._bitmap)


def z85_decode(encoded: str, size: int | None = None) -> bytes:
    """Return the bytes of a Z85 string.

    The Rust crate `z85` pads the last group with leading `#`, one for each missing byte. No other
    group begins with it (its value would exceed 32 bits), so that form is accepted too.

    >>> z85_decode("HelloWorld").hex()
    '864fd26fb559f75b'

    Args:
        encoded: The string.
        size: The number of bytes; None returns all.

    Raises:
        BadVectorError: Not Z85, or too short for `size`.
    """
    count = len(encoded)
    if count % 5:
        raise BadVectorError(f"its Z85 string has {count} characters, not a multiple of five")
    groups = [_z85_group(encoded[end - 5 : end], end == count) for end in range(5, count + 1, 5)]
    data = b"".join(groups)
    if size is None:
        return data
    if size > len(data) or size < len(data) - 3:
        raise BadVectorError(f"its Z85 string has {len(data)} bytes where {size} are declared")
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
    """Return the rows of a serialized bitmap array.

    Raises:
        BadVectorError: It is damaged, or has another number of rows than declared.
    """
    from pyroaring import BitMap64

    if len(payload) < _MIN_PAYLOAD:
        raise BadVectorError(f"{len(payload)} bytes are too few")
    (magic,) = struct.unpack_from("<i", payload)
    if magic != _MAGIC:
        native = struct.unpack_from(">i", payload)[0] == _NATIVE_MAGIC or magic == _NATIVE_MAGIC
        kind = (
            "Java's native format, which the protocol does not allow" if native else "not a bitmap"
        )
        raise BadVectorError(f"its magic number is {magic}: {kind}")
    (buckets,) = struct.unpack_from("<Q", payload, 4)
    if buckets * 12 > len(payload):  # a key and an empty 32-bit bitmap each
        raise BadVectorError(f"it claims {buckets} buckets in {len(payload)} bytes")
    try:
        rows = DeletedRows(BitMap64.deserialize(bytes(payload[4:])))
    except (ValueError, MemoryError, OverflowError) as error:
        raise BadVectorError(f"its bitmap cannot be deserialized ({error})") from None
    if rows.count != cardinality:
        raise BadVectorError(f"it lists {rows.count} rows where {cardinality} are declared")
    if rows.last >= 2**63:
        raise BadVectorError(f"row {rows.last} is out of range")
    return rows


def _entry_payload(view: memoryview, size: int) -> bytes:
    """Return the payload of an entry of a `.bin` file: length, payload, checksum."""
    if view.nbytes != size + _FRAME:
        raise BadVectorError(f"its file is shorter than its {size} bytes")
    (length,) = struct.unpack_from(">i", view)
    if length != size:
        raise BadVectorError(f"the entry has {length} bytes where {size} are declared")
    payload = bytes(view[4:-4])
    if zlib.crc32(payload) != struct.unpack_from(">I", view, size + 4)[0]:
        raise BadVectorError("its checksum does not match: the file is damaged")
    return payload


def _location(descriptor: VectorDescriptor, resolver: PathResolver) -> Location:
    where = descriptor.path_or_inline
    if descriptor.storage_type == "p":
        return resolver.to_open(where)
    if descriptor.storage_type != "u":
        raise BadVectorError(f"its storage type is {descriptor.storage_type!r}")
    return resolver.to_open(DeletionVectorGroup.file_name(where), decoded=True)


class DeletionVectorGroup:
    """The deletion vectors of some files, fetched on first use.

    Vectors of one `.bin` file are fetched in one call to the store, several files in parallel. Each
    vector is returned once and then released. Thread-safe.

    Args:
        vectors: For each file its path, for errors, and its `deletionVector` or None.
        resolver: Resolves the paths of vector files.
        store_for: Returns the store of a location.
    """

    @staticmethod
    def file_name(path_or_inline: str) -> str:
        """Return the plain path of the file of a relative vector (storage type `u`).

        Raises:
            BadVectorError: The descriptor does not name a file.
        """
        if len(path_or_inline) < _UUID_CHARACTERS:
            raise BadVectorError(f"{path_or_inline!r} is too short to name its file")
        prefix, encoded = path_or_inline[:-_UUID_CHARACTERS], path_or_inline[-_UUID_CHARACTERS:]
        name = f"deletion_vector_{uuid.UUID(bytes=z85_decode(encoded))}.bin"
        return f"{prefix}/{name}" if prefix else name

    def __init__(
        self,
        vectors: Sequence[tuple[str, Mapping[str, Any] | None]],
        resolver: PathResolver,
        store_for: Callable[[Location], Store],
    ) -> None:
        self._vectors = vectors
        self._resolver = resolver
        self._store_for = store_for
        self._pending: dict[Location, list[tuple[int, VectorDescriptor]]] = {}
        self._fetches: dict[Location, Future[None]] = {}
        self._payloads: dict[int, bytes | DeletionVectorError] = {}
        self._lock = threading.Lock()

    def take(self, index: int) -> DeletedRows | None:
        """Return the deleted rows of a file, by its index in the group; None without a vector.

        Raises:
            DeletionVectorError: It is missing or damaged, or contradicts the log.
            PathNotAllowedError: Its path is outside of the table and not allowed.
        """
        path, raw = self._vectors[index]
        if raw is None:
            return None
        try:
            descriptor = VectorDescriptor.from_json(raw)
            if descriptor.storage_type == "i":
                payload = z85_decode(descriptor.path_or_inline, descriptor.size)
            else:
                payload = self._stored(index, _location(descriptor, self._resolver))
            return parse_vector(payload, descriptor.cardinality)
        except BadVectorError as error:
            raise DeletionVectorError(self._resolver.root, path, str(error)) from None

    def request(self, index: int) -> None:
        """Start to fetch a vector that is in a remote store; `take` waits for it.

        An error is raised by `take`.
        """
        _, raw = self._vectors[index]
        if raw is None or raw.get("storageType") == "i":
            return
        try:
            location = _location(VectorDescriptor.from_json(raw), self._resolver)
        except (BadVectorError, PathNotAllowedError):
            return
        if is_local(self._store_for(location)):
            return
        fetch, is_new = self._claim(location)
        if is_new:
            threading.Thread(
                target=self._run, args=(location, fetch), name="lazydelta-vectors", daemon=True
            ).start()

    def _stored(self, index: int, location: Location) -> bytes:
        fetch, is_new = self._claim(location)
        if is_new:
            self._run(location, fetch)
        try:
            fetch.result()
        except BaseException:
            self._fetches.pop(location, None)  # the next call tries again
            raise
        payload = self._payloads.pop(index)
        if isinstance(payload, DeletionVectorError):
            raise payload
        return payload

    def _claim(self, location: Location) -> tuple[Future[None], bool]:
        """Return the future of the vectors of a `.bin` file, and whether the caller runs it."""
        with self._lock:
            if not self._pending:
                self._pending = self._by_location()
            is_new = location not in self._fetches
            return self._fetches.setdefault(location, Future()), is_new

    def _run(self, location: Location, fetch: Future[None]) -> None:
        """Fetch the vectors of a `.bin` file; the future gets the error."""
        try:
            self._fetch(location, self._pending[location])
        except BaseException as error:  # noqa: BLE001 - raised by `take`
            fetch.set_exception(error)
        else:
            fetch.set_result(None)

    def _by_location(self) -> dict[Location, list[tuple[int, VectorDescriptor]]]:
        """Return the stored vectors by their file, without those that `take` will refuse."""
        pending: dict[Location, list[tuple[int, VectorDescriptor]]] = defaultdict(list)
        for index, (_, raw) in enumerate(self._vectors):
            if raw is None:
                continue
            try:
                descriptor = VectorDescriptor.from_json(raw)
                if descriptor.storage_type != "i":
                    pending[_location(descriptor, self._resolver)].append((index, descriptor))
            except (BadVectorError, PathNotAllowedError):
                continue
        return pending

    def _fetch(self, file: Location, vectors: Sequence[tuple[int, VectorDescriptor]]) -> None:
        starts = [_FIRST_ENTRY if d.offset is None else d.offset for _, d in vectors]
        ranges = [(s, s + d.size + _FRAME) for s, (_, d) in zip(starts, vectors, strict=True)]
        entries: Sequence[Any]
        try:
            entries = read_cached(self._store_for(file), file.path, ranges)
        except (TransientStoreError, StoreAccessError):
            raise
        except StoreError:  # one range may be invalid: read each alone
            entries = [None] * len(ranges)
        for (index, descriptor), byte_range, entry in zip(vectors, ranges, entries, strict=True):
            try:
                data = self._fetch_one(file, byte_range) if entry is None else memoryview(entry)
                self._payloads[index] = _entry_payload(data, descriptor.size)
            except BadVectorError as error:
                reason = f"{error} (in {file.path})"
                path = self._vectors[index][0]
                self._payloads[index] = DeletionVectorError(self._resolver.root, path, reason)

    def _fetch_one(self, file: Location, byte_range: tuple[int, int]) -> memoryview:
        try:
            return memoryview(self._store_for(file).read_ranges(file.path, [byte_range])[0])
        except ObjectNotFoundError:
            raise BadVectorError("its file is missing") from None
        except (TransientStoreError, StoreAccessError):
            raise
        except StoreError as error:
            raise BadVectorError(f"its bytes cannot be read: {error.reason}") from None
