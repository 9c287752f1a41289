"""The page of `docs/benchmarks/` about Spark: limits, figures, and a plot.

Pure except for the plot: results in, Markdown out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import metadata
from typing import TYPE_CHECKING

from benchmarks.limits import Verdict
from benchmarks.plot import new_figure, save_figure
from benchmarks.report import format_seconds, machine, markdown_table, verdict_table
from benchmarks.spark_engines import DELTA, FORMAT, OURS, PARQUET
from benchmarks.suites import HEADLINE, RowTables

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from benchmarks.measure import Result, Run
    from benchmarks.spec import Spec

__all__ = [
    "draw_spark",
    "spark_section",
    "spark_verdicts",
]

_TITLE = "# Spark\n"
_TABLES = RowTables()
_MILLION, _FOUR = HEADLINE, replace(HEADLINE, files=4_000_000)
_HUNDRED = replace(HEADLINE, files=100_000)
_STYLES = {
    OURS: ("#0b6e4f", "o"),
    DELTA: ("#c8553d", "s"),
    "lazydelta": ("#8d99ae", "x"),
}
_TITLES = {
    "partition": "Files of one partition of 365, replayed and skipped",
    "all": "All files, left in the executors",
    "read": "All rows",
    "filter": "Rows of 1 % of the ids, by a filter of the DataFrame",
    "aggregate": "Aggregate of all rows by a column of 40 values",
    "count": "Number of rows",
    "join": "Join of all rows with a table of 40 rows",
    "append": "Append of 5,000,000 rows to a new table",
    "append: partitioned": "Append of 5,000,000 rows in 200 partitions",
    "merge": "MERGE of 100,000 scattered rows",
    "optimize": "OPTIMIZE of 200 files to 16 MB",
    "cluster": "Z-order of 200 files by two columns, to 16 MB",
}
_METHOD = """\
Each figure comes from a separate process with its own session in local mode, on all cores, with a
heap of 4 GB. Session start is excluded and has its own column. Files are listed as the first query
of the session. Rows are read and every value hashed, or a copy of the table is changed, three
times; *best* and *median* are of the faster of the last two, *first* of the first. Every count is
checked against the generator's.
*driver MB* is the peak of the driver's Python process plus the live heap of the JVM after the query
and a garbage collection; in local mode it includes the executors' share of that heap. `lazydelta`
is the planner without Spark: one process.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Limit:
    what: str
    must: str
    most: float
    workload: str
    ours: Spec
    theirs: Spec
    engine: str
    figure: str = "total_seconds"
    mine: str = OURS


def _rows_limits(workload: str, what: str, read: float, by_format: float) -> list[_Limit]:
    """Return the limits of a query of 20 M rows: of `read` and of the format."""
    plain = _TABLES.plain
    return [
        _Limit(
            what=f"{what}: {name}, 20 M rows", must=f"{most} x delta-spark", most=most,
            workload=workload, ours=plain, theirs=plain, engine=DELTA, mine=mine,
        )
        for mine, name, most in ((OURS, "`read`", read), (FORMAT, "the format", by_format))
    ]  # fmt: skip


_LIMITS = [
    _Limit(
        what="replay and skipping of 1 M files, one-partition filter", must="delta-spark",
        most=1.0, workload="partition", ours=_MILLION, theirs=_MILLION, engine=DELTA,
    ),
    _Limit(
        what="replay of 1 M files, no filter, result kept distributed", must="0.8 x delta-spark",
        most=0.8, workload="all", ours=_MILLION, theirs=_MILLION, engine=DELTA,
    ),
    _Limit(
        what="driver memory, planning 4 M files", must="1.2 x that of 1 M files", most=1.2,
        workload="all", ours=_FOUR, theirs=_MILLION, engine=OURS, figure="peak_rss",
    ),
    _Limit(
        what="native read, 20 M rows", must="1.15 x spark.read.parquet of the same files",
        most=1.15, workload="read", ours=_TABLES.plain, theirs=_TABLES.plain, engine=PARQUET,
    ),
    *_rows_limits("read", "all rows", 0.9, 1.7),
    *_rows_limits("filter", "1 % of the rows", 0.9, 1.2),
    *_rows_limits("aggregate", "aggregate", 0.9, 1.7),
    *_rows_limits("count", "count", 0.9, 1.2),
    *_rows_limits("join", "join with a small table", 0.9, 1.7),
    _Limit(
        what="append of 5 M rows", must="delta-spark",
        most=1.0, workload="append", ours=_TABLES.plain, theirs=_TABLES.plain, engine=DELTA,
    ),
    _Limit(
        what="append of 5 M rows in 200 partitions", must="1.2 x delta-spark", most=1.2,
        workload="append: partitioned", ours=_TABLES.plain, theirs=_TABLES.plain, engine=DELTA,
    ),
    _Limit(
        what="read with deletion vectors, 20 M rows", must="1.5 x delta-spark", most=1.5,
        workload="read", ours=_TABLES.deleted, theirs=_TABLES.deleted, engine=DELTA,
    ),
    _Limit(
        what="MERGE of 100,000 rows, 20 M rows with deletion vectors", must="1.3 x delta-spark",
        most=1.3, workload="merge", ours=_TABLES.deleted, theirs=_TABLES.deleted, engine=DELTA,
    ),
    _Limit(
        what="OPTIMIZE, 20 M rows in 200 files", must="1.2 x delta-spark",
        most=1.2, workload="optimize", ours=_TABLES.plain, theirs=_TABLES.plain, engine=DELTA,
    ),
    _Limit(
        what="Z-order, 20 M rows in 200 files", must="1.2 x delta-spark",
        most=1.2, workload="cluster", ours=_TABLES.plain, theirs=_TABLES.plain, engine=DELTA,
    ),
    _Limit(
        what="replay, from 100 k to 1 M files", must="10 x: at most linear", most=10.0,
        workload="all", ours=_MILLION, theirs=_HUNDRED, engine=OURS,
    ),
    _Limit(
        what="replay, from 1 M to 4 M files", must="4 x: at most linear", most=4.0,
        workload="all", ours=_FOUR, theirs=_MILLION, engine=OURS,
    ),
]  # fmt: skip


