"""The order of a listing: checked where a store promises it, made where it does not. Pure."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pyarrow as pa

from lazydelta.errors import StoreError
from lazydelta.store.base import LISTING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ordered_pages"]

_PAGE = 1000


def ordered_pages(
    pages: Iterator[pa.RecordBatch], *, after: str, trusted: bool
) -> Iterator[pa.RecordBatch]:
    """Yield the pages of a listing in path order, without what does not come behind `after`.

    Stores agree on the order of ASCII names, so those stream, and one out of order is an error:
    a reader that stops early would miss files. On other names they differ (UTF-8 or UTF-16), so
    from the first page that has one the rest is collected and sorted. A name outside ASCII
    follows every ASCII name it differs from there, in either order: no page comes too late.

    Args:
        pages: `LISTING` batches.
        after: A path; empty for all.
        trusted: Whether the store lists in order at all.
    """
    last = after
    for page in pages:
        names = page.column(0).to_pylist()
        if not trusted or not all(map(str.isascii, names)):
            yield from _sorted([page, *pages], after=last)
            return
        skipped = 0
        if names[0] <= after:  # not every server honours the start it is given
            skipped = sum(name <= after for name in names)
        names = names[skipped:]
        if not names:
            continue
        for before, name in pairwise([last, *names]):
            if name <= before:
                raise StoreError(name, f"listed behind {before!r}: the store keeps no order")
        last = names[-1]
        yield page.slice(skipped)


def _sorted(pages: list[pa.RecordBatch], *, after: str) -> Iterator[pa.RecordBatch]:
    whole = pa.Table.from_batches(pages, LISTING).combine_chunks()
    names = whole.column(0).to_pylist()
    rows = sorted((row for row, name in enumerate(names) if name > after), key=names.__getitem__)
    yield from whole.take(rows).to_batches(max_chunksize=_PAGE)
