"""Pages of files, for callers that cannot keep a stream open: parts of a resumable stream.

A `Scan` keeps the stream of its last page open, so that reading all pages from one scan costs no
more than listing the files; the result is the same.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from lazydelta._stream import Stream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lazydelta.scan.plan.log_positions import Position
    from lazydelta.scan.resume.token import ResumeToken

__all__ = ["FilePage", "Pages"]


class FilePage(NamedTuple):
    """A page of files, with the columns of `file_batches()`."""

    files: pa.Table
    next: str | None
    """The token of the next page; None after the last page."""


class Pages:
    """A stream of files that is read page by page.

    Args:
        files: The files from a token on, each batch with the position after it.
        start: That token.
        schema: The schema of the files.
        key: Signs the tokens.
    """

    def __init__(
        self,
        files: Iterator[tuple[pa.RecordBatch, Position]],
        start: ResumeToken,
        *,
        schema: pa.Schema,
        key: bytes,
    ) -> None:
        self._stream = Stream(files)
        self._token, self._schema, self._key = start, schema, key
        self._rest: tuple[pa.RecordBatch, Position] | None = None
        self.next: str | None = None
        """The token of the next page; None before the first one and after the last one."""

    def read(self, size: int) -> FilePage:
        """Return the next page; reads one batch ahead to detect the last one."""
        batches: list[pa.RecordBatch] = []
        self.next = None
        while True:
            if self._rest is None or not self._rest[0].num_rows:
                self._rest = next(self._stream, None)
                if self._rest is None:
                    break
            if not size:
                self.next = self._token.to_text(self._key)
                break
            files, end = self._rest
            batches.append(files.slice(0, size))
            taken = batches[-1].num_rows
            self._rest = (files.slice(taken), end)
            size -= taken
            self._token = replace(
                self._token,
                position=end._replace(skip=end.skip - files.num_rows + taken),
                delivered=self._token.delivered + taken,
            )
        return FilePage(pa.Table.from_batches(batches, self._schema), self.next)

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()
