"""The plots of a run: time and memory against the number of files; the time to read rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from benchmarks.limits import find

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from benchmarks.measure import Result
    from benchmarks.spec import Spec, TableSpec
    from benchmarks.suites import RowTables

__all__ = ["draw", "draw_bars", "draw_rows", "new_figure", "save_figure"]

_STYLES = {
    "lazydelta": ("#0b6e4f", "o", "lazydelta"),
    "deltalake": ("#c8553d", "s", "deltalake (open + list)"),
    "polars": ("#3d5a80", "^", "Polars (scan_delta, plan)"),
    "pyarrow": ("#8d99ae", "x", "raw pyarrow read"),
}


def _points(
    results: Sequence[Result], engine: str, spec: TableSpec, figure: str
) -> list[tuple[int, float]]:
    sizes = sorted({result.case.spec.files for result in results if result.case.kind == "all"})
    points = []
    for files in sizes:
        found = find(results, engine, "all", replace(spec, files=files))
        if found:
            points.append((files, min(result.best(figure) for result in found)))
    return points


def _pyplot() -> Any:
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "lazydelta"  # deterministic output
    mpl.rcParams["svg.fonttype"] = "none"  # keep text elements: small and searchable
    from matplotlib import pyplot as plt

    return plt


def new_figure(panels: int) -> tuple[Any, Any]:
    """Return a figure and its panels, side by side."""
    figure, axes = _pyplot().subplots(1, panels, figsize=(10, 4), layout="constrained")
    return figure, axes


def save_figure(figure: Any, path: Path) -> None:
    """Write a figure as SVG and close it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    _pyplot().close(figure)


def draw(results: Sequence[Result], spec: TableSpec, path: Path) -> None:
    """Write the plot as SVG; `spec` is any table of the series of sizes."""
    figure, axes = new_figure(2)
    panels = [
        ("total_seconds", 1.0, "seconds to list all files"),
        ("peak_rss", 1e6, "peak RSS, MB"),
    ]
    for axis, (name, scale, label) in zip(axes, panels, strict=True):
        for engine, (color, marker, title) in _STYLES.items():
            points = _points(results, engine, spec, name)
            if points:
                files, values = zip(*points, strict=True)
                axis.plot(files, [v / scale for v in values], marker, ls="-", c=color, label=title)
        axis.set(xscale="log", yscale="log", xlabel="files in the table", ylabel=label)
        axis.grid(visible=True, which="major", alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    save_figure(figure, path)


def draw_bars(groups: Mapping[str, Mapping[str, float]], path: Path) -> None:
    """Write a plot of seconds as SVG: a group of bars for each title, a bar for each engine."""
    figure, axis = new_figure(1)
    for place, engine in enumerate(("lazydelta", "deltalake")):
        found = {n: group[engine] for n, group in enumerate(groups.values()) if engine in group}
        at, color = [n + 0.3 * place for n in found], _STYLES[engine][0]
        bars = axis.barh(at, [*found.values()], height=0.28, color=color, label=engine)
        axis.bar_label(bars, fmt="%.3g s", padding=3, fontsize=8)
    axis.set_yticks([n + 0.15 for n in range(len(groups))], list(groups))
    axis.set(xscale="log", xlabel="seconds, best round")
    axis.invert_yaxis()
    axis.margins(x=0.1)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, fontsize=9)
    save_figure(figure, path)


def _row_bars(tables: RowTables) -> list[tuple[str, str, Spec]]:
    """Return a title, a workload and a table for each group of bars."""
    return [
        ("all rows", "read", tables.plain),
        ("all rows, 10 % deleted", "read", tables.deleted),
        ("1 % of the rows", "filter", tables.plain),
        (f"10 rows, {tables.log_files:,} files", "limit", tables.log),
        (f"count, {tables.log_files:,} files", "count", tables.log),
    ]


def draw_rows(results: Sequence[Result], tables: RowTables, path: Path) -> None:
    """Write the plot of the row workloads as SVG: bars, each engine's fastest variant."""
    plt = _pyplot()
    figure, axis = plt.subplots(figsize=(10, 4), layout="constrained")
    groups = _row_bars(tables)
    for place, (engine, (color, _, title)) in enumerate(_STYLES.items()):
        found = [find(results, engine, workload, spec) for _, workload, spec in groups]
        at = [n + 0.2 * place for n, some in enumerate(found) if some]
        seconds = [min(r.best("total_seconds") for r in some) for some in found if some]
        if seconds:
            bars = axis.barh(at, seconds, height=0.18, color=color, label=title.split(" (")[0])
            axis.bar_label(bars, fmt="%.3g s", padding=3, fontsize=8)
    axis.set_yticks([n + 0.3 for n in range(len(groups))], [title for title, _, _ in groups])
    axis.set(xscale="log", xlabel="seconds")
    axis.invert_yaxis()
    axis.margins(x=0.1)
    axis.grid(visible=True, axis="x", which="major", alpha=0.3)
    axis.spines[["top", "right"]].set_visible(False)
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    save_figure(figure, path)
