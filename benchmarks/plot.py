"""The picture of a run: time to all files and peak memory against the number of files."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from benchmarks.limits import find

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from benchmarks.measure import Result
    from benchmarks.spec import TableSpec

__all__ = ["draw"]

_STYLES = {
    "lazydelta": ("#0b6e4f", "o", "lazydelta"),
    "deltalake": ("#c8553d", "s", "deltalake (open + list)"),
    "polars": ("#3d5a80", "^", "Polars (scan_delta, plan)"),
    "pyarrow": ("#8d99ae", "x", "raw pyarrow column read"),
}


def _points(
    results: Sequence[Result], engine: str, spec: TableSpec, figure: str
) -> list[tuple[int, float]]:
    sizes = sorted({result.case.spec.files for result in results})
    points = []
    for files in sizes:
        found = find(results, engine, "all", replace(spec, files=files))
        if found:
            points.append((files, min(result.best(figure) for result in found)))
    return points


def draw(results: Sequence[Result], spec: TableSpec, path: Path) -> None:
    """Write the picture as SVG; `spec` is any table of the ladder of sizes."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "lazydelta"  # the same results, the same file
    mpl.rcParams["svg.fonttype"] = "none"  # text stays text: small, and it can be searched
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
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
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
