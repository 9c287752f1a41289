"""Retries of store requests, as a wrapper: exponential backoff with jitter, and one deadline."""

from __future__ import annotations

import random
from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast

from lazydelta.errors import TransientStoreError
from lazydelta.store.deadlines import call_deadline, pause, remaining_seconds
from lazydelta.store.interface import check_writable, is_local, list_level, list_tree, local_path
from lazydelta.store.ranges import open_ranges
from lazydelta.store.uploads import Output, open_output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from lazydelta.config import Config
    from lazydelta.errors import StoreError
    from lazydelta.store.cloud.object_store import ObjectStore
    from lazydelta.store.cloud.resumable_read import ResumableRead
    from lazydelta.store.interface import Buffer, Level, ObjectMeta, Store

__all__ = ["RetryingStore", "retried_store"]

R = TypeVar("R")


class RetryingStore:
    """A `Store` with retries: exponential backoff with jitter, bounded by attempts and time.

    The only layer that retries. A call ends within `request_deadline_seconds`; a long read, which
    resumes where it failed, has that time for each part of it.

    By default only a `TransientStoreError` is retried. A write with
    `overwrite=False` never is, because its first attempt may have succeeded; the committer
    resolves that.

    Args:
        inner: The wrapped store.
        config: How often and how fast to retry.
        sleep: The sleep function; tests replace it.
        errors: Which errors to retry.
    """

    def __init__(
        self,
        inner: Store,
        config: Config,
        sleep: Callable[[float], None] = pause,
        *,
        errors: tuple[type[StoreError], ...] = (TransientStoreError,),
    ) -> None:
        self._inner = inner
        self._config = config
        self._sleep = sleep
        self._errors = errors

    @property
    def inner(self) -> Store:
        """The wrapped store."""
        return self._inner

    @property
    def root(self) -> str:
        """The root of the wrapped store."""
        return self._inner.root

    @property
    def native_files(self) -> bool:
        """Whether files open without a request, and their reads need no retry."""
        return bool(getattr(self._inner, "native_files", False))

    def __repr__(self) -> str:
        return f"RetryingStore({self._inner!r})"

    def __reduce__(self) -> tuple[Callable[..., RetryingStore], tuple[Store, Config]]:
        return (partial(RetryingStore, errors=self._errors), (self._inner, self._config))

    def list_from(self, directory: str, *, after: str | None = None) -> Iterator[pa.RecordBatch]:
        """List; after a failure it resumes after the last listed name."""

        def start(last: str | None) -> Iterator[pa.RecordBatch]:
            name = after if last is None else last.rpartition("/")[2]
            return self._inner.list_from(directory, after=name)

        return self._resumed_pages(start)

    def list_tree(self, *, after: str = "", within: str = "") -> Iterator[pa.RecordBatch]:
        """List all directories; after a failure it resumes after the last listed path."""
        return self._resumed_pages(
            lambda last: list_tree(self._inner, after=last or after, within=within)
        )

    def list_level(self, directory: str) -> Level:
        """List one directory."""
        return self._retried(lambda: list_level(self._inner, directory))

    def _resumed_pages(
        self, start: Callable[[str | None], Iterator[pa.RecordBatch]]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the pages of a listing that starts after a path, again after each failure."""
        pages: Iterator[pa.RecordBatch] | None = None
        last: str | None = None

        def next_page() -> pa.RecordBatch | None:
            nonlocal pages
            if pages is None:
                pages = start(last)
            try:
                return next(pages, None)
            except self._errors:
                pages = None
                raise

        try:
            while (page := self._retried(next_page)) is not None:
                if page.num_rows:
                    last = page.column(0)[-1].as_py()
                yield page
        finally:
            if pages is not None and hasattr(pages, "close"):
                pages.close()

    def head(self, path: str) -> ObjectMeta:
        """Return the metadata of an object."""
        return self._retried(lambda: self._inner.head(path))

    def read(self, path: str) -> Buffer:
        """Read an object."""
        if (store := _resumable(self._inner)) is not None:
            return self._resumed(store.resumable_read(path, None))[0]
        return self._retried(lambda: self._inner.read(path))

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        """Read ranges of an object."""
        if (store := _resumable(self._inner)) is not None:
            return self._resumed(store.resumable_read(path, ranges))
        return self._retried(lambda: self._inner.read_ranges(path, ranges))

    def open_input(self, path: str, *, size: int | None = None) -> pa.NativeFile:
        """Open a file whose reads are retried."""
        store = _resumable(self._inner)
        if store is None:
            return self._open_retried(path, size)
        identity, length = self._retried(lambda: store.identify(path, size))

        def read_range(start: int, end: int) -> Buffer:
            return self._resumed(store.resumable_read(path, [(start, end)], identity))[0]

        return open_ranges(read_range, length)

    def check_writable(self, directory: str) -> None:
        """Refuse a directory that is known to be read-only."""
        check_writable(self._inner, directory)

    def local_path(self, path: str) -> str | None:
        """Return the local path of an object: local reads need no retry."""
        return local_path(self._inner, path)

    def write(self, path: str, data: Buffer, *, overwrite: bool) -> None:
        """Write; only an overwriting write is retried."""
        if not overwrite:
            self._inner.write(path, data, overwrite=False)
            return
        self._retried(lambda: self._inner.write(path, data, overwrite=True))

    def open_output(self, path: str) -> Output:
        """Open a new object; an object store may repeat its publication."""
        output = open_output(self._inner, path)
        return output if _resumable(self._inner) is None else _RetriedOutput(self, output)

    def delete(self, paths: Sequence[str]) -> None:
        """Delete objects."""
        self._retried(lambda: self._inner.delete(paths))

    def _open_retried(self, path: str, size: int | None) -> pa.NativeFile:
        file = self._retried(lambda: self._inner.open_input(path, size=size))
        if self.native_files:
            return file

        def read_range(start: int, end: int) -> pa.Buffer:
            file.seek(start)
            return file.read_buffer(end - start)

        return open_ranges(
            lambda start, end: self._retried(lambda: read_range(start, end)), file.size()
        )

    def _resumed(self, read: ResumableRead) -> list[Buffer]:
        """Retry a read; every part that it has gained starts attempts and deadline anew."""
        while True:
            parts_read = read.parts_read
            try:
                return self._retried(read)
            except self._errors:
                if read.parts_read == parts_read:
                    raise

    def _retried(self, run: Callable[[], R]) -> R:
        config = self._config
        with call_deadline(config.request_deadline_seconds):
            for attempt in range(config.retry_attempts - 1):
                try:
                    return run()
                except self._errors:
                    longest = min(config.retry_cap_seconds, config.retry_base_seconds * 2**attempt)
                    # Full jitter: readers that failed together must not retry together.
                    backoff = random.uniform(0, longest)  # noqa: S311 - not a secret
                    if backoff >= remaining_seconds():
                        raise
                    self._sleep(backoff)
            return run()


class _RetriedOutput:
    """An output whose publication is retried."""

    def __init__(self, store: RetryingStore, inner: Output) -> None:
        self._store = store
        self._inner = inner

    @property
    def file(self) -> pa.NativeFile:
        return self._inner.file

    def publish(self) -> None:
        self._store._retried(self._inner.publish)  # noqa: SLF001 - same module

    def discard(self) -> None:
        self._inner.discard()


def _resumable(store: Store) -> ObjectStore | None:
    """Return a store whose reads resume; not by its class, whose import loads the client."""
    return cast("ObjectStore", store) if hasattr(store, "resumable_read") else None


def retried_store(
    store: Store,
    config: Config,
    errors: tuple[type[StoreError], ...] = (TransientStoreError,),
) -> Store:
    """Return a store that retries errors, by default transient ones; a local store needs none."""
    return store if is_local(store) else RetryingStore(store, config, errors=errors)
