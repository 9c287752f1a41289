"""Request and byte counts of a store, as a wrapper."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import pyarrow as pa

from lazydelta import metrics
from lazydelta.errors import StoreError
from lazydelta.store import tuning
from lazydelta.store.interface import list_level, list_tree
from lazydelta.store.ranges import open_ranges
from lazydelta.store.uploads import Output, open_output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lazydelta.metrics import Observer, StoreCalled
    from lazydelta.store.interface import Buffer, Level, ObjectMeta, Store

__all__ = ["MeteredStore", "RequestTotals", "request_totals"]

R = TypeVar("R")


class RequestTotals(NamedTuple):
    """Totals of the requests to a store."""

    requests: int
    bytes_read: int
    depth: int
    """Dependency depth: the longest chain of calls in which each waited for the one before."""

    def since(self, start: RequestTotals) -> RequestTotals:
        """Return what was added since earlier totals."""
        return RequestTotals(*(now - then for now, then in zip(self, start, strict=True)))


def request_totals(store: Store | None) -> RequestTotals | None:
    """Return the totals of a store; None if it does not count, such as most local stores."""
    while store is not None:
        if isinstance(store, MeteredStore):
            return RequestTotals(store.requests, store.bytes_read, store.depth)
        store = getattr(store, "inner", None)
    return None


class MeteredStore:
    """A `Store` that counts each call and reports it to an observer.

    Each page of a listing, each range of `read_ranges` and each read of a file of `open_input`
    counts as one request, however the wrapped store performs them. Failed calls count.
    """

    def __init__(self, inner: Store, observer: Observer | None = None) -> None:
        self._inner = inner
        self._observer = observer
        self._lock = threading.Lock()
        self.calls: deque[StoreCalled] = deque(maxlen=tuning.KEPT_CALLS)
        """The last calls, in order of completion."""
        self.requests = 0
        """Number of requests of all operations."""
        self.bytes_read = 0
        """Bytes of objects read."""
        self.depth = 0
        """Longest chain of calls in which each started after the one before had ended."""

    @property
    def inner(self) -> Store:
        """The wrapped store."""
        return self._inner

    @property
    def root(self) -> str:
        """The root of the wrapped store."""
        return self._inner.root

    def requests_by_operation(self) -> dict[str, int]:
        """Return the number of requests per operation."""
        counts: Counter[str] = Counter()
        for call in self.calls:
            counts[call.operation] += call.requests
        return dict(counts)

    def bytes_by_path(self) -> dict[str, int]:
        """Return the bytes read per object."""
        counts: Counter[str] = Counter()
        for call in self.calls:
            if call.operation == "read":
                counts[call.path] += call.bytes
        return dict(counts)

    def reset(self) -> None:
        """Forget all calls."""
        with self._lock:
            self.calls.clear()
            self.requests = self.bytes_read = self.depth = 0

    def __repr__(self) -> str:
        return f"MeteredStore({self._inner!r}, {self.requests} requests, {self.bytes_read} bytes)"

    def __reduce__(self) -> tuple[type[MeteredStore], tuple[Store]]:
        """Drop counts and observer: they belong to this process."""
        return (MeteredStore, (self._inner,))

    def list_from(self, directory: str, *, after: str | None = None) -> Iterator[pa.RecordBatch]:
        """List, counting each fetched page; an empty listing counts as one."""
        return self._counted_pages(directory, self._inner.list_from(directory, after=after))

    def list_tree(self, *, after: str = "", within: str = "") -> Iterator[pa.RecordBatch]:
        """List all directories, counting each fetched page."""
        pages = list_tree(self._inner, after=after, within=within)
        return self._counted_pages(within, pages)

    def list_level(self, directory: str) -> Level:
        """List one directory, counting one page."""
        return self._counted(
            "list", directory, lambda: list_level(self._inner, directory), 1, lambda _: 0
        )

    def _counted_pages(
        self, directory: str, pages: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        fetched = False
        try:
            while True:
                start = self._start()
                try:
                    page = next(pages, None)
                except StoreError:
                    self._count("list", directory, 1, 0, start)
                    raise
                if page is not None or not fetched:
                    self._count("list", directory, 1, 0, start)
                if page is None:
                    return
                fetched = True
                yield page
        finally:
            if hasattr(pages, "close"):
                pages.close()

    def head(self, path: str) -> ObjectMeta:
        """Return the metadata of an object, counted."""
        return self._counted("head", path, lambda: self._inner.head(path), 1, lambda _: 0)

    def read(self, path: str) -> Buffer:
        """Read an object, counted."""
        return self._counted("read", path, lambda: self._inner.read(path), 1, _length)

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        """Read ranges, counted."""
        return self._counted(
            "read",
            path,
            lambda: self._inner.read_ranges(path, ranges),
            len(ranges),
            lambda buffers: sum(map(_length, buffers)),
        )

    def open_input(self, path: str, *, size: int | None = None) -> pa.NativeFile:
        """Open a file with counted reads; counts the request for its size, if one is needed."""
        if size is None and not getattr(self._inner, "native_files", False):
            size = self.head(path).size
        file = self._counted(
            "open", path, lambda: self._inner.open_input(path, size=size), 0, lambda _: 0
        )

        def read_range(start: int, end: int) -> pa.Buffer:
            return self._counted("read", path, lambda: file.read_at(end - start, start), 1, _length)

        return open_ranges(read_range, file.size())

    def write(self, path: str, data: Buffer, *, overwrite: bool) -> None:
        """Write an object, counted."""
        self._counted(
            "write",
            path,
            lambda: self._inner.write(path, data, overwrite=overwrite),
            1,
            lambda _: _length(data),
        )

    def open_output(self, path: str) -> Output:
        """Open a new object, counted as one request when it is published."""
        return _MeteredOutput(self, path, open_output(self._inner, path))

    def delete(self, paths: Sequence[str]) -> None:
        """Delete objects, counted."""
        label = paths[0] if len(paths) == 1 else f"{len(paths)} objects"
        self._counted("delete", label, lambda: self._inner.delete(paths), len(paths), lambda _: 0)

    def _counted(
        self,
        operation: str,
        path: str,
        run: Callable[[], R],
        requests: int,
        size: Callable[[R], int],
    ) -> R:
        start = self._start()
        try:
            result = run()
        except Exception:
            self._count(operation, path, requests, 0, start)
            raise
        self._count(operation, path, requests, size(result), start)
        return result

    def _start(self) -> tuple[float, int]:
        """Return the time, and the depth of a call that starts now."""
        return time.perf_counter(), self.depth + 1

    def _count(
        self, operation: str, path: str, requests: int, size: int, start: tuple[float, int]
    ) -> None:
        started, depth = start
        call = metrics.StoreCalled(
            operation=operation,
            path=path,
            requests=requests,
            bytes=size,
            seconds=time.perf_counter() - started,
            depth=depth,
        )
        with self._lock:
            self.calls.append(call)
            self.requests += requests
            self.bytes_read += size if operation == "read" else 0
            if requests:
                self.depth = max(self.depth, depth)
        metrics.notify(self._observer, call)


class _MeteredOutput:
    """An output that counts as a write of its bytes when it is published."""

    def __init__(self, store: MeteredStore, path: str, inner: Output) -> None:
        self._store = store
        self._path = path
        self._inner = inner

    @property
    def file(self) -> pa.NativeFile:
        return self._inner.file

    def publish(self) -> None:
        size = self.file.tell()
        self._store._counted("write", self._path, self._inner.publish, 1, lambda _: size)  # noqa: SLF001 - same module

    def discard(self) -> None:
        self._inner.discard()


def _length(data: Buffer) -> int:
    return data.size if isinstance(data, pa.Buffer) else memoryview(data).nbytes
