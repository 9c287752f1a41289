"""What a run on Spark measures: sessions, their tables and predicates, and the expected counts.

Pure. A session is one process: an engine, a workload and a table. A workload has several
operations, so that the start of Spark is paid once for all of them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from benchmarks.columns import FIRST_ID, IDS_PER_FILE, FileColumns
from benchmarks.spec import DAYS, FILTER_DAY, REGIONS, RowsSpec, Spec, TableSpec, spec_from
from benchmarks.suites import HEADLINE, RowTables
from benchmarks.tail import live_indices

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "APPENDS",
    "DELTA",
    "DELTA_ENGINES",
    "FORMAT",
    "LAYOUTS",
    "LOCAL",
    "MERGED_ROWS",
    "NO_FILTER",
    "OURS",
    "PARQUET",
    "PLAN_SIZES",
    "QUERIES",
    "STREAM_BATCHES",
    "STREAM_ROWS",
    "WORKLOADS",
    "Session",
    "expected_counts",
    "plan_filters",
    "plan_table",
    "row_tables",
    "spark_sessions",
]

OURS, DELTA, PARQUET = "lazydelta on Spark", "delta-spark", "spark.read.parquet"
FORMAT = "lazydelta format"
DELTA_ENGINES = (OURS, DELTA)
LOCAL = "local[2]"

NO_FILTER = "no filter"
QUERIES = ("read", "filter", "aggregate", "count", "join")
APPENDS = ("append", "append: partitioned")
STREAM_BATCHES = 10
STREAM_ROWS = 1000
"""Rows of a commit that is one micro-batch."""
MERGED_ROWS = 100_000
WORKLOADS = ("plan", "rows", "append", "stream", "deleted", "merge", "optimize", "cluster")
_EXTRA = WORKLOADS[4:]
"""Run only by name: limits of earlier issues."""

LAYOUTS = ("unpartitioned", "by day", "two levels")
"""By the number of partition levels."""
PLAN_SIZES = {"default": (1_000, 10_000, 100_000, 1_000_000), "quick": (1_000, 20_000)}
_LARGEST = 4_000_000
"""Planned by us alone, by day: for the memory of the driver."""
_ROWS = {"default": 10_000_000, "quick": 1_000_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One process that measures the operations of a workload on a table."""

    engine: str
    workload: str
    spec: Spec
    master: str = LOCAL

    def to_json(self) -> dict[str, Any]:
        """Return what `from_json` reads."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """Return the session with these fields."""
        return cls(**{**fields, "spec": spec_from(fields["spec"])})

    @property
    def label(self) -> str:
        """A short description."""
        return f"{self.engine}, {self.workload}, {self.spec.files:,} files ({self.spec.label})"


def plan_table(files: int, levels: int) -> TableSpec:
    """Return a table to plan on; its tail is at most a tenth of it."""
    tail_adds = min(HEADLINE.tail_adds, max(files // 100, 1))
    return replace(HEADLINE, files=files, tail_adds=tail_adds, partition_levels=levels)


def row_tables(suite: str) -> RowTables:
    """Return the tables of rows of a suite."""
    return RowTables(rows=_ROWS[suite])


def spark_sessions(suite: str, *, master: str = LOCAL) -> list[Session]:
    """Return the sessions of a suite, small tables first.

    Args:
        suite: `default` or `quick`.
        master: The master of Spark.
    """
    tables = row_tables(suite)
    wanted: list[tuple[tuple[str, ...], str, Spec]] = [
        (DELTA_ENGINES, "plan", plan_table(files, levels))
        for files in PLAN_SIZES[suite]
        for levels in range(len(LAYOUTS))
    ]
    if suite == "default":
        wanted.append(((OURS,), "plan", plan_table(_LARGEST, 1)))
    wanted += [
        ((OURS, FORMAT, DELTA, PARQUET), "rows", tables.plain),
        (DELTA_ENGINES, "append", tables.plain),
        (DELTA_ENGINES, "stream", tables.plain),
        (DELTA_ENGINES, "deleted", tables.deleted),
        (DELTA_ENGINES, "merge", tables.deleted),
        (DELTA_ENGINES, "optimize", tables.plain),
        (DELTA_ENGINES, "cluster", tables.plain),
    ]
    return [
        Session(engine=engine, workload=workload, spec=spec, master=master)
        for engines, workload, spec in wanted
        for engine in engines
    ]


def is_extra(session: Session) -> bool:
    """Whether a session is run only if its workload is named."""
    return session.workload in _EXTRA


# --- the predicates of a plan ---------------------------------------------------------------------


def _first_file(spec: TableSpec, days: float) -> int:
    """Return the number of the checkpoint's file at a date; files are in the order of dates."""
    return int(np.ceil(days * spec.files / DAYS))


def _id_range(spec: TableSpec, *, inside: bool) -> tuple[int, int]:
    """Return numbers of files: half of the day of the filter, or as many from its middle on."""
    start = FILTER_DAY if inside else FILTER_DAY + 0.5
    return _first_file(spec, start), _first_file(spec, start + (0.5 if inside else 1))


def _sql_range(files: tuple[int, int]) -> str:
    first, end = (FIRST_ID + number * IDS_PER_FILE for number in files)
    return f"id BETWEEN {first} AND {end - 1}"


def plan_filters(spec: TableSpec) -> dict[str, str | None]:
    """Return the predicates of a plan: each selects about one file in 365, or half as many."""
    found = {NO_FILTER: None, "statistics": _sql_range(_id_range(spec, inside=False))}
    if not spec.partition_levels:
        return found
    partition = f"date = '{date(2026, 1, 1) + timedelta(days=FILTER_DAY)}'"
    if spec.partition_levels == 2:
        partition += f" AND region < 'region-{REGIONS // 2}'"
    both = f"{partition} AND {_sql_range(_id_range(spec, inside=True))}"
    return {**found, "partition": partition, "both": both}


def _planned_files(spec: TableSpec) -> dict[str, int]:
    numbers = live_indices(spec)
    files = FileColumns(spec, numbers)
    here = files.day == FILTER_DAY
    if spec.partition_levels == 2:
        here &= files.region < REGIONS // 2

    def within(bounds: tuple[int, int]) -> Any:
        return (numbers >= bounds[0]) & (numbers < bounds[1])

    chosen = {
        NO_FILTER: numbers >= 0,
        "statistics": within(_id_range(spec, inside=False)),
        "partition": here,
        "both": here & within(_id_range(spec, inside=True)),
    }
    return {name: int(chosen[name].sum()) for name in plan_filters(spec)}


def expected_counts(session: Session, facts: Mapping[str, int]) -> dict[str, int]:
    """Return the count that each operation of a session must return.

    Args:
        session: The session.
        facts: The generator's facts about its table.
    """
    spec, workload = session.spec, session.workload
    if isinstance(spec, TableSpec):
        return _planned_files(spec)
    if workload in {"optimize", "cluster"}:
        return {workload: spec.files}
    if workload == "append":
        return dict.fromkeys(APPENDS, appended_rows(spec))
    if workload == "stream":
        return {"empty": 0, "small": STREAM_ROWS}
    if workload == "merge":
        return {"merge": MERGED_ROWS}
    live = facts["live_rows"]
    queries = QUERIES if workload == "rows" and session.engine != PARQUET else ("read",)
    counts = dict.fromkeys(queries, live)
    return counts | ({"filter": facts["rows_in_filter"]} if "filter" in counts else {})


def appended_rows(spec: RowsSpec) -> int:
    """Return the rows of an append, beside a table of rows."""
    return spec.rows // 2
