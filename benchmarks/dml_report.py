"""The page of `docs/benchmarks/` about changing rows: the limits of issue 20, and all figures.

Pure except for the plot: samples in, Markdown out. Times compare best with best; of deltalake's two
ways of a MERGE the quicker one counts. Memory is our worst.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from benchmarks.limits import Verdict
from benchmarks.plot import new_figure, save_figure
from benchmarks.report import format_seconds, machine, markdown_table, verdict_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from benchmarks.dml_cases import Case
    from benchmarks.dml_engines import Sample

__all__ = ["OURS", "dml_section", "dml_verdicts", "draw_dml"]

Samples = dict[str, dict[str, list["Sample"]]]
"""Case, engine, and the sample of each round."""

OURS = "lazydelta"
_BUDGET = 512 * 2**20
_MEBIBYTE = 2**20
_TIMES = {
    "delete_rows": 1 / 4,
    "delete_partition": 1 / 8,
    "merge_scattered": 0.6,
    "merge_clustered": 0.8,
    "merge_strings": 1.0,
    "merge_wide": 0.1,
}
"""The most of deltalake's time that each case may take."""
_IN_BUDGET = ("merge_scattered", "merge_clustered", "merge_strings", "merge_large_source")
_SUITE = "suite_"
_PLOTTED = {
    "delete_rows": "DELETE\n1 row of each file",
    "delete_partition": "DELETE\na partition",
    "merge_scattered": "MERGE\nscattered",
    "merge_clustered": "MERGE\nclustered",
    "merge_strings": "MERGE\ntwo strings",
    "merge_wide": "MERGE\nwide rows",
}
_METHOD = """\
Each figure comes from a separate process that has run the verb on a small table before the clock
starts, and from a fresh copy of the table; engines alternate. The clock starts before the table is
opened. Sources are streams of batches. Counts of changed rows and the rows of the table are checked
after each run. RSS is the peak of the whole process; what it had before the clock started is beside
it. Both engines write Snappy. The tables of lazydelta have deletion vectors, which deltalake does
not write. The suite has the clauses and fractions of the merge benchmark of Delta Spark, on a table
like `web_returns` of TPC-DS: 24 columns in 40 files.
"""


def _good(samples: Samples, case: str, engine: str) -> list[Sample]:
    return [sample for sample in samples.get(case, {}).get(engine, ()) if not sample.error]


def _pick(
    samples: Samples,
    case: str,
    figure: Callable[[Sample], float],
    choose: Callable[[Iterable[float]], float] = min,
) -> tuple[float, float] | None:
    """Return our figure and the one of deltalake's better way; None without both."""
    ours = [figure(sample) for sample in _good(samples, case, OURS)]
    theirs = [
        choose(figure(sample) for sample in found)
        for engine in samples.get(case, {})
        if engine != OURS and (found := _good(samples, case, engine))
    ]
    return (choose(ours), min(theirs)) if ours and theirs else None


def _seconds(sample: Sample) -> float:
    return sample.seconds


def _written(sample: Sample) -> float:
    return sample.data_bytes + sample.other_bytes


def _time(samples: Samples, case: Case, most: float) -> Verdict:
    verdict = {"what": case.title, "must": f"{most:g} x deltalake", "most": most}
    best = _pick(samples, case.name, _seconds)
    middle = _pick(samples, case.name, _seconds, statistics.median)
    if best is None or middle is None:
        return Verdict(**verdict, ratio=None, shown="")
    return Verdict(
        **verdict,
        ratio=best[0] / best[1],
        median_ratio=middle[0] / middle[1],
        shown=f"{best[0]:.2f} s / {best[1]:.2f} s",
    )


def _memory(samples: Samples, case: Case, *, with_imports: bool) -> Verdict:
    """Return the verdict on our memory: the budget, with or without what the imports take."""
    ours = _good(samples, case.name, OURS)
    must = "512 MiB + imports" if with_imports else "512 MiB"
    shares = [s.peak_rss / (_BUDGET + (s.base_rss if with_imports else 0)) for s in ours]
    return Verdict(
        what=f"peak RSS, {case.title}",
        must=must,
        most=1.0,
        ratio=max(shares, default=None),
        shown=f"{max(s.peak_rss for s in ours) / _MEBIBYTE:.0f} MiB" if ours else "",
    )


def _flatness(samples: Samples) -> Verdict:
    large, small = (
        [sample.peak_rss for sample in _good(samples, name, OURS)]
        for name in ("merge_scattered", "merge_scattered_small")
    )
    what, must = "peak RSS, MERGE scattered: the table ten times as large", "1.2 x the small one"
    if not large or not small:
        return Verdict(what=what, must=must, most=1.2, ratio=None, shown="")
    shown = f"{max(large) / _MEBIBYTE:.0f} MiB / {max(small) / _MEBIBYTE:.0f} MiB"
    return Verdict(what=what, must=must, most=1.2, ratio=max(large) / max(small), shown=shown)


