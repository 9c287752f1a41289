"""Pagination of a scan's files, for callers that cannot keep a stream open.

A token holds the position in the file list and a fingerprint of the scan. The order of the files
depends only on the layout of the log, so any process can restart the scan and skip to the position.
A `Scan` keeps the stream of its last page open to avoid that restart; the result is the same. A
token whose fingerprint does not match, as after a new checkpoint, is refused.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, NamedTuple, Protocol

import orjson
import pyarrow as pa

from lazydelta.config import validate_integer
from lazydelta.errors import PageTokenError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lazydelta._stream import Stream
    from lazydelta.expressions import Predicate
    from lazydelta.snapshot import SnapshotState

__all__ = ["FilePage", "Pages"]


class FilePage(NamedTuple):
    """A page of files, with the columns of `file_batches()`."""

    files: pa.Table
    next: str | None
    """The token of the next page; None after the last page."""


class PagedScan(Protocol):
    """The interface of `Scan` that pagination uses."""

    snapshot: SnapshotState

    @property
    def predicate(self) -> Predicate | None:
        """The predicate, bound to the schema."""

    @property
    def strategy(self) -> str:
        """The chosen strategy."""

    @property
    def file_schema(self) -> pa.Schema:
        """The schema of the files."""

    def file_batches(self) -> Stream[pa.RecordBatch]:
        """Return the files."""


class Pages:
    """Keeps the stream of a scan open between two pages.

    `read` receives the scan as an argument: a reference to it would be a cycle, and deleting the
    scan must close the stream.
    """

    def __init__(self) -> None:
        self._position = 0
        self._stream: Stream[pa.RecordBatch] | None = None
        self._remainder: pa.RecordBatch | None = None

    def read(self, scan: PagedScan, size: int, token: str | None) -> FilePage:
        """Return the page of a token; None is the first page."""
        validate_integer("size", size, 1)
        start = 0 if token is None else _parse_token(scan, token)
        if self._stream is None or start != self._position:
            self.close()
            self._stream = scan.file_batches()
            for _ in self._next_files(start):
                pass
        files = pa.Table.from_batches(list(self._next_files(size)), scan.file_schema)
        is_last = self._stream is None
        return FilePage(files, None if is_last else _token(scan, self._position))

    def close(self) -> None:
        """Close the stream."""
        if self._stream is not None:
            self._stream.close()
        self._stream, self._remainder, self._position = None, None, 0

    def _next_files(self, count: int) -> Iterator[pa.RecordBatch]:
        """Yield the next `count` files; reads one batch ahead to detect the last page."""
        while self._stream is not None:
            if self._remainder is None or not self._remainder.num_rows:
                self._remainder = next(self._stream, None)
                if self._remainder is None:
                    self._stream.close()
                    self._stream = None
                    return
                continue
            if not count:
                return
            batch = self._remainder.slice(0, count)
            self._remainder = self._remainder.slice(batch.num_rows)
            count -= batch.num_rows
            self._position += batch.num_rows
            yield batch


def _token(scan: PagedScan, position: int) -> str:
    content = orjson.dumps({"at": position, "scan": _fingerprint(scan)})
    return base64.urlsafe_b64encode(content).decode()


def _parse_token(scan: PagedScan, token: str) -> int:
    """Return the position of a token."""
    table = scan.snapshot.store.root
    try:
        content = orjson.loads(base64.b64decode(token, altchars=b"-_", validate=True))
        position, fingerprint = content["at"], content["scan"]
    except (ValueError, TypeError, KeyError):
        raise PageTokenError(table, "it is not one of ours") from None
    if fingerprint != _fingerprint(scan) or type(position) is not int or position < 0:
        raise PageTokenError(table, "it is of another scan, or the log was laid out anew since")
    return position


def _fingerprint(scan: PagedScan) -> str:
    """Return a hash of everything that determines the files and their order."""
    import hashlib  # slow to import, and most scans have no pages

    snapshot, segment = scan.snapshot, scan.snapshot.segment
    parts = [
        snapshot.metadata.id,
        str(snapshot.version),
        "" if segment.checkpoint is None else segment.checkpoint.name,
        *(file.name for file in segment.tail),
        str(scan.predicate),
        scan.strategy,
        str(snapshot.config.tripwire),
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
