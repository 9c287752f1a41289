"""A store that requests every byte of an immutable object once, and reads ahead."""

from __future__ import annotations

import math
import os
import threading
from collections import OrderedDict
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lazydelta._parallel import start_thread
from lazydelta.errors import ScanCancelledError, TransientStoreError
from lazydelta.store import tuning
from lazydelta.store.deadlines import check_cancelled, remaining_seconds, wait_for
from lazydelta.store.interface import check_writable, list_level, list_tree
from lazydelta.store.ranges import open_ranges
from lazydelta.store.uploads import Output, open_output

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from lazydelta.store.interface import Buffer, Level, ObjectMeta, Store
    from lazydelta.store.layers.disk_cache import DiskCache

__all__ = ["CachingStore", "disk_cache_of", "prefetch", "read_cached"]


@dataclass(slots=True, eq=False)
class _Block:
    """A range of an object that is cached or under way."""

    start: int
    end: int | None
    """None for a whole object."""
    data: Future[pa.Buffer] = field(default_factory=Future)
    size: int = 0
    """Bytes in memory."""

    def covers(self, start: int, end: int | None) -> bool:
        if self.end is None:
            return True
        return end is not None and self.start <= start and end <= self.end

    def wait(self, path: str) -> pa.Buffer:
        """Return the bytes; the request may be another thread's, the deadline is the caller's."""
        if not self.data.done():
            seconds = remaining_seconds()
            wait_for(self.data, None if seconds == math.inf else seconds)
        try:
            return self.data.result(0)
        except TimeoutError:
            raise TransientStoreError(path, "the store did not answer in time") from None
        except ScanCancelledError:
            check_cancelled()
            raise TransientStoreError(path, "the scan that requested it was cancelled") from None


