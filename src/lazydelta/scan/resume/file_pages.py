"""Pages of files, for callers that cannot keep a stream open: a slice of a resumable stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["FilePage"]


class FilePage(NamedTuple):
    """A page of files, with the columns of `file_batches()`."""

    files: pa.Table
    next: str | None
    """The token of the next page; None after the last page."""
