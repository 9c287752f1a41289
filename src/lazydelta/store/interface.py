"""The `Store` protocol.

A store is rooted at a table. Paths are relative to the root, use `/` and are *plain*, never
percent-encoded: `protocol.paths` decodes the paths of the log, and an implementation encodes
them for its requests. No other room imports obstore. Code that opens local files itself gets their
path from `local_path`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

import pyarrow as pa

from lazydelta.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = [
    "LISTING_SCHEMA",
    "Buffer",
    "Level",
    "ObjectMeta",
    "Store",
    "check_writable",
    "is_local",
    "list_level",
    "list_tree",
    "lists_from_offsets",
    "local_path",
]

Buffer: TypeAlias = bytes | bytearray | memoryview | pa.Buffer

Level: TypeAlias = tuple[list[str], list[pa.RecordBatch]]
"""Directories and objects directly in a directory."""

LISTING_SCHEMA = pa.schema(
    [("path", pa.string()), ("size", pa.int64()), ("modified", pa.timestamp("ms", "UTC"))]
)
"""Schema of the batches of a listing; `path` is relative to the store's root."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectMeta:
    """Path, size and modification time of an object."""

    path: str
    size: int
    modified_ms: int
    etag: str | None = None
    """Identity of its bytes, if the store has one: it changes when the object is replaced."""


class Store(Protocol):
    """An object store rooted at a table.

    Implementations raise `StoreError`s only, keep secrets out of `repr`, and are thread-safe.
    Test one with `lazydelta.testing.StoreContract`.
    """

    @property
    def root(self) -> str:
        """The table's absolute path or URL, without secrets and without a trailing slash."""

    def list_from(self, directory: str, *, after: str | None = None) -> Iterator[pa.RecordBatch]:
        """Yield `LISTING_SCHEMA` batches of the objects directly in `directory`, sorted by path.

        Only names greater than `after` (a name without directory) are listed. Lazy: a caller that
        stops early saves the remaining requests. A missing directory is empty.
        """

    def head(self, path: str) -> ObjectMeta:
        """Return the metadata of an object, or raise `ObjectNotFoundError`."""

    def read(self, path: str) -> Buffer:
        """Read a whole object."""

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        """Read the `(start, end)` ranges of an object, in that order; close ones are coalesced."""

    def open_input(self, path: str, *, size: int | None = None) -> pa.NativeFile:
        """Open for random reads; a known `size` saves a request."""

    def write(self, path: str, data: Buffer, *, overwrite: bool) -> None:
        """Write atomically. With `overwrite=False`, raise `ObjectExistsError` if it exists."""

    def delete(self, paths: Sequence[str]) -> None:
        """Delete objects; a missing one is not an error."""


def local_path(store: Store, path: str) -> str | None:
    """Return the local path of an object, for libraries that open files themselves.

    None if the store is remote, or if a wrapper has to observe every request.
    """
    resolve: Callable[[str], str | None] | None = getattr(store, "local_path", None)
    return None if resolve is None else resolve(path)


def list_tree(store: Store, *, after: str = "", within: str = "") -> Iterator[pa.RecordBatch]:
    """Yield `LISTING_SCHEMA` batches of all objects in all directories, sorted by path.

    Only paths greater than `after` are listed, and only those below the directory `within`. Lazy,
    as `Store.list_from`; symbolic links to directories are not followed.

    Raises:
        UnsupportedOperationError: The store has no `list_tree`, which a `Store` need not have.
    """
    listed: Callable[..., Iterator[pa.RecordBatch]] | None = getattr(store, "list_tree", None)
    if listed is None:
        kind = type(store).__name__
        cure = f"implement {kind}.list_tree, or give an inventory of the objects"
        raise UnsupportedOperationError(f"listing all objects of a {kind}", cure)
    return listed(after=after, within=within) if within else listed(after=after)


def list_level(store: Store, directory: str) -> Level:
    """Return the directories directly in a directory, and its objects in `LISTING_SCHEMA` batches.

    Both are complete in memory, unsorted, and have paths relative to the store's root.

    Raises:
        UnsupportedOperationError: The store has no `list_level`, which a `Store` need not have.
    """
    level: Callable[[str], Level] | None = getattr(store, "list_level", None)
    if level is None:
        kind = type(store).__name__
        raise UnsupportedOperationError(
            f"listing the directories of a {kind}", f"implement {kind}.list_level"
        )
    return level(directory)


def lists_from_offsets(store: Store) -> bool:
    """Whether a listing that starts after a path skips the pages before it."""
    inner = store
    while (wrapped := getattr(inner, "inner", None)) is not None:
        inner = wrapped
    return bool(getattr(inner, "lists_from_offsets", False))


def check_writable(store: Store, directory: str) -> None:
    """Refuse a directory that the store knows to be read-only, without a request.

    Raises:
        StoreAccessError: Files cannot be created there.
    """
    check: Callable[[str], None] | None = getattr(store, "check_writable", None)
    if check is not None:
        check(directory)


def is_local(store: Store) -> bool:
    """Whether a store is a local directory: requests have no latency and no price."""
    return store.root.startswith("/")
