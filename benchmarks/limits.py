"""The limits that issues 2 (files) and 3 (rows) set, and the verdict of a run on each.

Pure: results in, verdicts out.

Times compare best with best, memory our worst with their best. Where a peer has several variants of
a workload, its fastest one counts, unless a limit names the variants. A limit without figures, or
where an engine returned a wrong count, has no verdict.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from benchmarks.measure import Result
    from benchmarks.spec import Spec, TableSpec
    from benchmarks.suites import RowTables

__all__ = ["Verdict", "find", "format_figure", "row_verdicts", "verdicts"]

_SECONDS = "total_seconds"
_PEAK = "peak_rss"
_MOST_FIRST_RSS = 150e6
_MOST_STREAM_RSS = 512e6
_ANY_PEER = "any peer"
# deltalake reads rows by two engines: pyarrow's datasets, and DataFusion, with two entry points.
_BY_PYARROW = ("to_pyarrow_table",)
_BY_DATAFUSION = ("QueryBuilder", "scan")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One limit and its measurement."""

    what: str
    must: str
    ratio: float | None
    median_ratio: float | None = None
    most: float
    shown: str

    @property
    def word(self) -> str:
        """Yes, no or not measured."""
        if self.ratio is None:
            return "not measured"
        return "yes" if self.ratio <= self.most else "**no**"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Limit:
    what: str
    must: str
    most: float
    ours: str
    theirs: str
    engine: str = "deltalake"
    ways: tuple[str, ...] = ()  # variants of the peer that count; none: all of them
    figure: str = _SECONDS
    files: int = 0  # 0: as many as the table of the verdicts
    their_files: int = 0
    on: str = "plain"  # which of the tables of rows
    their_on: str = "plain"


_LIMITS = [
    _Limit(
        what="first 100 files", must="1/50 of deltalake's open", most=1 / 50, ours="first",
        theirs="open",
    ),
    _Limit(
        what="first 100 files", must="1.5 x our own time on 10 k files", most=1.5, ours="first",
        theirs="first", engine="lazydelta", their_files=10_000,
    ),
    _Limit(
        what="all files, no filter", must="1/5 of deltalake open + list", most=1 / 5, ours="all",
        theirs="all",
    ),
    _Limit(
        what="all files, no filter, 3 M", must="1/8 of deltalake open + list", most=1 / 8,
        ours="all", theirs="all", files=3_000_000, their_files=3_000_000,
    ),
    _Limit(
        what="all files, no filter", must="2 x the raw pyarrow read of the same columns", most=2.0,
        ours="all", theirs="all", engine="pyarrow",
    ),
    _Limit(
        what="one-partition filter, no limit", must="1/8 of deltalake open + filter", most=1 / 8,
        ours="partition", theirs="partition",
    ),
    _Limit(
        what="a predicate that matches nothing", must="1/8 of deltalake", most=1 / 8,
        ours="nothing", theirs="nothing",
    ),
    _Limit(
        what="a predicate that matches nothing", must="1/40 of Polars scan_delta", most=1 / 40,
        ours="nothing", theirs="nothing", engine="polars",
    ),
    _Limit(
        what="peak RSS, all files streamed", must="1/4 of deltalake's", most=1 / 4, ours="all",
        theirs="all", figure=_PEAK,
    ),
    _Limit(
        what="peak RSS, all files streamed, 5 M", must="1.2 x the 1 M figure", most=1.2, ours="all",
        theirs="all", engine="lazydelta", figure=_PEAK, files=5_000_000, their_files=1_000_000,
    ),
]  # fmt: skip

