"""Path order of listings: validated for stores that guarantee it, restored for the others."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pyarrow as pa

from lazydelta.errors import StoreError
from lazydelta.store import tuning
from lazydelta.store.interface import LISTING_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ordered_pages"]


def ordered_pages(
    pages: Iterator[pa.RecordBatch], *, after: str, is_ordered: bool
) -> Iterator[pa.RecordBatch]:
    """Yield the pages of a listing in path order, without the paths up to `after`.

    Stores agree on the order of ASCII names, so their pages stream. An ASCII name out of order is
    an error, because a reader that stops early would miss files. Stores order other names
    differently (UTF-8 or UTF-16): from the first page with such a name, the rest is collected and
    sorted. In both encodings such a name follows the ASCII names it shares a prefix with, so no
    yielded page precedes it wrongly.

    Args:
        pages: `LISTING_SCHEMA` batches.
        after: A path; empty for all.
        is_ordered: Whether the store guarantees an order.
    """
    last = after
    for page in pages:
        names = page.column(0).to_pylist()
        if not is_ordered or not all(map(str.isascii, names)):
            yield from _sorted([page, *pages], after=last)
            return
        skipped = 0
        if names[0] <= after:  # not every server honours the offset
            skipped = sum(name <= after for name in names)
        names = names[skipped:]
        if not names:
            continue
        for before, name in pairwise([last, *names]):
            if name <= before:
                raise StoreError(name, f"listed after {before!r}: the store's listing is unordered")
        last = names[-1]
        yield page.slice(skipped)


def _sorted(pages: list[pa.RecordBatch], *, after: str) -> Iterator[pa.RecordBatch]:
    listing = pa.Table.from_batches(pages, LISTING_SCHEMA).combine_chunks()
    names = listing.column(0).to_pylist()
    rows = sorted((row for row, name in enumerate(names) if name > after), key=names.__getitem__)
    yield from listing.take(pa.array(rows, pa.int64())).to_batches(
        max_chunksize=tuning.LISTING_PAGE
    )
