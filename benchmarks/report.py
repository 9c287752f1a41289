"""The page of `docs/benchmarks/` about files and rows, from measured results and nothing else."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from typing import TYPE_CHECKING

from benchmarks.limits import row_verdicts, verdicts
from benchmarks.spec import RowsSpec
from benchmarks.suites import HEADLINE, MATRIX, SPARK_LIKE, RowTables

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from benchmarks.limits import Verdict
    from benchmarks.measure import Result, Run
    from benchmarks.spec import Spec, TableSpec

__all__ = [
    "format_seconds",
    "limits_table",
    "machine",
    "markdown",
    "markdown_table",
    "problems",
    "row_limits_table",
    "verdict_table",
]

_WORKLOADS = {
    "open": "Open the table",
    "first": "First 100 files",
    "all": "All files, no filter",
    "partition": "One partition of 365",
    "nothing": "A predicate that matches nothing",
    "read": "All rows, as one Arrow table",
    "stream": "All rows, batch by batch, none kept",
    "filter": "1 % of the rows: `id` between two values",
    "point": "One row: `id` is a value",
    "file": "The rows of the newest file: `id` from its first value on",
    "limit": "Any ten rows",
    "count": "The number of rows",
}
_METHOD = """\
Each figure comes from a separate process that runs one operation once. Import time is excluded and
has its own column. The clock starts a tenth of a second after the imports, because their threads
keep a core busy for a moment. Rounds are interleaved, and every second one runs in reverse order.
Operations under half a second run three times as often, those over half a minute once. Files are in
the page cache, where the generator left them.

The logs whose *files* are listed are synthetic and have no data files, so only planning is
measured. *Rows* are read from tables with all their data files (200 files, 8 columns: long,
double, two strings, timestamp, date, decimal(12,2), integer; sorted by `id`; Snappy, one row group
each; one commit), from the same files with deletion vectors for a tenth of the rows, scattered, and
from a large log whose newest 1000 data files exist. For the memory of a longer stream the table
lists the 200 files five times, under different names. *Small files* are 4000 of 100 rows each, with
the same columns.

- *best*, *median*: of the runs, in seconds, from the call that opens the table to the last file
  or row, before the result is freed.
- *first*: until the first file or row (or a batch of them); for engines that only return complete
  results it equals *best*.
- *RSS*: peak of the whole process, maximum of the runs; *imports*: RSS before the operation.
- *read*, *calls*: bytes and read calls of the process as the kernel counts them (including modules
  loaded on the way). *requests*: lazydelta's requests to its store, counted in one additional run.
- Every engine's count of files or rows is checked against the generator's.
- Raw pyarrow reads the columns of a plan without filter (path, partition values, size,
  modification time, deletion vector) from the checkpoint and discards them: no commits, no replay.
  For rows it reads the data files, without log and deletion vectors. It is the lower bound, not a
  competitor. lazydelta_decoder is the lower bound for views and for the filter: parquet-rs, which
  deltalake also uses, decodes given rows of given files.
- A ratio compares lazydelta's best time with the best of the peer's fastest variant; memory
  compares our worst with their best. The ratio of the medians is beside it: where the two differ
  much, the machine was busy and the run should be repeated.
- Engines return rows in the Arrow types of their choice: deltalake's own engine and Polars return
  string views into the pages, pyarrow copies strings. lazydelta does either: *views* is with
  `schema_force_view_types`. It uses the native decoder if installed, as in `make bench`
  (`make native`; docs/adr/0029 has figures without it).
- Polars' `all` and `partition` only make a plan, which does not report its number of files.
"""


def machine() -> str:
    """Return the machine that the figures were measured on."""
    memory = ""
    if hasattr(os, "sysconf"):
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        memory = f", {size / 2**30:.0f} GiB of memory"
    return (
        f"{os.cpu_count()} cores ({platform.machine()}){memory}, {platform.system()}, "
        f"Python {platform.python_version()}"
    )


def _versions() -> str:
    found = []
    for name in ("deltalake", "polars", "pyarrow", "obstore", "arro3-io", "numpy"):
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    return ", ".join(found)


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def verdict_table(found: Iterable[Verdict], *, is_judged: bool) -> str:
    """Return limits and measurements; verdicts only for the sizes that the limits are for."""
    rows = [
        (
            v.what,
            f"≤ {v.must}",
            "" if v.ratio is None else f"{v.ratio:.3f} (at most {v.most:.3f})",
            "" if v.median_ratio is None else f"{v.median_ratio:.3f}",
            v.shown,
            v.word if is_judged else "",
        )
        for v in found
    ]
    return markdown_table(
        ["what", "must be", "measured ratio", "of medians", "ours / theirs", "ok"], rows
    )


def limits_table(results: Sequence[Result], spec: TableSpec) -> str:
    """Return the issue's limits with measurements; verdicts only on their table size."""
    return verdict_table(verdicts(results, spec), is_judged=spec.files == HEADLINE.files)


def row_limits_table(results: Sequence[Result], tables: RowTables) -> str:
    """Return the same for the limits about rows."""
    return verdict_table(row_verdicts(results, tables), is_judged=tables.is_judged)


def format_seconds(value: float) -> str:
    """Return seconds with their significant digits."""
    return f"{value:.3f}" if value < 1 else f"{value:.2f}"


