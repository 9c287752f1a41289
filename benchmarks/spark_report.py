"""The page of `docs/benchmarks/` about Spark: the limits of issue 23, the plans, and a plot.

Pure except for the plot: results in, Markdown out.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING, Literal, get_args

from benchmarks.limits import Verdict
from benchmarks.plot import new_figure, save_figure
from benchmarks.report import format_seconds, machine, markdown_table
from benchmarks.spark_cases import (
    DELTA,
    FORMAT,
    LAYOUTS,
    LOCAL,
    NO_FILTER,
    OURS,
    PARQUET,
    PLAN_SIZES,
    STREAM_ROWS,
    Session,
    plan_filters,
    plan_table,
    row_tables,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from benchmarks.spark_engines import Memory
    from benchmarks.spark_results import Result, Run
    from benchmarks.spec import TableSpec

__all__ = [
    "CLUSTER",
    "draw_spark",
    "spark_section",
    "spark_verdicts",
]

CLUSTER = "local-cluster[2,1,1024]"
State = Literal["cold", "warm"]
_STATES: tuple[State, ...] = get_args(State)

_FILTERS = (NO_FILTER, "partition", "statistics", "both")
_BY_DAY = LAYOUTS.index("by day")
_STYLES = {OURS: ("#0b6e4f", "o"), DELTA: ("#c8553d", "s")}
_PLAN_LIMITS: list[tuple[int, State, float]] = [
    (1_000_000, "cold", 1 / 5),
    (100_000, "cold", 1 / 2),
    (1_000, "cold", 1.5),
    (1_000_000, "warm", 1.0),
    (100_000, "warm", 1.0),
    (10_000, "warm", 1.0),
    (1_000, "warm", 1.5),
]
_MOST_MEMORY = 1.2
_METHOD = f"""\
Each engine has a process and a session of its own for each table, with a heap of 4 GB. Figures are
medians in seconds. A *plan* is the number of all files, left in the executors, or the list of the
files of a predicate: a day of 365 (and half of the regions), a range of ids as selective, or both.
*First* is the first query of the session, of ids, which compiles and loads classes; all predicates
run once before the others are measured. *Cold* is the first query on a table that the session does
not know: delta-spark's cache is cleared, lazydelta has none. *Warm* is the same query again. Other
operations ran once before they were measured three times. Rows are read and every value hashed. A
stream is timed until it has found nothing new, or until it has {STREAM_ROWS:,} rows of a new commit
and then nothing new. Memory is the peak of the driver's Python process plus the live heap of its
JVM after a garbage collection, after all plans of a table; of the executors the same of the largest
worker and the largest JVM (none in local mode). Every count is checked against the generator's.
Tables are logs without data files for plans, and 200 files of eight columns for rows.

What limits the rows that are missed: a plan on executors starts Python tasks, while delta-spark's
warm query is one on rows that the JVM has cached. PySpark tells a Python format neither the columns
nor the filters of a query, so it reads everything: `lazydelta.spark.read` has Spark's own scan and
skips data by the DataFrame's own filters. A scan of all rows is Spark's own, compiled by the JVM
while it is measured: in a process that repeats it, `read` and `spark.read.parquet` differ by 5 %,
while the appends of two processes of lazydelta have differed by 80 %.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Limit:
    what: str
    must: str
    most: float
    workload: str
    operation: str
    theirs: str = DELTA
    mine: str = OURS


def _rows_limits(operation: str, what: str, read: float, by_format: float) -> list[_Limit]:
    """Return the limits of a query: of `read` and of the format."""
    return [
        _Limit(
            what=f"{what}: {name}", must=f"{most} x delta-spark", most=most,
            workload="rows", operation=operation, mine=mine,
        )
        for mine, name, most in ((OURS, "`read`", read), (FORMAT, "the format", by_format))
    ]  # fmt: skip


