"""The page of `docs/benchmarks/` about object stores: limits of issue 19, figures, and a plot.

Pure except for the plot: samples in, Markdown out.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.limits import Verdict
from benchmarks.plot import new_figure, save_figure
from benchmarks.report import format_seconds, machine, markdown_table, verdict_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

__all__ = ["Results", "StoreSample", "draw_stores", "store_section", "store_verdicts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSample:
    """One measured run, and the requests that the proxy recorded."""

    seconds: float
    requests: int
    sent: int
    """Bytes of the responses."""
    depth: int
    """Length of the longest chain of requests that wait for each other."""
    failed: int = 0
    """Appends that raised an error."""
    problem: str = ""


Results = dict[str, dict[str, list[StoreSample]]]
"""Workload, engine with its variant, and the sample of each round."""

OURS = "lazydelta"
TITLES = {
    "first": "first 100 of 100 k files",
    "first of 1 M": "first 100 of 1 M files",
    "cached": "first 100 of 1 M files, disk cache filled",
    "all": "all of 100 k files",
    "partition": "one partition of 100 k files",
    "filter": "rows: 1 % of 200 files",
    "point": "rows: one of 10 M",
    "limit": "rows: any ten",
    "read": "rows: all 10 M",
    "count": "number of rows",
    "append": "append, open handle",
    "checkpoint": "append that writes a checkpoint",
    "appends": "50 appends",
    "race": "4 x 25 appends at once",
}
_DEPTHS = {
    "first": 4, "first of 1 M": 4, "cached": 2, "all": 6, "filter": 7, "limit": 5, "count": 4,
    "append": 3, "checkpoint": 8,
}  # fmt: skip
_TIMES: dict[str, tuple[float, str, tuple[str, ...]]] = {
    "first": (1 / 4, "1/4 of deltalake", ("deltalake",)),
    "first of 1 M": (1 / 10, "1/10 of deltalake", ("deltalake",)),
    "all": (1 / 2, "1/2 of deltalake", ("deltalake",)),
    "partition": (1 / 2, "1/2 of deltalake", ("deltalake",)),
    "filter": (0.8, "0.8 x the quicker peer", ("deltalake", "polars")),
    "point": (0.8, "0.8 x the quicker peer", ("deltalake", "polars")),
    "limit": (0.8, "0.8 x the quicker peer", ("deltalake", "polars")),
    "read": (1.0, "1 x the quicker peer", ("deltalake", "polars")),
    "appends": (1 / 2, "1/2 of deltalake", ("deltalake",)),
    "race": (1 / 2, "1/2 of deltalake", ("deltalake",)),
}
"""Largest ratio of the times, its description, and the engines that count."""
_BYTES = ("filter", "point", "limit")
_MOST_BYTES = 1.2
_COLORS = {OURS: "#0b6e4f", "deltalake": "#c8553d", "polars": "#3d5a80"}
_METHOD = """\
The store is versitygw on loopback. A proxy delays every response by the latency and records every
request. *Depth* is the length of the longest chain of requests that wait for each other. Each
sample is a separate process whose imports are not measured; engines alternate, and what takes more
than 4 s is run once. Ratios compare medians, depths are the largest of the rounds. Where an engine
has several ways, its fastest counts, and for bytes its smallest. Every count of files and rows is
checked.

The logs of 100 k and 1 M files have a checkpoint and ten commits of 1,000 files. The table of rows
has 200 files of 50,000 rows in one row group, a commit per file, a checkpoint at version 190 and no
checksums. deltalake lists all files, since it has no way to list the first ones. Appends have 100
rows and go to a handle that has appended once. The ids of all rows are compared at the end: a lost
or duplicated append fails the row. Proxy, store and engine share the cores of the machine.