def _find(results: Sequence[Result], engine: str, workload: str, spec: Spec) -> Result | None:
    for result in results:
        case = result.case
        if (case.engine, case.workload, case.spec) == (engine, workload, spec):
            return None if result.problem else result
    return None


def _shown(value: float, figure: str) -> str:
    return f"{value / 1e6:.0f} MB" if figure == "peak_rss" else f"{value:.2f} s"


def spark_verdicts(results: Sequence[Result]) -> list[Verdict]:
    """Return the verdict on every limit; one without figures is marked as not measured."""
    found = []
    for limit in _LIMITS:
        ours = _find(results, limit.mine, limit.workload, limit.ours)
        theirs = _find(results, limit.engine, limit.workload, limit.theirs)
        ratio = median = None
        shown = ""
        if ours is not None and theirs is not None:
            mine, other = ours.best(limit.figure), theirs.best(limit.figure)
            ratio = mine / other
            median = ours.median(limit.figure) / theirs.median(limit.figure)
            shown = f"{_shown(mine, limit.figure)} / {_shown(other, limit.figure)}"
        found.append(
            Verdict(
                what=limit.what,
                must=limit.must,
                ratio=ratio,
                median_ratio=median,
                most=limit.most,
                shown=shown,
            )
        )
    return found


def _line(result: Result) -> list[str]:
    case = result.case
    if result.problem:
        problem = result.problem.replace("|", "/")[:120]
        return [f"{case.spec.files:,}", case.engine, problem, "", "", "", ""]
    return [
        f"{case.spec.files:,}",
        case.engine,
        format_seconds(result.best("total_seconds")),
        format_seconds(result.median("total_seconds")),
        format_seconds(result.best("first_seconds")),
        format_seconds(result.median("import_seconds")),
        f"{result.worst('peak_rss') / 1e6:.0f}",
    ]


def _tables(results: Sequence[Result]) -> str:
    header = ["files", "engine", "best s", "median s", "first s", "session s", "driver MB"]
    parts = []
    for workload, title in _TITLES.items():
        some = [result for result in results if result.case.workload == workload]
        for deleted in (False, True):
            rows = [
                _line(result)
                for result in some
                if bool(getattr(result.case.spec, "deleted_percent", 0)) is deleted
            ]
            if rows:
                more = ", 10 % of them deleted by deletion vectors" if deleted else ""
                parts.append(f"**{title}{more}**\n\n{markdown_table(header, rows)}")
    return "\n".join(parts)


def spark_section(run: Run, *, picture: Path) -> str:
    """Return the page; verdicts only for a complete run."""
    versions = f"pyspark {metadata.version('pyspark')}, pyarrow {metadata.version('pyarrow')}"
    source = (
        f"Written by `python -m benchmarks.spark` ({run.suite}) on {run.day}: {machine()}; "
        f"{versions}. Load average at the start: {run.busy:.1f}.\n"
    )
    judged = "A quick run: the limits are for other sizes.\n"
    if not run.suite.startswith("quick"):
        judged = verdict_table(spark_verdicts(run.results), is_judged=run.suite == "default")
    parts = [
        _TITLE,
        source,
        judged,
        f"![Time on Spark against the number of files]({picture.as_posix()})\n",
        _tables(run.results),
        _METHOD,
    ]
    return "\n".join(parts)


def draw_spark(results: Sequence[Result], path: Path) -> None:
    """Write the plot as SVG: seconds against files, for both listings."""
    figure, axes = new_figure(2)
    for axis, workload in zip(axes, ("partition", "all"), strict=True):
        for engine, (color, marker) in _STYLES.items():
            points = [
                (result.case.spec.files, result.best("total_seconds"))
                for result in results
                if result.case.engine == engine
                and result.case.workload == workload
                and not result.problem
            ]
            if points:
                files, seconds = zip(*sorted(points), strict=True)
                axis.plot(files, seconds, marker, ls="-", c=color, label=engine)
        axis.set(xscale="log", yscale="log", xlabel="files in the table", ylabel="seconds")
        axis.set_title(_TITLES[workload], fontsize=9)
        axis.grid(visible=True, which="major", alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    handles, labels = axes[-1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    save_figure(figure, path)
