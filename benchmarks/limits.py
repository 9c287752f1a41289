"""The limits that issue 2 sets, and the verdict of a run on each. Pure: results in, verdicts out.

Times are compared best against best, memory worst (ours) against best (theirs). Where a peer has
several ways to do a thing, its fastest one counts. A limit whose figures were not measured, or
where an engine counted wrongly, has no verdict.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from benchmarks.measure import Result
    from benchmarks.spec import TableSpec

__all__ = ["Verdict", "find", "verdicts"]

_SECONDS = "total_seconds"
_PEAK = "peak_rss"
_MOST_FIRST_RSS = 150e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One limit and what was measured."""

    what: str
    must: str
    ratio: float | None
    median_ratio: float | None = None
    most: float
    shown: str

    @property
    def word(self) -> str:
        """Yes, no, or that it was not measured."""
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
    figure: str = _SECONDS
    files: int = 0  # 0: as many as the table the verdicts are about
    their_files: int = 0


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


def find(
    results: Iterable[Result], engine: str, workload: str, spec: TableSpec
) -> Sequence[Result]:
    """Return the usable results of a workload on a table: the plain one, for peers its variants."""
    return [
        result
        for result in results
        if (result.case.engine, result.case.spec) == (engine, spec)
        and result.case.workload.split(":")[0] == workload
        and (engine != "lazydelta" or result.case.workload == workload)
        and not (workload == "nothing" and result.case.workload == "nothing: partition")
        and not result.problem
    ]


def _format(value: float, figure: str) -> str:
    if figure == _PEAK:
        return f"{value / 1e6:.0f} MB"
    return f"{value * 1000:.1f} ms" if value < 0.1 else f"{value:.2f} s"


def _verdict(limit: _Limit, results: Sequence[Result], spec: TableSpec) -> Verdict:
    ours_spec = replace(spec, files=limit.files or spec.files)
    their_spec = replace(spec, files=limit.their_files or spec.files)
    ours = find(results, "lazydelta", limit.ours, ours_spec)
    theirs = find(results, limit.engine, limit.theirs, their_spec)
    if not ours or not theirs:
        return Verdict(what=limit.what, must=limit.must, ratio=None, most=limit.most, shown="")
    peak = limit.figure == _PEAK
    mine = ours[0].worst(limit.figure) if peak else ours[0].best(limit.figure)
    rival = min(theirs, key=lambda result: result.best(limit.figure))
    other = rival.best(limit.figure)
    shown = f"{_format(mine, limit.figure)} / {_format(other, limit.figure)}"
    return Verdict(
        what=limit.what,
        must=limit.must,
        ratio=mine / other,
        median_ratio=ours[0].median(limit.figure) / rival.median(limit.figure),
        most=limit.most,
        shown=shown,
    )


def verdicts(results: Sequence[Result], spec: TableSpec) -> list[Verdict]:
    """Return the verdict on every limit, for the table `spec` (1 M files, as the issue says)."""
    table = [_verdict(limit, results, spec) for limit in _LIMITS]
    first = find(results, "lazydelta", "first", spec)
    peak = first[0].worst(_PEAK) if first else None
    last = Verdict(
        what="peak RSS, first 100 files",
        must="150 MB, whole process",
        ratio=None if peak is None else peak / _MOST_FIRST_RSS,
        most=1.0,
        shown="" if peak is None else _format(peak, _PEAK),
    )
    return [*table, last]