def _rewritten(samples: Samples) -> Verdict:
    ours = [sample.data_bytes for sample in _good(samples, "delete_rows", OURS)]
    return Verdict(
        what="DELETE of rows: data bytes rewritten",
        must="0",
        most=0.0,
        ratio=float(max(ours)) if ours else None,
        shown=f"{max(ours)}" if ours else "",
    )


def _suite(samples: Samples) -> list[Verdict]:
    names = [name for name in samples if name.startswith(_SUITE)]
    times = [pair for name in names if (pair := _pick(samples, name, _seconds))]
    sizes = [pair for name in names if (pair := _pick(samples, name, _written))]
    ratios = sorted(ours / theirs for ours, theirs in times)
    ours, theirs = (sum(pair[side] for pair in sizes) for side in (0, 1))
    shown = f"{ours / 1e6:.0f} MB / {theirs / 1e6:.0f} MB" if sizes else ""
    return [
        Verdict(
            what=f"merge suite: median of {len(ratios)} cases", must="1 x deltalake", most=1.0,
            ratio=statistics.median(ratios) if ratios else None, shown="",
        ),
        Verdict(
            what="merge suite: the slowest case", must="2 x deltalake", most=2.0,
            ratio=max(ratios, default=None), shown="",
        ),
        Verdict(
            what="merge suite: bytes written", must="1/5 of deltalake's", most=1 / 5,
            ratio=ours / theirs if sizes else None, shown=shown,
        ),
    ]  # fmt: skip


def dml_verdicts(cases: Sequence[Case], samples: Samples) -> list[Verdict]:
    """Return the verdict on every limit of the cases that ran."""
    found = {case.name: case for case in cases}
    verdicts = [_time(samples, found[name], most) for name, most in _TIMES.items() if name in found]
    if "delete_rows" in found:
        verdicts.append(_rewritten(samples))
    in_budget = [found[name] for name in _IN_BUDGET if name in found]
    verdicts += [_memory(samples, case, with_imports=True) for case in in_budget]
    if "merge_wide" in found:
        verdicts.append(_memory(samples, found["merge_wide"], with_imports=False))
    if "merge_scattered_small" in found:
        verdicts.append(_flatness(samples))
    if any(name.startswith(_SUITE) for name in found):
        verdicts.extend(_suite(samples))
    return verdicts


def _line(case: Case, engine: str, found: Sequence[Sample]) -> list[str]:
    good = [sample for sample in found if not sample.error]
    if not good:
        return [case.title, engine, found[0].error.replace("|", "/")[:120], *[""] * 6]
    seconds = [sample.seconds for sample in good]
    return [
        case.title,
        engine,
        format_seconds(min(seconds)),
        format_seconds(statistics.median(seconds)),
        format_seconds(min(sample.cpu_seconds for sample in good)),
        f"{max(sample.peak_rss for sample in good) / _MEBIBYTE:.0f}",
        f"{min(sample.base_rss for sample in good) / _MEBIBYTE:.0f}",
        f"{max(sample.data_bytes for sample in good) / 1e6:.1f}",
        f"{max(sample.other_bytes for sample in good) / 1e6:.2f}",
    ]


def dml_section(
    cases: Sequence[Case], samples: Samples, *, when: str, picture: Path, is_judged: bool
) -> str:
    """Return the page.

    Args:
        cases: The cases that ran.
        samples: Their measurements.
        when: Date and load average of the run.
        picture: The path of the plot.
        is_judged: Whether the sizes are those of the limits.
    """
    header = ["what", "engine", "best s", "median s", "CPU s"]
    header += ["RSS MiB", "before", "data MB", "other MB"]
    rows = [
        _line(case, engine, found)
        for case in cases
        for engine, found in samples[case.name].items()
        if found
    ]
    return "\n".join(
        [
            "# Changing rows\n",
            f"Written by `python -m benchmarks.dml` on {when}: {machine()}.\n",
            verdict_table(dml_verdicts(cases, samples), is_judged=is_judged),
            f"![Time of each verb, as a multiple of ours]({picture.as_posix()})\n",
            markdown_table(header, rows),
            _METHOD,
        ]
    )


def draw_dml(samples: Samples, path: Path) -> None:
    """Write the plot as SVG: deltalake's time of each case, as a multiple of ours."""
    figure, axis = new_figure(1)
    pairs = {
        title: pair for name, title in _PLOTTED.items() if (pair := _pick(samples, name, _seconds))
    }
    times = [theirs / ours for ours, theirs in pairs.values()]
    bars = axis.bar(list(pairs), times, color="#c8553d")
    axis.bar_label(bars, fmt="%.2f", fontsize=8)
    axis.axhline(1, color="#0b6e4f")
    axis.tick_params(labelsize=7)
    axis.set_ylabel("time of deltalake, ours = 1", fontsize=8)
    axis.spines[["top", "right"]].set_visible(False)
    save_figure(figure, path)
