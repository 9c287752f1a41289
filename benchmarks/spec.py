"""What a synthetic table is like: its knobs, and the place where it is kept.

Knows no file format. Two equal specs are the same table, byte for byte; `generate` makes it.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Literal, get_args

__all__ = ["CACHE", "CHECKPOINT_VERSION", "DAYS", "FILTER_DAY", "Kind", "TableSpec"]

Kind = Literal["classic", "multipart", "v2"]

CACHE = Path(__file__).resolve().parent.parent / ".bench"
"""Generated tables are kept here, one folder per spec; the folder ignores itself in git."""

CHECKPOINT_VERSION = 10
"""The version of every generated checkpoint; the tail starts after it."""

DAYS = 365
"""How many values the partition column `date` has: the days of 2026."""

FILTER_DAY = 59
"""The day that benchmarks filter on, 2026-03-01."""

_FORMAT = 1  # raise it when the generator writes something else for the same knobs
_MOST_INDICES = 8_900_000  # beyond it, ids would need a twelfth digit


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSpec:
    """The knobs of a generated log. Everything about the table follows from them."""

    files: int = 10_000
    """Adds in the checkpoint."""
    partitioned: bool = True
    """Whether `date` is a partition column."""
    parsed_stats: bool = True
    """Whether the checkpoint has `stats_parsed` and `partitionValues_parsed`."""
    json_stats: bool = True
    """Whether the checkpoint has `stats`, as JSON text."""
    row_group_rows: int = 16_384
    """Rows in a row group of the checkpoint; 1,048,576 is what Spark comes to."""
    clustered: bool = True
    """Rows in the order of `date` and `id`, or else shuffled as a hash would."""
    tail: int = 0
    """Commits after the checkpoint."""
    tail_adds: int = 1000
    """New files in each of these; a tenth as many removes, a twentieth re-adds and DV swaps."""
    removes: int = 0
    """Tombstones in the checkpoint."""
    deletion_vectors: bool = False
    """Whether a third of the files has a deletion vector (its descriptor: there are no files)."""
    crc: bool = False
    """Whether the last version has a checksum file."""
    kind: Kind = "classic"
    """How the checkpoint is laid out."""
    parts: int = 4
    """Parts of a multi-part checkpoint, sidecars of a V2 one."""
    metadata_last: bool = False
    """Protocol and metadata in the last rows of the checkpoint, not the first ones."""
    seed: int = 1
    """Of names, sizes and statistics."""

    def __post_init__(self) -> None:
        """Refuse what the generator could only do wrongly."""
        if self.kind not in get_args(Kind):
            raise ValueError(f"kind must be one of {get_args(Kind)}, not {self.kind!r}")
        if min(self.files, self.row_group_rows, self.parts) < 1:
            raise ValueError("files, row_group_rows and parts must be at least 1")
        if min(self.removes, self.tail, self.tail_adds) < 0:
            raise ValueError("removes, tail and tail_adds must not be negative")
        if self.indices > _MOST_INDICES:
            raise ValueError(f"{self.indices:,} files in all; at most {_MOST_INDICES:,} fit")
        if self.tail * sum(self.touched_per_commit) > self.files:
            raise ValueError("the tail touches more files than the checkpoint has; shorten it")

    @property
    def indices(self) -> int:
        """How many different data files the log speaks of, dead or alive."""
        return self.files + self.removes + self.tail * self.tail_adds

    @property
    def touched_per_commit(self) -> tuple[int, int, int]:
        """How many files of the checkpoint a tail commit removes, re-adds, gives a new vector."""
        few = self.tail_adds // 20
        return self.tail_adds // 10, few, few if self.deletion_vectors else 0

    @property
    def last_version(self) -> int:
        """The newest version of the table."""
        return CHECKPOINT_VERSION + self.tail

    @property
    def key(self) -> str:
        """The name of the table's folder: its size, what differs from the defaults, a hash."""
        digest = hashlib.sha256(json.dumps([_FORMAT, asdict(self)]).encode()).hexdigest()[:10]
        words = re.sub(r"\W+", "-", self.label)  # no `=`: engines would see partition folders
        return f"{self.files}-{words}-{digest}"

    @property
    def label(self) -> str:
        """A few words on the knobs that differ from the defaults."""
        words = [
            f"{f.name}={getattr(self, f.name)}"
            for f in fields(self)
            if f.name != "files" and getattr(self, f.name) != f.default
        ]
        return " ".join(words) or "default"

    @property
    def path(self) -> Path:
        """Where the table is kept once it is made."""
        return CACHE / self.key
