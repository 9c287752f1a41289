"""The page of `docs/benchmarks/` about writing: the limits of issue 5, figures, and a plot.

Pure except for the plot: samples in, Markdown out.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from benchmarks.limits import Verdict
from benchmarks.plot import new_figure, save_figure
from benchmarks.report import format_seconds, machine, markdown_table, verdict_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

__all__ = ["draw_writes", "write_section", "write_verdicts"]

Samples = dict[str, dict[str, list[dict[str, Any]]]]
"""Workload, engine, and the sample of each round."""

OURS = "lazydelta"
TITLES = {
    "large": "20 M rows, 8 columns, unpartitioned",
    "partitioned": "20 M rows, 8 columns, 365 partitions",
    "small": "500 appends of 100 rows, one writer",
    "race": "8 processes, 100 appends each",
}
_COLORS = {OURS: "#0b6e4f", "deltalake": "#c8553d", "pyarrow": "#8d99ae"}
_METHOD = """\
Each figure comes from a separate process that has imported its engine and created a first small
table before the clock starts; engines alternate. Rows are generated in memory first and appended in
one call. In the concurrent workload all processes start together, both engines may retry 100 times,
and the rows of the table are counted at the end: a lost or doubled append fails the run. lazydelta
flushes files and directories to disk before a commit returns, the others do not; it also writes a
checksum after each commit and a checkpoint after every tenth. A checkpoint is timed in two ways,
because deltalake does half of that work while it opens: from the table's address to the end, and,
more strictly, against its `create_checkpoint` alone.
"""


def _best(samples: Sequence[Mapping[str, Any]], key: str = "total") -> float:
    return min(float(sample[key]) for sample in samples)


def _median(samples: Sequence[Mapping[str, Any]], key: str = "total") -> float:
    return statistics.median(float(sample[key]) for sample in samples)


def _against(samples: Samples, workload: str, peer: str, most: float) -> Verdict:
    """Return the verdict on the time of a workload."""
    found = samples.get(workload, {})
    verdict = {"what": TITLES[workload], "must": f"{most:g} x {peer}", "most": most}
    if not found.get(OURS) or not found.get(peer):
        return Verdict(**verdict, ratio=None, shown="")
    ours, theirs = _best(found[OURS]), _best(found[peer])
    return Verdict(
        **verdict,
        ratio=ours / theirs,
        median_ratio=_median(found[OURS]) / _median(found[peer]),
        shown=f"{ours:.2f} s / {theirs:.2f} s",
    )


def _growth(samples: Samples) -> Verdict:
    ours = [sample for sample in samples.get("small", {}).get(OURS, ()) if "at_end" in sample]
    what, must = "small appends: the 500th", "1.3 x the 50th"
    if not ours:
        return Verdict(what=what, must=must, most=1.3, ratio=None, shown="")
    first, last = _best(ours, "at_50"), _best(ours, "at_end")
    return Verdict(
        what=what,
        must=must,
        most=1.3,
        ratio=last / first,
        shown=f"{1000 * last:.1f} ms / {1000 * first:.1f} ms",
    )


def _failures(samples: Samples) -> Verdict:
    """Return the verdict on failed appends; a lost append would have ended the run."""
    ours = [sample["failed"] for sample in samples.get("race", {}).get(OURS, ())]
    what = f"{TITLES['race']}: failed"
    if not ours:
        return Verdict(what=what, must="0", most=0.0, ratio=None, shown="")
    theirs = max(sample["failed"] for sample in samples["race"]["deltalake"])
    shown = f"{max(ours)} / {theirs}"
    return Verdict(what=what, must="0", most=0.0, ratio=float(max(ours)), shown=shown)


def write_verdicts(samples: Samples) -> list[Verdict]:
    """Return the verdict on every append limit; one without figures is marked as not measured."""
    return [
        _against(samples, "large", "deltalake", 1.0),
        _against(samples, "large", "pyarrow", 1.3),
        _against(samples, "partitioned", "deltalake", 1.0),
        _against(samples, "partitioned", "pyarrow", 1.3),
        _against(samples, "small", "deltalake", 0.7),
        _growth(samples),
        _against(samples, "race", "deltalake", 1.0),
        _failures(samples),
    ]


def write_section(
    samples: Samples, checkpoints: Sequence[Verdict], *, when: str, picture: Path
) -> str:
    """Return the page.

    Args:
        samples: The measurements.
        checkpoints: Verdicts on checkpoints, measured separately.
        when: Date and load average of the run.
        picture: The path of the plot.
    """
    rows = [
        (
            title,
            engine,
            format_seconds(_best(found)),
            format_seconds(_median(found)),
            _rate(workload, found),
        )
        for workload, title in TITLES.items()
        for engine, found in samples.get(workload, {}).items()
        if found
    ]
    return "\n".join(
        [
            "# Writing\n",
            f"Written by `python -m benchmarks.writes` on {when}: {machine()}.\n",
            verdict_table([*write_verdicts(samples), *checkpoints], is_judged=True),
            f"![Time of appends, as a multiple of ours]({picture.as_posix()})\n",
            markdown_table(["what", "engine", "best s", "median s", "commits/s"], rows),
            _METHOD,
        ]
    )


def _rate(workload: str, found: Sequence[Mapping[str, Any]]) -> str:
    commits = {"small": found[0].get("appends"), "race": found[0].get("appends")}.get(workload)
    return f"{commits / _best(found):.1f}" if commits else ""


def draw_writes(samples: Samples, path: Path) -> None:
    """Write the plot as SVG: the time of each engine, as a multiple of ours."""
    figure, axes = new_figure(len(TITLES))
    for axis, (workload, title) in zip(axes, TITLES.items(), strict=True):
        found = {name: some for name, some in samples.get(workload, {}).items() if some}
        if OURS in found:
            times = {name: _best(some) / _best(found[OURS]) for name, some in found.items()}
            bars = axis.bar(list(times), list(times.values()), color=[_COLORS[n] for n in times])
            axis.bar_label(bars, fmt="%.2f", fontsize=8)
        axis.set_title(title.replace(", ", ",\n"), fontsize=8)
        axis.tick_params(labelsize=7)
        axis.set_ylabel("time, ours = 1", fontsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    save_figure(figure, path)