_LIMITS = [
    *_rows_limits("read", "all of 10 M rows", 0.9, 1.7),
    *_rows_limits("filter", "1 % of the rows", 0.9, 1.2),
    *_rows_limits("aggregate", "aggregate", 0.9, 1.7),
    *_rows_limits("count", "count", 0.9, 1.2),
    *_rows_limits("join", "join with a small table", 0.9, 1.7),
    _Limit(
        what="all of 10 M rows: native read", must="1.15 x spark.read.parquet", most=1.15,
        workload="rows", operation="read", theirs=PARQUET,
    ),
    _Limit(
        what="append of 5 M rows", must="delta-spark", most=1.0,
        workload="append", operation="append",
    ),
    _Limit(
        what="append of 5 M rows in 200 partitions", must="1.2 x delta-spark", most=1.2,
        workload="append", operation="append: partitioned",
    ),
    _Limit(
        what="stream: an empty micro-batch", must="delta-spark", most=1.0,
        workload="stream", operation="empty",
    ),
    _Limit(
        what="stream: a small micro-batch", must="delta-spark", most=1.0,
        workload="stream", operation="small",
    ),
    _Limit(
        what="read, 10 % of the rows deleted by vectors", must="1.5 x delta-spark", most=1.5,
        workload="deleted", operation="read",
    ),
    _Limit(
        what="MERGE of 100,000 scattered rows", must="1.3 x delta-spark", most=1.3,
        workload="merge", operation="merge",
    ),
    _Limit(
        what="OPTIMIZE of 200 files", must="1.2 x delta-spark", most=1.2,
        workload="optimize", operation="optimize",
    ),
    _Limit(
        what="Z-order of 200 files", must="1.2 x delta-spark", most=1.2,
        workload="cluster", operation="cluster",
    ),
]  # fmt: skip


def _pair(
    run: Run, mine: Session, theirs: Session, operation: str, state: State
) -> tuple[float, float] | None:
    """Return the seconds of both sessions; None unless both have a valid figure."""
    found = [run.results.get(session) for session in (mine, theirs)]
    ours, other = (result and result.seconds(operation, state) for result in found)
    return None if ours is None or other is None else (ours, other)


def _plan_pair(
    run: Run, spec: TableSpec, operation: str, state: State, master: str = LOCAL
) -> tuple[float, float] | None:
    mine, theirs = (
        Session(engine=engine, workload="plan", spec=spec, master=master)
        for engine in (OURS, DELTA)
    )
    return _pair(run, mine, theirs, operation, state)


def _seconds(pair: tuple[float, float]) -> str:
    return " / ".join(map(format_seconds, pair))


def _plan_verdict(run: Run, master: str, files: int, state: State, most: float) -> Verdict:
    """Return the verdict on the worst case of a size."""
    found = {}
    for levels, layout in enumerate(LAYOUTS):
        spec = plan_table(files, levels)
        for name in plan_filters(spec):
            pair = _plan_pair(run, spec, name, state, master)
            if pair is not None:
                found[f"{layout}, {name}"] = pair
    worst = max(found, key=lambda case: found[case][0] / found[case][1], default=None)
    return Verdict(
        what=f"plan of {files:,} files, {state}",
        must=f"{most:g} x delta-spark",
        most=most,
        ratio=None if worst is None else found[worst][0] / found[worst][1],
        shown=f"{_seconds(found[worst])} s, worst of {len(found)}: {worst}" if worst else "",
    )


def _limit_verdict(run: Run, master: str, limit: _Limit) -> Verdict:
    tables = row_tables("default")
    spec = tables.deleted if limit.workload in {"deleted", "merge"} else tables.plain
    mine, theirs = (
        Session(engine=engine, workload=limit.workload, spec=spec, master=master)
        for engine in (limit.mine, limit.theirs)
    )
    pair = _pair(run, mine, theirs, limit.operation, "warm")
    return Verdict(
        what=limit.what,
        must=limit.must,
        most=limit.most,
        ratio=pair and pair[0] / pair[1],
        shown=f"{_seconds(pair)} s" if pair else "",
    )


def _memory_verdict(run: Run, master: str, what: str, figure: Callable[[Memory], int]) -> Verdict:
    sizes = []
    for files in (4_000_000, 100_000):
        spec = plan_table(files, _BY_DAY)
        found = run.results.get(Session(engine=OURS, workload="plan", spec=spec, master=master))
        sizes.append(found.memory and figure(found.memory) if found else None)
    large, small = sizes
    known = large is not None and small is not None
    return Verdict(
        what=f"memory of the {what}, planning 4 M files",
        must=f"{_MOST_MEMORY} x that of 100 k files",
        most=_MOST_MEMORY,
        ratio=large / small if large and small else None,
        shown=f"{(large or 0) / 1e6:.0f} / {(small or 0) / 1e6:.0f} MB" if known else "",
    )


