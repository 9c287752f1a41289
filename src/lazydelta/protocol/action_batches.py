"""Batches of actions, as `log` reads and `replay` reconciles them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

__all__ = ["CommitBatch", "OtherAction"]


class OtherAction(NamedTuple):
    """An action other than add and remove; the kind of an unknown action is "unknown"."""

    version: int
    kind: str


class CommitBatch(NamedTuple):
    """Actions of one or more commits, newest first; a row is one line of a commit.

    1. `versions` never increases from row to row.
    2. A row has at most one of `add` and `remove`.
    3. The batch has all rows of its versions, except that the last version continues in the next
       batch unless `complete`.
    """

    add: pa.StructArray
    remove: pa.StructArray
    versions: np.ndarray
    others: tuple[OtherAction, ...]
    commits: int
    """Number of commits that start in this batch."""
    complete: bool
