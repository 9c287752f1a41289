"""Rows of a data file without those that are to be left out by their position.

The compiled decoder (ADR 0029) leaves them out while it decodes; what it cannot read pyarrow
does, and then it is said which rows are meant. Knows nothing of why they are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from lazydelta._arrow import from_mask, to_mask
from lazydelta.errors import DataFileError
from lazydelta.parquet.row_batches import Rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from lazydelta.parquet.native import TemplateFile
    from lazydelta.parquet.reader import DataFile

    Kept: TypeAlias = Callable[[int, int], pa.BooleanArray | None]
    """Tells which rows to keep, of so many from a position on; None if all."""
    Chosen: TypeAlias = tuple[Rows, pa.BooleanArray | None]
    """Rows, and which of them are meant; None if all are."""

__all__ = ["chosen_template_rows", "selected_rows"]

_MOST_ROWS = 1 << 27
"""For which bits are made at once: they take 16 MB. A footer may claim any number of rows."""
_PIECE_ROWS = 1 << 20
"""For which they are made in one go, which takes nine bytes a row."""


def selected_rows(
    file: DataFile,
    columns: Sequence[str],
    row_groups: Sequence[int],
    *,
    batch_rows: int,
    kept: Kept | None = None,
    views: bool = False,
) -> Iterator[Chosen]:
    """Yield the chosen columns of the chosen row groups, in the order of the file.

    The position that rows come with is only theirs if all rows are kept.

    Args:
        file: What to read.
        columns: Paths of leaves, or of what holds them.
        row_groups: Ascending numbers of row groups.
        batch_rows: Most rows at a time; fewer where rows are large.
        kept: Tells which rows to keep; None keeps all.
        views: Whether texts and bytes may come as views.

    Raises:
        DataFileError: It is damaged.
    """
    for run in file.runs(row_groups):
        decoded = None
        if columns:
            decoded = _compiled(file, columns, run, batch_rows=batch_rows, kept=kept, views=views)
        passed = 0
        try:
            for batch in decoded or ():
                yield Rows(file.first_row(run[0]) + passed, batch.num_rows, batch), None
                passed += batch.num_rows
        except DataFileError:
            if views:  # what pyarrow would let pass, such as texts that are none, no view may show
                raise
            decoded = None
        if decoded is None:
            every = file.rows(columns, run, batch_rows=batch_rows)
            yield from _behind(((rows, _kept_of(rows, kept)) for rows in every), passed)


def chosen_template_rows(
    file: TemplateFile, *, batch_rows: int, kept: Kept | None
) -> Iterator[pa.RecordBatch]:
    """Return the rows of a file that matches a template.

    Args:
        file: What to read.
        batch_rows: Most rows at a time; fewer where rows are large.
        kept: Tells which rows to keep; None keeps all.

    Raises:
        ArrowException, ValueError: It is damaged; rows may have come before.
    """
    packed = None if kept is None else _packed(kept, 0, file.num_rows)
    return iter(file.batches(batch_rows, packed))


def _compiled(
    file: DataFile,
    columns: Sequence[str],
    run: Sequence[int],
    *,
    batch_rows: int,
    kept: Kept | None,
    views: bool,
) -> Iterator[pa.RecordBatch] | None:
    start, end = file.first_row(run[0]), file.first_row(run[-1] + 1)
    packed = None
    if kept is not None:
        if end - start > _MOST_ROWS:
            return None
        packed = _packed(kept, start, end)
    return file.compiled(columns, run, batch_rows=batch_rows, kept=packed, views=views)


def _packed(kept: Kept, start: int, end: int) -> bytes:
    """Return a bit for each row between two positions: whether it is kept."""
    pieces = []
    for at in range(start, end, _PIECE_ROWS):
        count = min(_PIECE_ROWS, end - at)
        piece = kept(at, count)
        pieces.append(_every(count) if piece is None else piece)
    return b"".join(piece.buffers()[1].to_pybytes() for piece in pieces)


def _kept_of(rows: Rows, kept: Kept | None) -> pa.BooleanArray | None:
    return None if kept is None else kept(rows.start, rows.length)


def _behind(chosen: Iterator[Chosen], passed: int) -> Iterator[Chosen]:
    """Yield rows, but for the first of those that are meant, which were shown already."""
    for rows, keep in chosen:
        if not passed:
            yield rows, keep
            continue
        truth = _every(rows.length) if keep is None else keep
        mask = to_mask(truth).copy()
        left = np.flatnonzero(mask)[:passed]
        mask[left] = False
        passed -= len(left)
        yield rows, from_mask(mask)


def _every(count: int) -> pa.BooleanArray:
    return from_mask(np.ones(count, np.bool_))
