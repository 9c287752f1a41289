"""The cases of `benchmarks.dml`: a table, a verb, a source for MERGE, and the expected counts.

Pure lists; `dml_tables` makes tables and sources. The suite of 16 cases has the clauses and the
fractions of the merge benchmark of Delta Spark, which delta-rs runs too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from benchmarks.spec import RowsSpec, TableSpec

__all__ = [
    "FULL",
    "QUICK",
    "SCALES",
    "TINY",
    "Case",
    "Delete",
    "Merge",
    "Scale",
    "Source",
    "WebReturns",
    "WideTable",
    "cases_of",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The sizes of a run."""

    name: str
    files: int = 200
    rows_per_file: int = 100_000
    delete_files: int = 1000
    log_files: int = 1_000_000
    tail: int = 10
    source_rows: int = 100_000
    large_source_rows: int = 5_000_000
    wide_rows: int = 2_000_000
    web_returns_rows: int = 2_000_000


FULL = Scale(name="full")
QUICK = Scale(
    name="quick", files=20, delete_files=100, log_files=100_000, source_rows=10_000,
    large_source_rows=500_000, wide_rows=200_000, web_returns_rows=400_000,
)  # fmt: skip
TINY = Scale(
    name="tiny", files=4, rows_per_file=1000, delete_files=4, log_files=1000, tail=0,
    source_rows=100, large_source_rows=1000, wide_rows=2000, web_returns_rows=4000,
)  # fmt: skip
"""For the tests of the benchmarks."""
SCALES = {scale.name: scale for scale in (FULL, QUICK, TINY)}


@dataclass(frozen=True, slots=True, kw_only=True)
class WideTable:
    """A table of a key and 100 doubles, in files of 100,000 rows."""

    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WebReturns:
    """A table like `web_returns` of TPC-DS: 24 columns, 40 files in the order of their orders."""

    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The source of a MERGE: rows of the table, changed, and new rows."""

    kind: Literal["scattered", "clustered", "wide", "web_returns"]
    rows: int = 0
    files: float = 1.0
    """The fraction of the table's files that it has rows of (`web_returns`)."""
    matched: float = 0.5
    """The fraction of the rows of those files, or of the source, that match."""
    not_matched: float = 0.5
    """The same for new rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """A DELETE of the rows with some ids, one of each file, or of a partition."""

    kind: Literal["rows", "partition"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """The condition and clauses of a MERGE, with the aliases `t` and `s`."""

    keys: tuple[str, ...]
    update: tuple[str, ...] | Literal["*"] = ()
    """Columns to set; none: no such clause."""
    delete: bool = False
    insert: tuple[str | None, ...] = ()
    """The condition of each clause that inserts."""

    @property
    def on(self) -> str:
        """The condition of the MERGE."""
        return " AND ".join(f"t.{key} = s.{key}" for key in self.keys)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One verb on one table."""

    name: str
    title: str
    table: RowsSpec | TableSpec | WideTable | WebReturns
    verb: Delete | Merge
    source: Source | None = None
    peers: tuple[str, ...] = ("deltalake", "deltalake streamed")

    @property
    def engines(self) -> tuple[str, ...]:
        """The engines that run it."""
        return ("lazydelta", *self.peers)


_UPSERT = Merge(keys=("id",), update=("value", "qty"), insert=(None,))
_SUITE_KEYS = ("wr_item_sk", "wr_order_number")
_INSERTED = (0.05, 0.5, 1.0)
_UPSERTED = [  # files, matched, not matched
    (0.05, 0.1, 0.01), (0.05, 0.0, 0.1), (0.05, 0.01, 0.1), (0.05, 0.1, 0.0), (0.5, 0.01, 0.001),
    (1.0, 0.01, 0.001), (0.05, 0.5, 0.001), (0.05, 0.99, 0.001), (0.05, 1.0, 0.001),
]  # fmt: skip


def cases_of(scale: Scale) -> dict[str, Case]:
    """Return all cases by name."""
    found = [*_deletes(scale), *_merges(scale), *_suite(scale)]
    return {case.name: case for case in found}


