"""The read path of a file: which strategy decodes its rows. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

__all__ = ["ReadPath", "ReadRequest", "choose_read_path", "choose_unopened_path"]


class ReadPath(Enum):
    """How the rows of a file are read."""

    SMALL_FILES = auto()
    """Several small files in one call of the native decoder, by a template."""
    TEMPLATE = auto()
    """A file of any size by a template: its footer is not parsed in Python."""
    WHOLE_FILE = auto()
    """All rows that are not deleted; the decoder drops the others."""
    LIMITED = auto()
    """The first rows of a file, without validating all of its pages first."""
    LATE_MATERIALIZATION = auto()
    """The predicate's columns, then the other columns of the matching rows."""
    FILTERED = auto()
    """All columns of the rows that may match, then the predicate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """What a read needs of every file."""

    has_filter: bool
    """Whether rows are filtered: a predicate is left after partition pruning."""
    has_limit: bool
    """Whether a few rows may be enough."""
    needs_positions: bool
    """Whether rows need their position in the file, as row ids do."""
    is_resumable: bool = False
    """Whether batches need the row group that they are in."""
    pushes_down: bool = False
    """Whether row groups, pages and columns are skipped by the filter."""
    views: bool = False
    """Whether strings and binaries may be returned as views."""
    batch_rows: int = 0
    """Maximum rows of a batch."""


def choose_unopened_path(
    request: ReadRequest, num_files: int, *, has_template: bool
) -> ReadPath | None:
    """Return the path for files that need not be opened; None if each has to be.

    A template is tried even if no file matches: reading then falls back to the opened file.

    Args:
        request: The read.
        num_files: Files to read together.
        has_template: Whether single files are read by a template.
    """
    if num_files > 1:
        return ReadPath.SMALL_FILES
    return ReadPath.TEMPLATE if has_template and not request.has_filter else None


def choose_read_path(
    request: ReadRequest, *, has_deleted_rows: bool, views: bool, late_pays: bool
) -> ReadPath:
    """Return the path for an opened file.

    Args:
        request: The read.
        has_deleted_rows: Whether the file has a deletion vector.
        views: Whether its strings may be returned as views, which only the decoder can.
        late_pays: Whether late materialization is expected to pay; False without a filter.
    """
    if request.has_filter:
        return ReadPath.LATE_MATERIALIZATION if late_pays else ReadPath.FILTERED
    needs_positions = request.needs_positions or request.is_resumable
    if has_deleted_rows and needs_positions:  # dropped rows would shift the positions
        return ReadPath.LIMITED if request.has_limit else ReadPath.FILTERED
    return ReadPath.LIMITED if request.has_limit and not views else ReadPath.WHOLE_FILE