def spark_verdicts(run: Run, master: str = LOCAL) -> list[Verdict]:
    """Return the verdict on every limit; one without figures is marked as not measured."""
    return [
        *(_plan_verdict(run, master, *limit) for limit in _PLAN_LIMITS),
        _memory_verdict(run, master, "driver", lambda m: m.driver_rss + m.driver_heap),
        _memory_verdict(run, master, "executors", lambda m: m.executors_memory),
        *(_limit_verdict(run, master, limit) for limit in _LIMITS),
    ]


def _verdict_table(run: Run) -> str:
    def cell(verdict: Verdict) -> str:
        return "" if verdict.ratio is None else f"{verdict.ratio:.2f} ({verdict.shown})"

    rows = []
    for local, cluster in zip(spark_verdicts(run), spark_verdicts(run, CLUSTER), strict=True):
        words = [found.word for found in (local, cluster) if found.ratio is not None]
        word = max(words, key=len, default="")  # a miss is longer than a yes
        must = f"≤ {local.must}"
        rows.append([local.what, must, cell(local), cell(cluster), word or local.word])
    return markdown_table(["what", "must be", LOCAL, CLUSTER, "ok"], rows)


def _plan_table(run: Run) -> str:
    rows = []
    for files in PLAN_SIZES[run.suite]:
        for levels, layout in enumerate(LAYOUTS):
            spec = plan_table(files, levels)
            for state in _STATES:
                names = ("session", *_FILTERS)
                pairs = [_plan_pair(run, spec, name, state) for name in names]
                if any(pairs):
                    cells = ["" if pair is None else _seconds(pair) for pair in pairs]
                    rows.append([f"{files:,}", layout, state, *cells])
    title = "**Plans: seconds of lazydelta / delta-spark**\n\n"
    return title + markdown_table(["files", "layout", "", "first", *_FILTERS], rows)


def spark_section(run: Run, *, picture: Path) -> str:
    """Return the page; verdicts only for the sizes of the limits."""
    versions = f"pyspark {metadata.version('pyspark')}, pyarrow {metadata.version('pyarrow')}"
    days = sorted({result.day.isoformat() for result in run.results.values()})
    source = (
        f"Written by `python -m benchmarks.spark` ({run.suite}), run on {', '.join(days)}: "
        f"{machine()}; {versions}. Load average at the start: {run.busy:.1f}.\n"
    )
    is_quick = run.suite == "quick"
    judged = "A quick run: the limits are for other sizes.\n" if is_quick else _verdict_table(run)
    parts = [
        "# Spark\n",
        source,
        judged,
        f"![Time on Spark against the number of files]({picture.as_posix()})\n",
        _plan_table(run),
    ]
    if is_quick:
        parts.append(_figures(run))
    problems = [line for result in run.results.values() for line in result.problems]
    if problems:
        parts.append("**What failed**\n\n" + "".join(f"- {line}\n" for line in problems))
    return "\n".join([*parts, _METHOD])


def _figures(run: Run) -> str:
    rows = [
        [session.workload, name, session.engine, session.master, *_seconds_of(result, name)]
        for session, result in run.results.items()
        if session.workload != "plan"
        for name in result.timings
    ]
    return markdown_table(["workload", "operation", "engine", "master", "cold", "warm"], rows)


def _seconds_of(result: Result, name: str) -> list[str]:
    found = [result.seconds(name, state) for state in _STATES]
    return ["" if value is None else format_seconds(value) for value in found]


def draw_spark(run: Run, path: Path) -> None:
    """Write the plot as SVG: seconds against files of a table by day, cold and warm."""
    figure, axes = new_figure(2)
    for axis, state in zip(axes, _STATES, strict=True):
        for engine, (color, marker) in _STYLES.items():
            for name, line in ((NO_FILTER, "-"), ("partition", "--")):
                points = [
                    (session.spec.files, seconds)
                    for session, result in run.results.items()
                    if (session.engine, session.workload, session.master) == (engine, "plan", LOCAL)
                    and session.spec == plan_table(session.spec.files, _BY_DAY)
                    and (seconds := result.seconds(name, state)) is not None
                ]
                if points:
                    files, values = zip(*sorted(points), strict=True)
                    label = f"{engine}, {name}"
                    axis.plot(files, values, marker, ls=line, c=color, label=label)
        axis.set(xscale="log", yscale="log", xlabel="files in the table", ylabel="seconds")
        axis.set_title(f"Plan, {state}", fontsize=9)
        axis.grid(visible=True, which="major", alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    handles, labels = axes[-1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    save_figure(figure, path)