def _deletes(scale: Scale) -> list[Case]:
    rows_per_file = max(1, scale.rows_per_file // 5)
    return [
        Case(
            name="delete_rows",
            title=f"DELETE of one row from each of {scale.delete_files:,} files",
            table=RowsSpec(files=scale.delete_files, rows_per_file=rows_per_file),
            verb=Delete(kind="rows"),
            peers=("deltalake",),
        ),
        Case(
            name="delete_partition",
            title=f"DELETE of a partition, {scale.log_files:,} files in the log",
            table=TableSpec(files=scale.log_files, tail=scale.tail),
            verb=Delete(kind="partition"),
            peers=("deltalake",),
        ),
    ]


def _merges(scale: Scale) -> list[Case]:
    table = RowsSpec(files=scale.files, rows_per_file=scale.rows_per_file)
    small = RowsSpec(files=max(1, scale.files // 10), rows_per_file=scale.rows_per_file)
    upsert = f"{table.rows:,} rows, source of {scale.source_rows:,}"
    scattered = Source(kind="scattered", rows=scale.source_rows)
    strings = Merge(keys=("kind", "name"), update=_UPSERT.update, insert=(None,))
    return [
        Case(
            name="merge_scattered", title=f"MERGE upsert, scattered: {upsert}", table=table,
            verb=_UPSERT, source=scattered,
        ),
        Case(
            name="merge_scattered_small", title=f"the same, {small.rows:,} rows", table=small,
            verb=_UPSERT, source=scattered,
        ),
        Case(
            name="merge_clustered", title=f"MERGE upsert, clustered: {upsert}", table=table,
            verb=_UPSERT, source=Source(kind="clustered", rows=scale.source_rows),
        ),
        Case(
            name="merge_strings", title=f"MERGE upsert, two strings as key: {upsert}", table=table,
            verb=strings, source=scattered,
        ),
        Case(
            name="merge_large_source",
            title=f"MERGE upsert, string key, source of {scale.large_source_rows:,} rows",
            table=table,
            verb=Merge(keys=("name",), update=_UPSERT.update, insert=(None,)),
            source=Source(kind="scattered", rows=scale.large_source_rows),
            peers=("deltalake",),
        ),
        Case(
            name="merge_wide", title=f"MERGE updates 200 of {scale.wide_rows:,} rows, 100 doubles",
            table=WideTable(rows=scale.wide_rows), verb=Merge(keys=("id",), update=("c0", "c1")),
            source=Source(kind="wide", rows=200, matched=1.0, not_matched=0.0),
        ),
    ]  # fmt: skip


def _suite(scale: Scale) -> list[Case]:
    """Return the cases of `MergeTestCases.scala` of Delta Spark."""
    table = WebReturns(rows=scale.web_returns_rows)

    def case(kind: str, verb: Merge, files: float, matched: float, not_matched: float) -> Case:
        source = Source(kind="web_returns", files=files, matched=matched, not_matched=not_matched)
        words = f"{kind}, files {files:g}, matched {matched:g}, not matched {not_matched:g}"
        name = f"suite_{kind}_{files:g}_{matched:g}_{not_matched:g}".replace(" ", "_")
        return Case(name=name, title=words, table=table, verb=verb, source=source)

    once = Merge(keys=_SUITE_KEYS, insert=(None,))
    twice = Merge(keys=_SUITE_KEYS, insert=("s.wr_item_sk % 2 = 0", None))
    upsert = Merge(keys=_SUITE_KEYS, update="*", insert=(None,))
    return [
        *(case("insert", once, 0.05, 0.0, fraction) for fraction in _INSERTED),
        *(case("insert by two clauses", twice, 0.05, 0.0, fraction) for fraction in _INSERTED),
        case("delete", Merge(keys=_SUITE_KEYS, delete=True), 0.05, 0.05, 0.0),
        *(case("upsert", upsert, *fractions) for fractions in _UPSERTED),
    ]
