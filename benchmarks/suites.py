"""Which tables and workloads a run covers: quick, default, full; of files and of rows.

Pure lists. The headline table is clustered with small row groups; the Spark-like one is the
opposite in both, so that no layout favours one engine.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Self

from benchmarks.engines import OPERATIONS
from benchmarks.measure import Case
from benchmarks.row_engines import ROW_OPERATIONS
from benchmarks.spec import RowsSpec, Spec, TableSpec

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "HEADLINE",
    "MATRIX",
    "SPARK_LIKE",
    "RowTables",
    "Suite",
    "cases_of",
    "row_cases",
]

Suite = Literal["quick", "default", "full"]

HEADLINE = TableSpec(files=1_000_000, tail=10)
SPARK_LIKE = TableSpec(files=1_000_000, tail=10, clustered=False, row_group_rows=1 << 20)

MATRIX: dict[str, TableSpec] = {
    "no tail": replace(HEADLINE, tail=0),
    "99 commits in the tail": replace(HEADLINE, tail=99),
    "1 M tombstones in the checkpoint": replace(HEADLINE, removes=1_000_000),
    "deletion vectors on a third": replace(HEADLINE, deletion_vectors=True),
    "huge row groups, clustered": replace(HEADLINE, row_group_rows=1 << 20),
    "small row groups, hash-ordered": replace(HEADLINE, clustered=False),
    "JSON statistics only": replace(HEADLINE, parsed_stats=False),
    "JSON statistics only, Spark-like": replace(SPARK_LIKE, parsed_stats=False),
    "parsed statistics only": replace(HEADLINE, json_stats=False),
    "not partitioned": replace(HEADLINE, partition_levels=0),
    "multi-part": replace(HEADLINE, kind="multipart"),
    "V2 with sidecars": replace(HEADLINE, kind="v2"),
    "metadata in the last rows": replace(HEADLINE, metadata_last=True),
    "a checksum file": replace(HEADLINE, crc=True),
}
"""One option changed at a time."""

_LADDER = (10_000, 100_000)
_CORE = {
    "lazydelta": ["first", "all", "partition", "nothing"],
    "deltalake": ["open", "all", "partition", "nothing"],
    "polars": ["nothing"],
    "pyarrow": ["all"],
}
_MATRIX_CORE = {
    "lazydelta": ["first", "all", "partition", "nothing"],
    "deltalake": ["all", "partition", "nothing"],
    "pyarrow": ["all"],
}
_EVERYTHING = {engine: list(workloads) for engine, workloads in OPERATIONS.items()}
_SIZE_ONLY = {"lazydelta": ["first", "all"], "deltalake": ["all"], "pyarrow": ["all"]}
_OURS_ONLY = {"lazydelta": ["first", "all"], "pyarrow": ["all"]}


_ROW_WORKLOADS = {engine: list(workloads) for engine, workloads in ROW_OPERATIONS.items()}
_ROW_FILES = 200
_ROWS_PER_SMALL_FILE = 5000
"""Rows of the large table per small file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowTables:
    """The tables whose rows are read, determined by two sizes."""

    rows: int = 20_000_000
    log_files: int = 1_000_000

    @classmethod
    def among(cls, specs: Iterable[Spec]) -> Self | None:
        """Return the tables of rows of a run, if any."""
        rows, files = set(), set()
        for spec in specs:
            if isinstance(spec, RowsSpec):
                rows.add(spec.rows_per_file * _ROW_FILES)
            elif spec.real_files:
                files.add(spec.files)
        if not rows | files:
            return None
        usual = cls()
        return cls(
            rows=max(rows, default=usual.rows), log_files=max(files, default=usual.log_files)
        )

    @property
    def plain(self) -> RowsSpec:
        """The table without deleted rows."""
        return RowsSpec(files=_ROW_FILES, rows_per_file=max(1, self.rows // _ROW_FILES))

    @property
    def deleted(self) -> RowsSpec:
        """The same data files; vectors delete a tenth of the rows."""
        return replace(self.plain, deleted_percent=10)

    @property
    def many(self) -> RowsSpec:
        """Five times as many data files of the same size."""
        return replace(self.plain, files=5 * _ROW_FILES, distinct=_ROW_FILES)

    @property
    def small(self) -> RowsSpec:
        """Many data files of few rows, as streams and frequent appends write them."""
        files = max(2, self.rows // _ROWS_PER_SMALL_FILE)
        return RowsSpec(files=files, rows_per_file=min(100, self.plain.rows_per_file))

    @property
    def log(self) -> TableSpec:
        """A large log; only the newest data files exist."""
        return replace(HEADLINE, files=self.log_files, real_files=True)

    @property
    def is_judged(self) -> bool:
        """Whether the limits are for these sizes."""
        return self == RowTables()


def _cases(spec: Spec, workloads: dict[str, list[str]]) -> list[Case]:
    without_days = isinstance(spec, TableSpec) and not spec.partition_levels
    return [
        Case(engine=engine, workload=name, spec=spec)
        for engine, names in workloads.items()
        for name in names
        if not (without_days and "partition" in name)
    ]


def _row_workloads(*kinds: str, without: str = "nothing") -> dict[str, list[str]]:
    return {
        engine: [n for n in names if n.split(":")[0] in kinds and without not in n]
        for engine, names in _ROW_WORKLOADS.items()
    }


def row_cases(tables: RowTables) -> list[Case]:
    """Return the cases that read rows."""
    # deltalake's pyarrow reader refuses tables with deletion vectors; raw decoders ignore them.
    with_vectors = _row_workloads("read", "filter", without="to_pyarrow_table")
    with_vectors |= {"pyarrow": [], "lazydelta_decoder": []}
    return [
        *_cases(tables.plain, _row_workloads("read", "stream", "filter", "point")),
        *_cases(tables.deleted, with_vectors),
        *_cases(tables.many, {"lazydelta": ["stream"]}),
        *_cases(tables.small, _row_workloads("read")),
        *_cases(tables.log, _row_workloads("file", "limit", "count")),
    ]


def cases_of(suite: Suite) -> list[Case]:
    """Return the cases of a suite, small tables first."""
    cases = [c for n in _LADDER for c in _cases(replace(HEADLINE, files=n), _EVERYTHING)]
    if suite == "quick":
        return cases
    cases += _cases(replace(SPARK_LIKE, files=10_000), {"lazydelta": ["first"]})
    cases += _cases(HEADLINE, _EVERYTHING) + _cases(SPARK_LIKE, _CORE)
    five = replace(HEADLINE, files=5_000_000)
    three = replace(HEADLINE, files=3_000_000)
    if suite == "default":
        return cases + _cases(three, _SIZE_ONLY) + _cases(five, _OURS_ONLY)
    size = _SIZE_ONLY | {"polars": ["all"]}
    cases += _cases(three, size) + _cases(five, size)
    for files in (3_000_000, 5_000_000):
        cases += _cases(replace(SPARK_LIKE, files=files), _SIZE_ONLY)
    return cases + [c for spec in MATRIX.values() for c in _cases(spec, _MATRIX_CORE)]
