"""How actions travel between rooms: what `log` reads and `replay` reconciles.

A commit and a checkpoint need different care (a checkpoint is reconciled already, a commit is not),
so they are different types rather than one with a flag.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

__all__ = ["CommitBatch", "OtherAction"]


@dataclass(frozen=True, slots=True)
class OtherAction:
    """An action of a commit that is neither add nor remove, by kind; "unknown" is one of them."""

    version: int
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitBatch:
    """Actions of one or more commits, newest first; a row is one line of a commit.

    1. `versions` never increases from row to row.
    2. A row has at most one of `add` and `remove`.
    3. All rows of a version are here, but for the last one: that goes on in the next batch unless
       `complete`.
    """

    add: pa.StructArray
    remove: pa.StructArray
    versions: np.ndarray
    others: tuple[OtherAction, ...]
    commits: int
    """How many commits begin here."""
    complete: bool