The appends take more than 4 s, so their ratios come from one sample each. 50 appends are about 165
requests deep and deltalake's 350, a ratio of 0.47: three for an append, the last one for the
checksum, and six for every tenth, which writes a checkpoint. deltalake writes no checksums, and its
first checkpoint after 100 versions.
"""


def _median(samples: Sequence[StoreSample], figure: str = "seconds") -> float:
    return float(statistics.median(getattr(sample, figure) for sample in samples))


def _least(
    found: Mapping[str, list[StoreSample]], engines: Iterable[str], figure: str = "seconds"
) -> float | None:
    """Return the smallest median of these engines over all their variants."""
    return min(
        (
            _median(samples, figure)
            for name, samples in found.items()
            if name.split()[0] in engines and samples and not any(s.problem for s in samples)
        ),
        default=None,
    )


def _depth_verdict(results: Results, name: str) -> Verdict:
    most = float(_DEPTHS[name])
    depths = {
        engine: [
            max(sample.depth for sample in samples)
            for key, samples in results.get(name, {}).items()
            if key.split()[0] == engine and samples and not any(s.problem for s in samples)
        ]
        for engine in _COLORS
    }
    what, must = f"depth: {TITLES[name]}", f"{most:g}"
    if not depths[OURS]:
        return Verdict(what=what, must=must, most=most, ratio=None, shown="")
    shown = " / ".join(str(min(found)) for found in depths.values() if found)
    return Verdict(what=what, must=must, most=most, ratio=float(depths[OURS][0]), shown=shown)


def _ratio_verdict(results: Results, name: str, figure: str) -> Verdict:
    """Return the verdict on time or bytes."""
    most, must, peers = _TIMES[name]
    what, scale, unit = TITLES[name], 1.0, "s"
    if figure == "sent":
        most, must = _MOST_BYTES, "1.2 x the smaller peer"
        what, scale, unit = f"bytes: {what}", 1e6, "MB"
    found = results.get(name, {})
    ours, theirs = _least(found, (OURS,), figure), _least(found, peers, figure)
    if ours is None or theirs is None:
        return Verdict(what=what, must=must, most=most, ratio=None, shown="")
    shown = f"{ours / scale:.2f} {unit} / {theirs / scale:.2f} {unit}"
    return Verdict(what=what, must=must, most=most, ratio=ours / theirs, shown=shown)


def _lost_verdict(results: Results) -> Verdict:
    """Return the verdict on lost, duplicated and failed appends."""
    ours = [s for name in ("appends", "race") for s in results.get(name, {}).get(OURS, ())]
    what, must = "appends lost, duplicated or failed", "0"
    if not ours:
        return Verdict(what=what, must=must, most=0.0, ratio=None, shown="")
    failures = sum(sample.failed + bool(sample.problem) for sample in ours)
    peers = [s for name in ("appends", "race") for s in results[name].get("deltalake", ())]
    theirs = sum(sample.failed + bool(sample.problem) for sample in peers)
    return Verdict(
        what=what, must=must, most=0.0, ratio=float(failures), shown=f"{failures} / {theirs}"
    )


def store_verdicts(results: Results) -> list[Verdict]:
    """Return the verdict on every limit at one latency."""
    return [
        *(_depth_verdict(results, name) for name in _DEPTHS),
        *(_ratio_verdict(results, name, "seconds") for name in _TIMES),
        *(_ratio_verdict(results, name, "sent") for name in _BYTES),
        _lost_verdict(results),
    ]


def _lines(results: Results) -> Iterable[Sequence[str]]:
    for name, found in results.items():
        for engine, samples in found.items():
            if problem := next((s.problem for s in samples if s.problem), ""):
                yield TITLES[name], engine, problem.replace("|", "/")[:120], "", "", ""
                continue
            yield (
                TITLES[name],
                engine,
                format_seconds(_median(samples)),
                str(max(sample.depth for sample in samples)),
                f"{_median(samples, 'requests'):.0f}",
                f"{_median(samples, 'sent') / 1e6:.2f}",
            )


def store_section(results: Mapping[int, Results], *, when: str, picture: Path) -> str:
    """Return the page.

    Args:
        results: The measurements by latency, in milliseconds.
        when: Date and load average of the run.
        picture: The path of the plot.
    """
    header = ["what", "engine", "median s", "depth", "requests", "MB"]
    parts = [
        "# Object stores\n",
        f"Written by `python -m benchmarks.stores` on {when}: {machine()}.\n",
        f"![Depth and time of each engine]({picture.as_posix()})\n",
    ]
    for latency, found in results.items():
        parts.append(f"## Latency {latency} ms\n")
        parts.append(verdict_table(store_verdicts(found), is_judged=True))
        parts.append(markdown_table(header, _lines(found)))
    return "\n".join([*parts, _METHOD])


def draw_stores(results: Mapping[int, Results], path: Path) -> None:
    """Write the plot as SVG: depth and seconds at the largest latency, each engine's best way."""
    latency = max(results)
    names = [name for name in TITLES if results[latency].get(name)]
    figure, axes = new_figure(2)
    panels = [("depth", "dependency depth"), ("seconds", f"seconds at {latency} ms")]
    for axis, (field, label) in zip(axes, panels, strict=True):
        for place, (engine, color) in enumerate(_COLORS.items()):
            values = [_least(results[latency][name], (engine,), field) for name in names]
            at = [n + 0.27 * place for n, value in enumerate(values) if value is not None]
            shown = [value for value in values if value is not None]
            bars = axis.barh(at, shown, height=0.25, color=color, label=engine)
            axis.bar_label(bars, fmt="%.3g", padding=2, fontsize=5)
        axis.set_yticks([n + 0.27 for n in range(len(names))], [TITLES[n] for n in names])
        axis.tick_params(labelsize=6)
        axis.set(xscale="log", xlabel=label)
        axis.invert_yaxis()
        axis.margins(x=0.12)
        axis.spines[["top", "right"]].set_visible(False)
    axes[1].set_yticklabels([])
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    save_figure(figure, path)