def _line(result: Result) -> list[str]:
    case = result.case
    variant = case.workload.partition(": ")[2]
    name = f"{case.engine} ({variant})" if variant else case.engine
    if result.problem:
        return [name, result.problem.replace("|", "/")[:120], *[""] * 8]
    account = result.account
    return [
        name,
        format_seconds(result.best("total_seconds")),
        format_seconds(result.median("total_seconds")),
        format_seconds(result.best("first_seconds")) if result.best("first_seconds") else "-",
        f"{result.worst('peak_rss') / 1e6:.0f}",
        f"{result.median('base_rss') / 1e6:.0f}",
        format_seconds(result.median("import_seconds")),
        f"{result.median('read_bytes') / 1e6:.1f}",
        f"{result.median('read_calls'):.0f}",
        "" if account is None else f"{account.requests} ({account.request_bytes / 1e6:.1f} MB)",
    ]


_HEADER = [
    "engine", "best s", "median s", "first s", "RSS MB", "imports MB", "import s", "read MB",
    "calls", "requests",
]  # fmt: skip


def _tables(results: Sequence[Result], spec: Spec) -> str:
    text = ""
    for kind, title in _WORKLOADS.items():
        rows = [
            _line(result)
            for result in results
            if result.case.spec == spec and result.case.kind == kind
        ]
        if rows:
            text += f"\n**{title}**\n\n{markdown_table(_HEADER, rows)}"
    return text


def problems(results: Iterable[Result]) -> list[str]:
    """Return one line for each case that failed or returned a wrong count."""
    return [
        f"{r.case.engine}, {r.case.workload}, {r.case.spec.files} files ({r.case.spec.label}): "
        f"{r.problem}"
        for r in results
        if r.problem
    ]


def _title(spec: Spec) -> str:
    if isinstance(spec, RowsSpec):
        words = f"Rows: {spec.files:,} files, {spec.rows:,} rows"
        if spec.deleted_percent:
            words += f", {spec.deleted_percent} % of them deleted by deletion vectors"
        return words + (f"; {spec.distinct:,} files differ" if spec.distinct else "")
    if spec.real_files:
        newest = spec.indices - spec.first_real
        return f"Rows: {spec.files:,} files in the log, of which the newest {newest:,} exist"
    for name, variant in MATRIX.items():
        if spec == variant:
            return f"{spec.files:,} files: {name}"
    if not spec.clustered:
        return f"{spec.files:,} files, Spark-like: hash-ordered, one row group per 1,048,576 rows"
    return f"{spec.files:,} files, clustered, row groups of {spec.row_group_rows:,}"


def _judged(results: Sequence[Result]) -> str:
    """Return the limits about files."""
    specs = {r.case.spec for r in results if not isinstance(r.case.spec, RowsSpec)}
    text = ""
    for spec, name in (
        (HEADLINE, "Clustered by date, small row groups"),
        (SPARK_LIKE, "Spark-like: hash-ordered, huge row groups"),
    ):
        if spec in specs:
            text += f"\n### {name}\n\n{limits_table(results, spec)}"
    if not text:
        largest = max(specs, key=lambda spec: spec.files)
        text = "\nA quick run: the limits are for 1 M files, so these ratios have no verdict.\n\n"
        text += limits_table(results, largest)
    return text


def _judged_rows(results: Sequence[Result], tables: RowTables) -> str:
    text = "\n"
    if not tables.is_judged:
        text += (
            f"{tables.rows:,} rows, and {tables.log_files:,} files in the large log: the limits "
            "are for 20 M and 1 M, so these ratios have no verdict.\n\n"
        )
    return text + row_limits_table(results, tables)


def _verdict_parts(results: Sequence[Result], picture: Path, rows_picture: Path) -> list[str]:
    files = [result for result in results if not result.case.reads_rows]
    rows = [result for result in results if result.case.reads_rows]
    tables = RowTables.among(result.case.spec for result in rows)
    parts = []
    if files:
        parts.append("## Against the limits\n" + _judged(files))
        parts.append(f"![Time and memory against the number of files]({picture.as_posix()})\n")
    if tables is not None:
        parts.append("## Rows\n" + _judged_rows(rows, tables))
        parts.append(f"![Time of each engine to read rows]({rows_picture.as_posix()})\n")
    return parts


def markdown(run: Run, *, picture: Path, rows_picture: Path) -> str:
    """Return the report of a run; the pictures are the paths of its plots, as linked."""
    results = run.results
    specs = list(dict.fromkeys(result.case.spec for result in results))
    failed = problems(results)
    parts = [
        "# Files and rows\n",
        f"Written by `python -m benchmarks` ({run.suite}) on {run.day.isoformat()}.\n",
        f"{machine()}; {_versions()}. Load average at the start: {run.busy:.1f}.\n",
        *_verdict_parts(results, picture, rows_picture),
        "## How it was measured\n\n" + _METHOD,
        "## All figures\n",
        *[f"### {_title(spec)}\n{_tables(results, spec)}" for spec in specs],
    ]
    if failed:
        parts.append("## What failed\n\n" + "\n".join(f"- {line}" for line in failed) + "\n")
    return "\n".join(parts)
