"""Specification of a synthetic table: its options and its path in the cache.

A `TableSpec` is a log of any size, a `RowsSpec` a table of rows. Knows no file format. Two equal
specs are the same table, byte for byte; `generate` and `rows` write it.
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
    "REGIONS",
    "Kind",
    "RowsSpec",
    "Spec",
    "TableSpec",
    "spec_from",
]

Kind = Literal["classic", "multipart", "v2"]

CACHE = Path(__file__).resolve().parent.parent / ".bench"
"""Cache of generated tables, one directory per spec, ignored by git."""

CHECKPOINT_VERSION = 10
"""The version of every generated checkpoint; the tail starts after it."""

DAYS = 365
"""Distinct values of the partition column `date`: the dates of 2026."""

REGIONS = 20
"""Distinct values of the second partition column, `region`."""

FILTER_DAY = 59
"""The date that benchmarks filter on, 2026-03-01."""

ID_SPAN = 10**12
"""The ids of a table of rows are evenly distributed from 0 to this."""

FILTER_IDS = (377 * ID_SPAN // 1000, 387 * ID_SPAN // 1000 - 1)
"""The ids that benchmarks filter on: one per cent, from the middle of a file on."""

_FORMAT = 3  # raise it when the generator writes something else for the same options
_MOST_INDICES = 8_900_000  # beyond it, ids would need a twelfth digit


class _Kept:
    """Base of both specs: names derived from the options, and the path in the cache."""

    __slots__ = ()
    files: int

    @property
    def key(self) -> str:
        """The name of the table's directory: its size, non-default options, a hash."""
        digest = hashlib.sha256(json.dumps([_FORMAT, self._knobs()]).encode()).hexdigest()[:10]
        words = re.sub(r"\W+", "-", self.label)  # no `=`: engines would see partition folders
        return f"{self.files}-{words}-{digest}"

    @property
    def label(self) -> str:
        """A short description of the non-default options."""
        defaults = {f.name: f.default for f in fields(self)}  # type: ignore[arg-type]
        words = [
            f"{name}={value}"
            for name, value in self._knobs().items()
            if name != "files" and value != defaults[name]
        ]
        return " ".join(words) or "default"

    @property
    def path(self) -> Path:
        """The path of the table in the cache."""
        return CACHE / self.key

    def _knobs(self) -> dict[str, Any]:
        return asdict(self)  # type: ignore[call-overload]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSpec(_Kept):
    """The options of a generated log. They determine the table."""

    files: int = 10_000
    """Adds in the checkpoint."""
    partition_levels: int = 1
    """Partition columns: none, `date`, or `date` and `region`."""
    parsed_stats: bool = True
    """Whether the checkpoint has `stats_parsed` and `partitionValues_parsed`."""
    json_stats: bool = True
    """Whether the checkpoint has `stats`, as JSON strings."""
    row_group_rows: int = 16_384
    """Rows in a row group of the checkpoint; Spark writes 1,048,576."""
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
    """The layout of the checkpoint."""
    parts: int = 4
    """Parts of a multi-part checkpoint, sidecars of a V2 one."""
    metadata_last: bool = False
    """Whether protocol and metadata are in the last rows of the checkpoint, not the first."""
    real_files: bool = False
    """Whether the new files of the last commit exist, with the rows of their statistics."""
    seed: int = 1
    """Seed of names, sizes and statistics."""

    def __post_init__(self) -> None:
        """Refuse options that the generator does not support."""
        if self.kind not in get_args(Kind):
            raise ValueError(f"kind must be one of {get_args(Kind)}, not {self.kind!r}")
        if self.partition_levels not in range(3):
            raise ValueError(f"partition_levels must be 0, 1 or 2, not {self.partition_levels}")
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
    def partition_columns(self) -> list[str]:
        """The partition columns, outer first."""
        return ["date", "region"][: self.partition_levels]

    @property
    def indices(self) -> int:
        """Distinct data files of the log, live or removed."""
        return self.files + self.removes + self.tail * self.tail_adds

    @property
    def first_real(self) -> int:
        """The number of the first data file that exists; so do all after it."""
        return self.indices - (self.tail_adds if self.real_files else 0)

    @property
    def touched_per_commit(self) -> tuple[int, int, int]:
        """Checkpoint files that a tail commit removes, re-adds, gives a new vector."""
        few = self.tail_adds // 20
        return self.tail_adds // 10, few, few if self.deletion_vectors else 0

    @property
    def last_version(self) -> int:
        """The newest version of the table."""
        return CHECKPOINT_VERSION + self.tail


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsSpec(_Kept):
    """The options of a table of rows: eight columns, clustered on `id`, one row group a file."""

    files: int = 200
    """Data files."""
    rows_per_file: int = 100_000
    """Rows in each file, including the deleted ones."""
    distinct: int = 0
    """Distinct data files; the others are links to these. 0: all."""
    deleted_percent: int = 0
    """Per cent of the rows deleted by deletion vectors, scattered over all files."""
    seed: int = 1
    """Seed of all values except the ids."""

    def __post_init__(self) -> None:
        """Refuse options that the generator does not support."""
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
        """Rows in the data files, including the deleted ones."""
        return self.files * self.rows_per_file

    @property
    def originals(self) -> int:
        """Data files that are not links."""
        return self.distinct or self.files

    @property
    def id_step(self) -> int:
        """The difference of adjacent ids."""
        return ID_SPAN // (self.originals * self.rows_per_file)

    @property
    def base(self) -> Self | None:
        """The table with the same data files, each once and no row deleted; None if it is this."""
        plain = replace(self, files=self.originals, distinct=0, deleted_percent=0)
        return None if plain == self else plain


Spec = TableSpec | RowsSpec


def spec_from(knobs: dict[str, Any]) -> Spec:
    """Return the spec with these options; their names determine its class."""
    return RowsSpec(**knobs) if "rows_per_file" in knobs else TableSpec(**knobs)
