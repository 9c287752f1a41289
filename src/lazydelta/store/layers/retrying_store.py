"""Retries of store requests, as a wrapper: bounded, exponential backoff with full jitter."""

from __future__ import annotations

import random
import time
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from lazydelta.errors import TransientStoreError
from lazydelta.store.interface import check_writable, local_path
from lazydelta.store.ranges import open_ranges
from lazydelta.store.uploads import Output, open_output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from lazydelta.config import Config
    from lazydelta.errors import StoreError
    from lazydelta.store.interface import Buffer, ObjectMeta, Store

__all__ = ["RetryingStore"]

R = TypeVar("R")


class RetryingStore:
    """A `Store` with retries: exponential backoff with jitter, bounded by attempts.

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
        sleep: Callable[[float], None] = time.sleep,
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
        pages: Iterator[pa.RecordBatch] | None = None

        def next_page() -> pa.RecordBatch | None:
            nonlocal pages
            if pages is None:
                pages = self._inner.list_from(directory, after=after)
            try:
                return next(pages, None)
            except self._errors:
                pages = None
                raise

        try:
            while (page := self._retried(next_page)) is not None:
                if page.num_rows:
                    after = page.column(0)[-1].as_py().rpartition("/")[2]
                yield page
        finally:
            if pages is not None and hasattr(pages, "close"):
                pages.close()

    def head(self, path: str) -> ObjectMeta:
        """Return the metadata of an object."""
        return self._retried(lambda: self._inner.head(path))

    def read(self, path: str) -> Buffer:
        """Read an object."""
        return self._retried(lambda: self._inner.read(path))

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        """Read ranges of an object."""
        return self._retried(lambda: self._inner.read_ranges(path, ranges))

    def open_input(self, path: str, *, size: int | None = None) -> pa.NativeFile:
        """Open a file whose reads are retried."""
        if self.native_files:
            return self._retried(lambda: self._inner.open_input(path, size=size))
        length = self.head(path).size if size is None else size

        def read_range(start: int, end: int) -> pa.Buffer:
            return self.read_ranges(path, [(start, end)])[0]

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
        """Open a new object; not retried, which would require buffering its bytes."""
        return open_output(self._inner, path)

    def delete(self, paths: Sequence[str]) -> None:
        """Delete objects."""
        self._retried(lambda: self._inner.delete(paths))

    def _retried(self, run: Callable[[], R]) -> R:
        config = self._config
        for attempt in range(config.retry_attempts - 1):
            try:
                return run()
            except self._errors:
                backoff = min(config.retry_cap_seconds, config.retry_base_seconds * 2**attempt)
                # Full jitter: readers that failed together must not retry together.
                self._sleep(random.uniform(0, backoff))  # noqa: S311 - not a secret
        return run()
