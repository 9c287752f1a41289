"""What a synthetic table is like: its knobs, and the place where it is kept.

A `TableSpec` is a log of any size, a `RowsSpec` a table of rows. Knows no file format. Two equal
specs are the same table, byte for byte; `generate` and `rows` make it.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, Self, get_args

__all__ = [
    "CACHE",
    "CHECKPOINT_VERSION",
    "DAYS",
    "FILTER_DAY",
    "FILTER_IDS",
    "ID_SPAN",
    "Kind",
    "RowsSpec",
    "Spec",
    "TableSpec",
    "spec_from",
]

Kind = Literal["classic", "multipart", "v2"]

CACHE = Path(__file__).resolve().parent.parent / ".bench"
"""Generated tables are kept here, one folder per spec; the folder ignores itself in git."""

CHECKPOINT_VERSION = 10
"""The version of every generated checkpoint; the tail starts after it."""

DAYS = 365
"""How many values the partition column `date` has: the days of 2026."""

FILTER_DAY = 59
"""The day that benchmarks filter on, 2026-03-01."""

ID_SPAN = 10**12
"""The ids of a table of rows lie evenly between 0 and this, however many there are."""

FILTER_IDS = (377 * ID_SPAN // 1000, 387 * ID_SPAN // 1000 - 1)
"""The ids that benchmarks filter on: a hundredth of them, from the middle of a file on."""

_FORMAT = 3  # raise it when the generator writes something else for the same knobs
_MOST_INDICES = 8_900_000  # beyond it, ids would need a twelfth digit


class _Kept:
    """What the two kinds of spec share: names made of the knobs, and a place in the cache."""

    __slots__ = ()
    files: int

    @property
    def key(self) -> str:
        """The name of the table's folder: its size, what differs from the defaults, a hash."""
        digest = hashlib.sha256(json.dumps([_FORMAT, self._knobs()]).encode()).hexdigest()[:10]
        words = re.sub(r"\W+", "-", self.label)  # no `=`: engines would see partition folders
        return f"{self.files}-{words}-{digest}"

    @property
    def label(self) -> str:
        """A few words on the knobs that differ from the defaults."""
        defaults = {f.name: f.default for f in fields(self)}  # type: ignore[arg-type]
        words = [
            f"{name}={value}"
            for name, value in self._knobs().items()
            if name != "files" and value != defaults[name]
        ]
        return " ".join(words) or "default"

    @property
    def path(self) -> Path:
        """Where the table is kept once it is made."""
        return CACHE / self.key

    def _knobs(self) -> dict[str, Any]:
        return asdict(self)  # type: ignore[call-overload]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSpec(_Kept):
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
    real_files: bool = False
    """Whether the new files of the last commit exist, with the rows that their statistics say."""
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
        if self.real_files and (self.deletion_vectors or not self.tail * self.tail_adds):
            raise ValueError("real_files must have a tail with adds, and no deletion vectors")

    @property
    def indices(self) -> int:
        """How many different data files the log speaks of, dead or alive."""
        return self.files + self.removes + self.tail * self.tail_adds

    @property
    def first_real(self) -> int:
        """The number of the first data file that exists; all after it do as well."""
        return self.indices - (self.tail_adds if self.real_files else 0)

    @property
    def touched_per_commit(self) -> tuple[int, int, int]:
        """How many files of the checkpoint a tail commit removes, re-adds, gives a new vector."""
        few = self.tail_adds // 20
        return self.tail_adds // 10, few, few if self.deletion_vectors else 0

    @property
    def last_version(self) -> int:
        """The newest version of the table."""
        return CHECKPOINT_VERSION + self.tail


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsSpec(_Kept):
    """The knobs of a table of rows: eight columns, clustered on `id`, one row group per file."""

    files: int = 200
    """Data files."""
    rows_per_file: int = 100_000
    """Rows in each of them, the deleted ones too."""
    distinct: int = 0
    """How many of the data files differ; the others are links to these. 0: all of them."""
    deleted_percent: int = 0
    """How many of a hundred rows are deleted by deletion vectors, scattered over all files."""
    seed: int = 1
    """Of all values but the ids."""

    def __post_init__(self) -> None:
        """Refuse what the generator could only do wrongly."""
        if min(self.files, self.rows_per_file) < 1:
            raise ValueError("files and rows_per_file must be at least 1")
        if not 0 <= self.distinct < self.files:
            raise ValueError("distinct must be less than files, and not negative")
        if not 0 <= self.deleted_percent < 100:
            raise ValueError("deleted_percent must lie between 0 and 99")
        if self.originals * self.rows_per_file > ID_SPAN:
            raise ValueError(f"at most {ID_SPAN:,} different rows have an id of their own")

    @property
    def rows(self) -> int:
        """Rows in the data files, the deleted ones too."""
        return self.files * self.rows_per_file

    @property
    def originals(self) -> int:
        """How many data files are not links to another one."""
        return self.distinct or self.files

    @property
    def id_step(self) -> int:
        """From one id to the next."""
        return ID_SPAN // (self.originals * self.rows_per_file)

    @property
    def base(self) -> Self | None:
        """The table with the same data files, none of them twice and no row deleted, if another."""
        plain = replace(self, files=self.originals, distinct=0, deleted_percent=0)
        return None if plain == self else plain


Spec = TableSpec | RowsSpec


def spec_from(knobs: dict[str, Any]) -> Spec:
    """Return the spec with these knobs; their names tell which kind it is."""
    return RowsSpec(**knobs) if "rows_per_file" in knobs else TableSpec(**knobs)