class CachingStore:
    """A `Store` with a cache in memory and requests ahead of need.

    Reads of the same bytes by several threads share one request. The cache holds objects that are
    never changed under their name; if a listing or a caller shows another size, the cached bytes
    are dropped.

    Args:
        inner: The wrapped store.
        directory: Objects in it and below it are cached.
        mutable: Paths of objects in it that may change, which are not.
        unique: Directory whose names are never used again, so that they identify their objects.
            Other objects are identified by size and modification time of the last listing.
        memory_limit: Maximum bytes of the cache; the least recently used objects are dropped.
        disk: A second cache, of objects that were identified.
    """

    def __init__(
        self,
        inner: Store,
        *,
        directory: str,
        mutable: Collection[str],
        unique: str,
        memory_limit: int,
        disk: DiskCache | None = None,
    ) -> None:
        self._inner = inner
        self._directory = directory
        self._mutable = mutable
        self._unique = unique
        self._disk = disk
        self._memory_limit = memory_limit
        self._lock = threading.Lock()
        self._objects: OrderedDict[str, list[_Block]] = OrderedDict()
        self._held = 0
        self._identities: dict[str, tuple[int, int]] = {}
        self._process = os.getpid()

    @property
    def inner(self) -> Store:
        """The wrapped store."""
        return self._inner

    @property
    def disk(self) -> DiskCache | None:
        """The cache in a local directory, if there is one."""
        return self._disk

    @property
    def root(self) -> str:
        """The root of the wrapped store."""
        return self._inner.root

    def __repr__(self) -> str:
        return f"CachingStore({self._inner!r})"

    def __reduce__(self) -> tuple[Callable[..., CachingStore], tuple[Store]]:
        """Drop the cached bytes: they belong to this process."""
        build = partial(
            CachingStore,
            directory=self._directory,
            mutable=self._mutable,
            unique=self._unique,
            disk=self._disk,
            memory_limit=self._memory_limit,
        )
        return build, (self._inner,)

    def prefetch(self, path: str, first: int = 0, end: int | None = None) -> None:
        """Request a range of an object, by default all of it, without waiting for it.

        Each request has its own thread: callers bound their number. Only immutable objects are
        prefetched. An error is raised by the read that needs the bytes.
        """
        if self._is_cached(path):
            block, is_new = self._claim(path, first, end)
            if is_new:
                start_thread(partial(self._fetch, path, block))

    def list_tree(self, *, after: str = "", within: str = "") -> Iterator[pa.RecordBatch]:
        """List all directories."""
        return list_tree(self._inner, after=after, within=within)

    def list_level(self, directory: str) -> Level:
        """List one directory."""
        return list_level(self._inner, directory)

    def list_from(self, directory: str, *, after: str | None = None) -> Iterator[pa.RecordBatch]:
        """List; objects with another size or modification time than before are dropped."""
        for batch in self._inner.list_from(directory, after=after):
            rows = zip(
                batch.column(0).to_pylist(),
                batch.column(1).to_pylist(),
                batch.column(2).cast("int64").to_pylist(),
                strict=True,
            )
            with self._lock:
                for path, size, modified in rows:
                    if path in self._objects and self._identities.get(path) != (size, modified):
                        self._forget(path)
                    self._identities[path] = (size, modified)
            yield batch

    def head(self, path: str) -> ObjectMeta:
        """Return the metadata of an object."""
        return self._inner.head(path)

    def read(self, path: str) -> Buffer:
        """Read an object, from the cache if it is there."""
        if not self._is_cached(path):
            return self._inner.read(path)
        block, is_new = self._claim(path, 0, None)
        if is_new:
            self._fetch(path, block)
        return block.wait(path)

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        """Read ranges; those that are not cached are requested together."""
        if not self._is_cached(path):
            return self._inner.read_ranges(path, ranges)
        with self._lock:
            blocks = self._objects.get(path, ())
            hits = [next((b for b in blocks if b.covers(*span)), None) for span in ranges]
        missing = [span for span, block in zip(ranges, hits, strict=True) if block is None]
        fetched = iter(self._request(path, missing))
        buffers: list[Buffer] = []
        for (start, end), hit in zip(ranges, hits, strict=True):
            if hit is None:
                data = next(fetched)
                if data.size <= tuning.CACHED_BLOCK_BYTES:
                    block = _Block(start, end)
                    self._register(path, block)
                    self._complete(path, block, data)
                buffers.append(data)
            else:
                buffers.append(hit.wait(path).slice(start - hit.start, end - start))
        return buffers

    def open_input(self, path: str, *, size: int | None = None) -> pa.NativeFile:
        """Open for random reads, which go through the cache."""
        length = self.head(path).size if size is None else size
        return open_ranges(
            lambda start, end: _as_buffer(self.read_ranges(path, [(start, end)])[0]), length
        )

    def check_writable(self, directory: str) -> None:
        """Refuse a directory that is known to be read-only."""
        check_writable(self._inner, directory)

    def write(self, path: str, data: Buffer, *, overwrite: bool) -> None:
        """Write an object; what was cached of it is dropped."""
        self._inner.write(path, data, overwrite=overwrite)
        self._drop(path)

    def open_output(self, path: str) -> Output:
        """Open a new object; new objects are not cached."""
        return open_output(self._inner, path)

    def delete(self, paths: Sequence[str]) -> None:
        """Delete objects; what was cached of them is dropped."""
        self._inner.delete(paths)
        for path in paths:
            self._drop(path)

    def _is_cached(self, path: str) -> bool:
        return path.startswith(f"{self._directory}/") and path not in self._mutable

    def _claim(self, path: str, start: int, end: int | None) -> tuple[_Block, bool]:
        """Return the block with a range, and whether the caller has to fetch it."""
        with self._lock:
            self._leave_parent()
            for block in self._objects.get(path, ()):
                if block.covers(start, end):
                    self._objects.move_to_end(path)
                    return block, False
            block = _Block(start, end)
            self._objects.setdefault(path, []).append(block)
            return block, True

    def _register(self, path: str, block: _Block) -> None:
        with self._lock:
            self._objects.setdefault(path, []).append(block)

    def _fetch(self, path: str, block: _Block) -> None:
        """Request a block; its future has the bytes or the error."""
        try:
            (data,) = self._request(path, [(block.start, block.end)])
        except BaseException as error:  # noqa: BLE001 - raised in the thread that reads
            self._drop(path)
            block.data.set_exception(error)
            return
        self._complete(path, block, data)

    def _request(self, path: str, ranges: Sequence[tuple[int, int | None]]) -> list[pa.Buffer]:
        """Return ranges from the disk cache, and the others by one call of the wrapped store."""
        identity = self._identity(path)
        disk = None if identity is None else self._disk
        key = (self.root, path, identity)
        blocks = [None if disk is None else disk.get(*key, *span) for span in ranges]
        missing = [span for span, block in zip(ranges, blocks, strict=True) if block is None]
        fetched = iter(self._read_inner(path, missing))
        for index, span in enumerate(ranges):
            if blocks[index] is None:
                blocks[index] = data = _as_buffer(next(fetched))
                if disk is not None:
                    disk.put(data, *key, *span)
        return [block for block in blocks if block is not None]

    def _read_inner(self, path: str, ranges: Sequence[tuple[int, int | None]]) -> Sequence[Buffer]:
        if any(end is None for _, end in ranges):
            return [self._inner.read(path)]
        spans = [(start, end) for start, end in ranges if end is not None]
        return self._inner.read_ranges(path, spans) if spans else []

    def _identity(self, path: str) -> tuple[int, int] | None:
        """Return what identifies an object besides its path; None if that is unknown."""
        if path.startswith(f"{self._unique}/"):
            return (0, 0)
        with self._lock:
            return self._identities.get(path)

    def _complete(self, path: str, block: _Block, data: pa.Buffer) -> None:
        """Publish the bytes of a block, and drop the least recently used objects above the limit.

        A block whose object was dropped meanwhile is not cached again.
        """
        block.data.set_result(data)
        with self._lock:
            if block not in self._objects.get(path, ()):
                return
            block.size = data.size
            self._held += data.size
            while self._held > self._memory_limit and self._objects:
                self._forget(next(iter(self._objects)))

    def _drop(self, path: str) -> None:
        with self._lock:
            self._forget(path)

    def _forget(self, path: str) -> None:
        self._held -= sum(block.size for block in self._objects.pop(path, ()))

    def _leave_parent(self) -> None:
        """In a forked child, forget the requests of the parent: its threads do not exist here."""
        if os.getpid() != self._process:
            self._process = os.getpid()
            self._objects.clear()
            self._held = 0


