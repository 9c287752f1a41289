"""Positions in the stream of files of a scan, and of their rows, and shares of it.

The files of a log segment have one order, whatever the batch sizes: that of the tail, and within a
checkpoint that of its leaves and row groups. A position names the part of the log and the files of
it that were delivered. The scan skips the parts before it, and repeats the part itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from lazydelta._arrow import from_numpy

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

__all__ = [
    "FIRST_ROW",
    "INLINE",
    "REFERENCE",
    "START",
    "TAIL",
    "Piece",
    "Position",
    "RowPosition",
    "Share",
    "Unit",
    "is_position",
    "is_row_position",
    "striped",
]

Unit: TypeAlias = tuple[Any, ...]
"""A part of the log that is read from its start: a name, and numbers that locate it."""

TAIL: Unit = ("tail",)
INLINE: Unit = ("inline",)
"""The actions of a JSON manifest; `("leaf", number, row_group)` are those of a leaf."""
REFERENCE: Unit = ("reference",)
"""The reference replay after a trip."""

Piece: TypeAlias = "tuple[Unit, pa.RecordBatch]"
"""Files of one unit."""


class Position(NamedTuple):
    """A position between two files."""

    unit: Unit
    skip: int
    """The files that were delivered since the start of the unit."""


START = Position((), 0)


class RowPosition(NamedTuple):
    """A position between two rows."""

    file: Position
    """The position before a file."""
    row_group: int
    """A row group of the file."""
    rows: int
    """The rows that were delivered since the start of that row group, of later files too."""


FIRST_ROW = RowPosition(START, 0, 0)


@dataclass(frozen=True, slots=True)
class Share:
    """One of several disjoint parts of a scan.

    Each share reads the tail, for the keys that it supersedes in the checkpoint, and has every n-th
    file of it. A checkpoint is a line of its leaves, each as long as its bytes, and each share has
    a section: a range of row groups, and of adds in the first and last of them.
    """

    index: int
    count: int

    def overlaps(self, start: int, size: int, total: int) -> bool:
        """Whether a leaf that begins at `start` of the line is in the section."""
        return (
            start * self.count < (self.index + 1) * total
            and (start + size) * self.count > self.index * total
        )

    def rows(self, start: int, size: int, total: int, num_rows: int) -> range:
        """Return the rows of a leaf in the section."""
        length = self.count * size
        cuts = (
            -(-(cut * total - self.count * start) * num_rows // length)
            for cut in (self.index, self.index + 1)
        )
        first, end = (min(max(cut, 0), num_rows) for cut in cuts)
        return range(first, end)


def striped(pieces: Iterator[Piece], share: Share | None) -> Iterator[Piece]:
    """Yield every n-th file, from the index of the share on, of units that are not split."""
    if share is None:
        yield from pieces
        return
    counts: dict[Unit, int] = {}
    for unit, adds in pieces:
        if unit[0] == "leaf":
            yield unit, adds
            del adds  # before the next ones are decoded
            continue
        before = counts.get(unit, 0)
        counts[unit] = before + adds.num_rows
        rows = np.arange((share.index - before) % share.count, adds.num_rows, share.count)
        yield unit, adds.take(from_numpy(rows))


def is_position(value: Any) -> bool:
    """Whether a value of a token is a position, as a tuple."""
    match value:
        case ((), int()) | (("tail" | "inline" | "reference",), int()):
            return _is_count(value[1])
        case (("leaf", int() as leaf, int() as group), int() as skip):
            return all(map(_is_count, (leaf, group, skip)))
        case (("older", str(), before), int() as skip):
            return is_position(before) and before[0][:1] != ("older",) and _is_count(skip)
    return False


def is_row_position(value: Any) -> bool:
    """Whether a value of a token is a position between rows, as a tuple."""
    match value:
        case (file, int() as row_group, int() as rows):
            return is_position(file) and _is_count(row_group) and _is_count(rows)
    return False


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63
