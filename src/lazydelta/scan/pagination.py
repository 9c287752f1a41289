"""The files of a scan page by page, for callers that cannot hold a stream open.

A token says how many files of which scan were given. The scan gives the files of a version in one
order as long as the log is laid out as it was, so a page is the scan begun again, less what was
given; a scan that is asked for its next page goes on where it stopped instead. That saves time and
decides nothing: a token that does not fit the log any more is refused.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import orjson
import pyarrow as pa

from lazydelta.config import given_number
from lazydelta.errors import ConfigError, PageTokenError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lazydelta._stream import Stream
    from lazydelta.expressions import Predicate
    from lazydelta.snapshot import SnapshotState

__all__ = ["FilePage", "Pages"]


@dataclass(frozen=True, slots=True)
class FilePage:
    """Some files of a scan, in the columns of `file_batches()`."""

    files: pa.Table
    next: str | None
    """The token of the next page; None if this was the last."""


class PagedScan(Protocol):
    """What a `Scan` offers to its pages."""

    snapshot: SnapshotState

    @property
    def predicate(self) -> Predicate | None:
        """The predicate, bound to the schema."""

    @property
    def strategy(self) -> str:
        """The strategy chosen."""

    @property
    def file_schema(self) -> pa.Schema:
        """The schema of the files."""

    def file_batches(self) -> Stream[pa.RecordBatch]:
        """Return the files."""


class Pages:
    """Where the pages of a scan have got to: the stream behind the last one is kept.

    The scan is handed in each time, for it holds this: dropping it must end the stream.
    """

    def __init__(self) -> None:
        self._at = 0
        self._stream: Stream[pa.RecordBatch] | None = None
        self._rest: pa.RecordBatch | None = None

    def read(self, scan: PagedScan, size: int, token: str | None) -> FilePage:
        """Return the page behind a token; None is the first one."""
        if given_number("size", size) < 1:
            raise ConfigError("size", f"must be at least 1, not {size}")
        start = 0 if token is None else _position(scan, token)
        if self._stream is None or start != self._at:
            self.close()
            self._stream = scan.file_batches()
            for _ in self._taken(start):
                pass
        files = pa.Table.from_batches(list(self._taken(size)), scan.file_schema)
        is_last = self._stream is None
        return FilePage(files, None if is_last else _token(scan, self._at))

    def close(self) -> None:
        """Free what is kept for the next page."""
        if self._stream is not None:
            self._stream.close()
        self._stream, self._rest, self._at = None, None, 0

    def _taken(self, count: int) -> Iterator[pa.RecordBatch]:
        """Yield the next files, at most `count`; look ahead so that the end is known."""
        while self._stream is not None:
            if self._rest is None or not self._rest.num_rows:
                self._rest = next(self._stream, None)
                if self._rest is None:
                    self._stream.close()
                    self._stream = None
                    return
                continue
            if not count:
                return
            batch = self._rest.slice(0, count)
            self._rest = self._rest.slice(batch.num_rows)
            count -= batch.num_rows
            self._at += batch.num_rows
            yield batch


def _token(scan: PagedScan, position: int) -> str:
    text = orjson.dumps({"at": position, "scan": _fingerprint(scan)})
    return base64.urlsafe_b64encode(text).decode()


def _position(scan: PagedScan, token: str) -> int:
    table = scan.snapshot.store.root
    try:
        said = orjson.loads(base64.b64decode(token, altchars=b"-_", validate=True))
        position, fingerprint = said["at"], said["scan"]
    except (ValueError, TypeError, KeyError):
        raise PageTokenError(table, "it is not one of ours") from None
    if fingerprint != _fingerprint(scan) or type(position) is not int or position < 0:
        raise PageTokenError(table, "it is of another scan, or the log was laid out anew since")
    return position


def _fingerprint(scan: PagedScan) -> str:
    """Return what decides which files come, and in which order."""
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
