"""Reads in parts: concurrent, of one and the same object, and repeatable after a failure."""

from __future__ import annotations

import asyncio
import bisect
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import pyarrow as pa

from lazydelta.errors import ObjectReplacedError, StoreError, TransientStoreError
from lazydelta.store import tuning
from lazydelta.store.cloud.requests import run
from lazydelta.store.ranges import merged_ranges, split_ranges

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from typing import Any

    from lazydelta.store.interface import Buffer

    Fetch: TypeAlias = Callable[[tuple[int, int] | None], Coroutine[Any, Any, "Fetched"]]
    """Requests a range, or the whole object."""

__all__ = ["Fetched", "ObjectIdentity", "ResumableRead"]


class Fetched(NamedTuple):
    """Answer to a request for a range, or for an object."""

    chunks: list[Buffer] | None
    """The bytes; None for an object that has to be requested in parts."""
    size: int
    """Size of the object."""
    etag: str | None


@dataclass
class ObjectIdentity:
    """Size and ETag that all answers for an object must share; None while unknown."""

    size: int | None = None
    etag: str | None = None

    def check(self, path: str, answer: Fetched) -> None:
        """Compare an answer with those before it.

        Raises:
            ObjectReplacedError: It belongs to another object at the same path.
        """
        self.size = answer.size if self.size is None else self.size
        self.etag = answer.etag if self.etag is None else self.etag
        if answer.size != self.size:
            change = f"{answer.size} bytes instead of {self.size}"
        elif answer.etag not in (None, self.etag):
            change = f"ETag {answer.etag} instead of {self.etag}"
        else:
            return
        raise ObjectReplacedError(
            path, f"was replaced while it was being read ({change}): read it again"
        )


class ResumableRead:
    """A read of ranges, or of a whole object, in parts.

    Calling it again after a `TransientStoreError` requests the missing parts only.

    Args:
        fetch: Requests one part.
        path: Path for errors.
        ranges: The `(start, end)` ranges; None reads the whole object.
        identity: Shared with other reads of the same object, if any.
    """

    def __init__(
        self,
        fetch: Fetch,
        path: str,
        ranges: Sequence[tuple[int, int]] | None,
        identity: ObjectIdentity | None = None,
    ) -> None:
        if ranges is not None and any(not 0 <= start <= end for start, end in ranges):
            raise StoreError(path, f"invalid ranges: {list(ranges)}")
        self._fetch = fetch
        self._path = path
        self._ranges = ranges
        self._identity = ObjectIdentity() if identity is None else identity
        self._parts: dict[tuple[int, int], list[Buffer]] = {}

    @property
    def parts_read(self) -> int:
        """Number of parts read so far: the progress between two calls."""
        return len(self._parts)

    def __call__(self) -> list[Buffer]:
        """Request the missing parts and return the ranges, or the whole object as one."""
        if self._ranges is None:
            answer = run(self._fetch(None))
            self._identity.check(self._path, answer)
            if answer.chunks is not None:
                return [_joined(answer.chunks)]
            self._ranges = [(0, answer.size)]
        # Coalesced here and not by obstore, which panics if the response to a coalesced request
        # is too short.
        merged = merged_ranges(self._ranges, gap=tuning.COALESCE_GAP)
        parts = split_ranges(merged, part=tuning.RANGE_PART)
        missing = [span for span in parts if span not in self._parts]
        if missing:
            run(self._fetch_parts(missing))
        starts = [start for start, _ in merged]
        spans = [self._join(span) for span in merged]
        return [_slice(span, starts, spans) for span in self._ranges]

    async def _fetch_parts(self, spans: list[tuple[int, int]]) -> None:
        """Request parts concurrently; all end, and a permanent error precedes a transient one."""
        width = asyncio.Semaphore(tuning.RANGE_REQUESTS)

        async def fetch_part(span: tuple[int, int]) -> None:
            async with width:
                answer = await self._fetch(span)
            self._identity.check(self._path, answer)
            self._parts[span] = _exact(self._path, span, answer.chunks or [])

        if len(spans) == 1:
            await fetch_part(spans[0])
            return
        ended = await asyncio.gather(*map(fetch_part, spans), return_exceptions=True)
        errors = [error for error in ended if error is not None]
        for error in sorted(errors, key=lambda error: isinstance(error, TransientStoreError)):
            raise error

    def _join(self, span: tuple[int, int]) -> pa.Buffer:
        parts = split_ranges([span], part=tuning.RANGE_PART)
        return _joined([chunk for part in parts for chunk in self._parts[part]])


def _joined(chunks: list[Buffer]) -> pa.Buffer:
    """Copy the chunks into one buffer.

    Arrow's pool reuses memory that is mapped already; for 64 MiB that is six times faster than
    `bytes.join`.
    """
    if len(chunks) == 1:
        return pa.py_buffer(chunks[0])
    joined = pa.allocate_buffer(sum(map(len, chunks)))
    view, start = memoryview(joined).cast("B"), 0
    for chunk in chunks:
        view[start : start + len(chunk)] = memoryview(chunk).cast("B")
        start += len(chunk)
    return joined


def _exact(path: str, span: tuple[int, int], chunks: list[Buffer]) -> list[Buffer]:
    size = sum(len(chunk) for chunk in chunks)
    if size != span[1] - span[0]:
        raise StoreError(path, f"range {span[0]}-{span[1]} returned {size} bytes")
    return chunks


def _slice(span: tuple[int, int], starts: Sequence[int], spans: Sequence[pa.Buffer]) -> pa.Buffer:
    """Return a requested range, sliced from the coalesced range that covers it."""
    if span[0] == span[1]:
        return pa.py_buffer(b"")
    which = bisect.bisect_right(starts, span[0]) - 1
    return spans[which].slice(span[0] - starts[which], span[1] - span[0])
