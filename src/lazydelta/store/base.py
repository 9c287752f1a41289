"""The boundary to storage: one Protocol, small enough to hold in the head.

A store is rooted at a table; paths are relative to it, use `/` and are *plain* (never
percent-encoded): decoding what a log says is `protocol.data_paths`' job, encoding for the wire the
implementation's. Nothing above this room imports obstore; what opens a local file of a table by
itself has its path from `local_path`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["LISTING", "Buffer", "ObjectMeta", "Store", "check_writable", "is_local", "local_path"]

Buffer: TypeAlias = bytes | bytearray | memoryview | pa.Buffer

LISTING = pa.schema(
    [("path", pa.string()), ("size", pa.int64()), ("modified", pa.timestamp("ms", "UTC"))]
)
"""What a listing yields; `path` is relative to the store's root."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectMeta:
    """What a store knows of one object."""

    path: str
    size: int
    modified_ms: int


class Store(Protocol):
    """An object store rooted at a table.

    Implementations translate their own errors into `StoreError`s, keep secrets out of `repr`,
    and are safe to use from several threads. Prove one with `lazydelta.testing.StoreContract`.
    """

    @property
    def root(self) -> str:
        """The table's address: absolute, without secrets and without a trailing slash."""

    def list_from(self, directory: str, *, after: str | None = None) -> Iterator[pa.RecordBatch]:
        """Yield `LISTING` batches of the objects directly in `directory`, sorted by path.

        Only names greater than `after` (a bare name) are given. Lazy: a caller that stops early
        saves the remaining pages. A directory that does not exist is an empty one.
        """

    def head(self, path: str) -> ObjectMeta:
        """Return size and time of one object, or raise `ObjectNotFoundError`."""

    def read(self, path: str) -> Buffer:
        """Read a whole object."""

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        """Read the `(start, end)` ranges of an object, in their order; near ones are merged."""

    def open_input(self, path: str, *, size: int | None = None) -> pa.NativeFile:
        """Open for random reads, as Parquet needs; `size` saves a request where it is known."""

    def write(self, path: str, data: Buffer, *, overwrite: bool) -> None:
        """Write atomically. With `overwrite=False`, raise `ObjectExistsError` if present."""

    def delete(self, paths: Sequence[str]) -> None:
        """Remove objects; one that is already gone is not an error."""


def local_path(store: Store, path: str) -> str | None:
    """Return where an object is on this machine, for libraries that open files themselves.

    None if it is not on this machine, or whoever reads it wants to see every request.
    """
    find: Callable[[str], str | None] | None = getattr(store, "local_path", None)
    return None if find is None else find(path)


def check_writable(store: Store, directory: str) -> None:
    """Refuse a directory that the store knows to be read-only, without a request.

    Raises:
        StoreAccessError: Files cannot be created there.
    """
    check: Callable[[str], None] | None = getattr(store, "check_writable", None)
    if check is not None:
        check(directory)


def is_local(store: Store) -> bool:
    """Whether a store is a directory of this machine: nothing is waited for, or paid by request."""
    return store.root.startswith("/")