_ROW_LIMITS = [
    _Limit(
        what="full read to Arrow", must="0.8 x deltalake's to_pyarrow_table", most=0.8,
        ours="read", theirs="read", ways=_BY_PYARROW,
    ),
    _Limit(  # these return views as well
        what="full read to Arrow, string views", must="0.8 x deltalake's QueryBuilder or scan",
        most=0.8, ours="read: views", theirs="read", ways=_BY_DATAFUSION,
    ),
    _Limit(
        what="full read to Arrow", must="1.25 x raw pyarrow on the same files", most=1.25,
        ours="read", theirs="read", engine="pyarrow",
    ),
    _Limit(
        what="full read, 10 % of the rows deleted", must="1.3 x ours without vectors", most=1.3,
        ours="read", theirs="read", engine="lazydelta", on="deleted",
    ),
    _Limit(
        what="1 % of the rows, by the clustered column",
        must="1/2 of deltalake's to_pyarrow_table", most=1 / 2, ours="filter", theirs="filter",
        ways=_BY_PYARROW,
    ),
    _Limit(
        what="1 % of the rows, by the clustered column",
        must="1/2 of deltalake's QueryBuilder or scan", most=1 / 2, ours="filter",
        theirs="filter", ways=_BY_DATAFUSION,
    ),
    _Limit(
        what="1 % of the rows, by the clustered column", must="1/2 of Polars scan_delta",
        most=1 / 2, ours="filter", theirs="filter", engine="polars",
    ),
    _Limit(  # the same on a table of the size that lazydelta is made for
        what="one file's rows, by the clustered column, 1 M files in the log",
        must="1/2 of the fastest peer", most=1 / 2, ours="file", theirs="file", engine=_ANY_PEER,
        on="log", their_on="log",
    ),
    _Limit(
        what="limit 10, 1 M files in the log", must="1/20 of the fastest peer", most=1 / 20,
        ours="limit", theirs="limit", engine=_ANY_PEER, on="log", their_on="log",
    ),
    _Limit(
        what="count, 1 M files in the log", must="1/5 of deltalake", most=1 / 5, ours="count",
        theirs="count", on="log", their_on="log",
    ),
    _Limit(  # not in an issue: what tables look like before compaction
        what="full read, 4000 files of 100 rows", must="1 x the fastest peer", most=1,
        ours="read", theirs="read", engine=_ANY_PEER, on="small", their_on="small",
    ),
    _Limit(
        what="peak RSS, all rows streamed, 1000 files", must="1.2 x the figure of 200 files",
        most=1.2, ours="stream", theirs="stream", engine="lazydelta", figure=_PEAK, on="many",
    ),
]  # fmt: skip


def find(results: Iterable[Result], engine: str, workload: str, spec: Spec) -> Sequence[Result]:
    """Return the usable results of a workload on a table; for peers, of all variants.

    `engine` may also be `any peer`.
    """
    return [
        result
        for result in results
        if result.case.spec == spec
        and _matches(engine, result.case.engine)
        and (result.case.workload if engine == "lazydelta" else result.case.kind) == workload
        and not (workload == "nothing" and result.case.workload == "nothing: partition")
        and not result.problem
    ]


def _matches(limit_engine: str, engine: str) -> bool:
    if limit_engine == _ANY_PEER:
        return engine in {"deltalake", "polars"}
    return engine == limit_engine


def format_figure(value: float, *, is_bytes: bool) -> str:
    """Return seconds or bytes with their unit."""
    if is_bytes:
        return f"{value / 1e6:.0f} MB"
    return f"{value * 1000:.1f} ms" if value < 0.1 else f"{value:.2f} s"


def _verdict(limit: _Limit, results: Sequence[Result], spec: Spec, their_spec: Spec) -> Verdict:
    ours = find(results, "lazydelta", limit.ours, spec)
    found = find(results, limit.engine, limit.theirs, their_spec)
    theirs = [result for result in found if not limit.ways or result.case.variant in limit.ways]
    if not ours or not theirs:
        return Verdict(what=limit.what, must=limit.must, ratio=None, most=limit.most, shown="")
    peak = limit.figure == _PEAK
    mine = ours[0].worst(limit.figure) if peak else ours[0].best(limit.figure)
    rival = min(theirs, key=lambda result: result.best(limit.figure))
    other = rival.best(limit.figure)
    shown = f"{format_figure(mine, is_bytes=peak)} / {format_figure(other, is_bytes=peak)}"
    return Verdict(
        what=limit.what,
        must=limit.must,
        ratio=mine / other,
        median_ratio=ours[0].median(limit.figure) / rival.median(limit.figure),
        most=limit.most,
        shown=shown,
    )


def _peak_verdict(what: str, found: Sequence[Result], most: float) -> Verdict:
    """Return the verdict on the memory of a whole process, ours alone."""
    peak = found[0].worst(_PEAK) if found else None
    return Verdict(
        what=what,
        must=f"{most / 1e6:.0f} MB, whole process",
        ratio=None if peak is None else peak / most,
        most=1.0,
        shown="" if peak is None else format_figure(peak, is_bytes=True),
    )


def verdicts(results: Sequence[Result], spec: TableSpec) -> list[Verdict]:
    """Return the verdict on every limit, for the table `spec` (1 M files, as in the issue)."""
    table = []
    for limit in _LIMITS:
        ours = replace(spec, files=limit.files or spec.files)
        theirs = replace(spec, files=limit.their_files or spec.files)
        table.append(_verdict(limit, results, ours, theirs))
    first = find(results, "lazydelta", "first", spec)
    return [*table, _peak_verdict("peak RSS, first 100 files", first, _MOST_FIRST_RSS)]


def row_verdicts(results: Sequence[Result], tables: RowTables) -> list[Verdict]:
    """Return the verdict on every limit about rows."""
    table = [
        _verdict(limit, results, getattr(tables, limit.on), getattr(tables, limit.their_on))
        for limit in _ROW_LIMITS
    ]
    stream = find(results, "lazydelta", "stream", tables.plain)
    return [*table, _peak_verdict("peak RSS, all rows streamed", stream, _MOST_STREAM_RSS)]