def prefetch(store: Store, path: str, first: int = 0, end: int | None = None) -> None:
    """Request a range of an object, by default all of it, without waiting for it.

    Does nothing for stores that do not cache, such as local ones.
    """
    if isinstance(store, CachingStore):
        store.prefetch(path, first, end)


def disk_cache_of(store: Store) -> DiskCache | None:
    """Return the disk cache below a store, if it has one."""
    layer: Any = store
    while layer is not None and not isinstance(layer, CachingStore):
        layer = getattr(layer, "inner", None)
    return None if layer is None else layer.disk


def read_cached(store: Store, path: str, ranges: Sequence[tuple[int, int]]) -> Sequence[Buffer]:
    """Read ranges of an object whose name is never used again, through the disk cache."""
    disk = disk_cache_of(store)
    if disk is None:
        return store.read_ranges(path, ranges)
    blocks: list[Buffer | None] = [disk.get(store.root, path, *span) for span in ranges]
    missing = [span for span, block in zip(ranges, blocks, strict=True) if block is None]
    fetched = iter(store.read_ranges(path, missing) if missing else ())
    for index, span in enumerate(ranges):
        if blocks[index] is None:
            blocks[index] = data = _as_buffer(next(fetched))
            disk.put(data, store.root, path, *span)
    return [block for block in blocks if block is not None]


def _as_buffer(data: Buffer) -> pa.Buffer:
    return data if isinstance(data, pa.Buffer) else pa.py_buffer(data)
