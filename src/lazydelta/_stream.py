"""An iterator that can be closed, left early, or iterated with `async for`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from types import TracebackType

__all__ = ["Stream"]

T = TypeVar("T")
_END = object()


class Stream(Generic[T]):
    """Items as they are found. Leaving it early stops the work behind it at once.

    Iterate with `for`, with `async for` (each wait happens in a worker thread, so the event loop
    stays free), or use it as a context manager to be sure it is closed.
    """

    def __init__(self, items: Iterator[T]) -> None:
        self._items = items

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        return next(self._items)

    def __aiter__(self) -> AsyncIterator[T]:
        return self._each()

    async def _each(self) -> AsyncIterator[T]:
        import asyncio  # slow to load, and whoever gets here has it already

        try:
            while True:
                item = await asyncio.to_thread(next, self._items, _END)
                if item is _END:
                    return
                yield item  # type: ignore[misc]
        finally:
            await asyncio.to_thread(self.close)

    def close(self) -> None:
        """Stop, and free threads, files and memory."""
        close = getattr(self._items, "close", None)
        if close is not None:
            close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
