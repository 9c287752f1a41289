"""Closable iterators for `for` and `async for`."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from lazydelta._cancellation import Cancellation

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

__all__ = ["FlatStream", "Stream"]

T = TypeVar("T")
_END: Any = object()


class Stream(Generic[T]):
    """Items as they are found. Closing it stops the work behind it.

    Iterate with `for`, or with `async for`, which waits for each item in a worker thread so that
    the event loop stays free. Use it as a context manager to close it at a known point. A cancelled
    `async for` raises `CancelledError` at once; the worker thread closes the stream as soon as the
    item it waits for arrives.
    """

    def __init__(self, items: Iterator[T]) -> None:
        self._items = items
        self._lock = threading.Lock()
        self._closing = threading.RLock()  # a second close waits for the first
        self._is_pulling = False  # guarded by the lock, like `_is_closed`
        self._is_closed = False
        self._cancellation = Cancellation()

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        item: T = self._advance()
        if item is _END:
            raise StopIteration
        return item

    def __aiter__(self) -> AsyncIterator[T]:
        return self._each()

    async def _each(self) -> AsyncIterator[T]:
        import asyncio  # slow to import, and already imported by the caller

        try:
            while (items := await asyncio.to_thread(self._next_items)) is not None:
                for item in items:
                    yield item
        except asyncio.CancelledError:
            # Not awaited: a cancellation must not wait for a pending read.
            asyncio.get_running_loop().run_in_executor(None, self.close)
            raise
        except BaseException:
            await asyncio.to_thread(self.close)
            raise

    def _next_items(self) -> Iterable[T] | None:
        """Return the next items, waiting for them; None at the end."""
        item = self._advance()
        return None if item is _END else (item,)

    def _advance(self) -> Any:
        """Return the next of `_items`, or the end; another thread may close it meanwhile."""
        with self._lock:
            if self._is_closed:
                return _END
            self._is_pulling = True
        try:
            with self._cancellation.active():
                return next(self._items, _END)
        finally:
            with self._lock:
                self._is_pulling = False
                is_closed = self._is_closed
            if is_closed:  # while this thread was waiting
                self._close_items()

    def close(self) -> None:
        """Stop the work, and release threads, files and memory, before this returns.

        While another thread waits for an item this returns at once. Requests to a store are
        cancelled, and that thread closes the stream as soon as it waits no more.
        """
        with self._lock:
            self._is_closed = True
            is_pulling = self._is_pulling
        if is_pulling:
            self._cancellation.cancel()
        else:
            self._close_items()

    def _close_items(self) -> None:
        close = getattr(self._items, "close", None)
        if close is not None:
            with self._closing:
                close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class FlatStream(Stream[T]):
    """The items of batches, one by one; `async for` waits once per batch instead of per item."""

    _items: Iterator[Any]  # batches

    def __init__(self, batches: Iterator[Iterable[T]]) -> None:
        super().__init__(batches)  # type: ignore[arg-type]
        self._batch: Iterator[T] | None = None  # partly consumed

    def __next__(self) -> T:
        while True:
            if self._batch is None:
                batch = self._advance()
                if batch is _END:
                    raise StopIteration
                self._batch = iter(batch)
            item = next(self._batch, _END)
            if item is not _END:
                return item
            self._batch = None

    def _next_items(self) -> Iterable[T] | None:
        batch, self._batch = self._batch, None
        if batch is None:
            batch = self._advance()
        return None if batch is _END else batch

    def _close_items(self) -> None:
        self._batch = None
        super()._close_items()
