"""`python -m benchmarks.optimize`: measure compaction and clustering against deltalake.

Every measurement is a separate process on its own copy of the table, and the engines alternate.
Both write Snappy. Prints a Markdown section; `--docs` writes it into a directory.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from benchmarks.limits import Verdict, format_figure
from benchmarks.optimize_engines import Sample
from benchmarks.page import write_page
from benchmarks.plot import draw_bars
from benchmarks.report import machine, markdown_table, verdict_table
from benchmarks.spec import CACHE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["main"]

_ROOT = Path(__file__).resolve().parent.parent
_MEBIBYTE = 2**20
_WORDS = 5000
_PICTURE = Path("img/benchmarks-optimize.svg")


@dataclass(frozen=True)
class _Case:
    name: str
    title: str
    table: Callable[[float], Iterator[pa.Table]]
    operations: dict[str, str]
    """The operation of each engine."""
    target: int
    written: int = 0
    """Share of rows, in thousandths, that are written after the first clustering."""


def _strings(scale: float) -> Iterator[pa.Table]:
    """Yield the rows of files of about 1 MB, mostly strings."""
    rng, count = np.random.default_rng(1), 9000
    words = np.array([f"w{n:x}" for n in rng.integers(0, 10**9, _WORDS)])
    for number in range(int(2000 * scale)):
        long = words[rng.integers(0, _WORDS, (count, 7))]
        ends = rng.integers(0, 10**9, count)
        yield pa.table({
            "id": np.arange(number * count, (number + 1) * count),
            "a": [f"{a}-{n}" for a, n in zip(long[:, 0], ends, strict=True)],
            "b": long[:, 1],
            "c": [" ".join(row) for row in long],
            "v": rng.random(count),
        })  # fmt: skip


def _points(skewed: bool) -> Callable[[float], Iterator[pa.Table]]:
    def tables(scale: float) -> Iterator[pa.Table]:
        rng, count = np.random.default_rng(2), int(1_000_000 * scale)
        for _ in range(20):
            x, y = rng.integers(0, 10**9, count), rng.integers(0, 10**9, count)
            if skewed:
                x = np.where(rng.random(count) < 0.9, 7, x)
                y = (rng.pareto(1.1, count) * 1000).astype(np.int64)
            yield pa.table({"x": x, "y": y, **{name: rng.random(count) for name in "abc"}})

    return tables


_CLUSTER = {"lazydelta": "cluster", "deltalake": "z_order"}
_CASES = (
    _Case("compact", "2,000 files of 1 MB of strings to 128 MB", _strings,
          {"lazydelta": "compact", "deltalake": "compact"}, 128 * _MEBIBYTE),
    _Case("even", "clustering of 20 M rows, even keys", _points(False), _CLUSTER, 16 * _MEBIBYTE),
    _Case("skewed", "clustering of 20 M rows, skewed keys", _points(True), _CLUSTER,
          16 * _MEBIBYTE),
    _Case("increment", "2.5 % new rows in a clustered table", _points(False),
          {"lazydelta": "cluster"}, 16 * _MEBIBYTE, written=25),
)  # fmt: skip


def _table(case: _Case, scale: float) -> Path:
    """Return the table of a case, from the cache or generated."""
    import lazydelta as ld

    path = CACHE / f"optimize-{case.name}-{scale:g}"
    if (path / "_delta_log").exists():
        return path
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        new = Path(folder) / "table"
        options = ld.WriteOptions(target_file_bytes=64 * _MEBIBYTE)
        for rows in case.table(scale):
            ld.write(new, rows, options=options)
        if case.written:
            table = ld.Table.open(new)
            table.alter.cluster_by(["x", "y"])
            table.optimize(target_size=max(int(case.target * scale), _MEBIBYTE))
            rows = next(iter(case.table(scale)))
            table.write(rows.slice(0, rows.num_rows * 20 * case.written // 1000))
        shutil.move(new, path)
    return path


def _measured(engine: str, case: _Case, scale: float) -> Sample:
    target = max(int(case.target * scale), _MEBIBYTE)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        path = Path(folder) / "table"
        shutil.copytree(_table(case, scale), path)
        places = [str(_ROOT), str(_ROOT / "src"), os.environ.get("PYTHONPATH", "")]
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.optimize_engines", engine, case.operations[engine],
             str(path), str(target)],
            cwd=_ROOT, env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, places))},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            return Sample(error="".join(done.stderr.strip().splitlines()[-1:]))
        sample = Sample(**json.loads(done.stdout.splitlines()[-1]))
        if case.name != "compact":
            sample.touched = _touched(path)
    return sample


def _touched(path: Path) -> dict[str, float]:
    """Return the share of files that readers of 1 % of a column open, on average."""
    import lazydelta as ld

    table = ld.Table.open(path).snapshot()
    files = sum(1 for _ in table.scan().files())
    found = {}
    for column in ("x", "y"):
        values = table.scan(columns=[column]).to_arrow()[column].to_numpy()
        low, high = (np.quantile(values, np.arange(0, 1, 0.05) + at) for at in (0.02, 0.03))
        counts = [
            sum(1 for _ in table.scan(f"{column} >= {int(a)} AND {column} <= {int(b)}").files())
            for a, b in zip(low, high, strict=True)
        ]
        found[column] = float(np.mean(counts)) / files
    return found


def _row(title: str, engine: str, found: list[Sample]) -> list[str]:
    good = [sample for sample in found if not sample.error]
    if not good:
        return [title, engine, found[0].error[:60], *[""] * 5]
    best = min(good, key=lambda sample: sample.seconds)
    touched = " / ".join(f"{share:.0%}" for share in best.touched.values())
    return [
        title, engine,
        " / ".join(f"{sample.seconds:.1f}" for sample in good),
        f"{best.cpu_seconds:.1f}",
        f"{max(sample.peak_rss for sample in good) / _MEBIBYTE:.0f}",
        f"{max(sample.temporary_bytes for sample in good) / _MEBIBYTE:.0f}",
        f"{best.rewritten_bytes / _MEBIBYTE:.0f}" if best.rewritten_bytes else "",
        touched,
    ]  # fmt: skip


_HEADER = [
    "what", "engine", "seconds of each round", "CPU seconds", "peak RSS, MiB", "temporary MiB",
    "MiB rewritten", "files opened for 1 % of x / y",
]  # fmt: skip


def _verdicts(samples: dict[tuple[str, str], list[Sample]]) -> list[Verdict]:
    """Return the verdicts on the limits of the cases that ran without an error."""
    found = []
    good = {key: runs for key, runs in samples.items() if not any(run.error for run in runs)}
    for case, most in zip(_CASES, (1.0, 0.5, 0.5, None), strict=True):
        ours, theirs = (good.get((case.title, engine)) for engine in ("lazydelta", "deltalake"))
        if ours is None:
            continue
        if most is not None and theirs is not None:
            medians = [float(np.median([run.seconds for run in runs])) for runs in (ours, theirs)]
            mine, other = (min(run.seconds for run in runs) for runs in (ours, theirs))
            shown = " / ".join(format_figure(value, is_bytes=False) for value in (mine, other))
            found.append(
                Verdict(
                    what=case.title, must=f"{most:g} x deltalake", most=most, shown=shown,
                    ratio=mine / other, median_ratio=medians[0] / medians[1],
                )
            )  # fmt: skip
        imports = 0 if case.name == "compact" else ours[0].rss_before
        bound, peak = 512 * _MEBIBYTE + imports, max(run.peak_rss for run in ours)
        must = "512 MiB" if case.name == "compact" else "512 MiB + imports"
        found.append(
            Verdict(
                what=f"peak RSS, {case.title}", must=must, most=1, ratio=peak / bound,
                shown=f"{peak / _MEBIBYTE:.0f} MiB / {bound / _MEBIBYTE:.0f} MiB",
            )
        )  # fmt: skip
    return found


def _section(samples: dict[tuple[str, str], list[Sample]], scale: float, when: str) -> str:
    rows = [_row(*key, found) for key, found in samples.items()]
    size = "" if scale == 1 else f" Rows and target sizes are multiplied by {scale:g}."
    method = (
        "Every round is a process of its own on its own copy of the table; both engines write "
        f"Snappy.{size} Peak RSS is that of the whole process, imports included."
    )
    picture = f"![Seconds of OPTIMIZE]({_PICTURE})"
    parts = [
        "# OPTIMIZE and clustering",
        f"{when}. {machine()}",
        verdict_table(_verdicts(samples), is_judged=scale == 1),
        picture,
        markdown_table(_HEADER, rows),
        method,
    ]
    return "\n\n".join(parts) + "\n"


def _draw(samples: dict[tuple[str, str], list[Sample]], path: Path) -> None:
    groups: dict[str, dict[str, float]] = {}
    for (title, engine), found in samples.items():
        if good := [sample.seconds for sample in found if not sample.error]:
            groups.setdefault(title, {})[engine] = min(good)
    draw_bars(groups, path)


def main(arguments: list[str] | None = None) -> int:
    """Run as a command; 1 if an engine failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.optimize", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="share of rows and target sizes")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one round on a twentieth of the rows")
    parser.add_argument("--case", action="append", choices=[case.name for case in _CASES])
    parser.add_argument("--docs", type=Path, help="write the page into this directory")
    options = parser.parse_args(arguments)
    if options.quick:
        options.scale, options.rounds = 0.05, 1
    CACHE.mkdir(exist_ok=True)
    when = f"{datetime.now(UTC).date()}, load average {os.getloadavg()[0]:.1f} at the start"
    samples: dict[tuple[str, str], list[Sample]] = {}
    for case in _CASES:
        for _ in range(options.rounds if not options.case or case.name in options.case else 0):
            for engine in case.operations:
                sample = _measured(engine, case, options.scale)
                print(case.name, engine, sample, file=sys.stderr, flush=True)
                samples.setdefault((case.title, engine), []).append(sample)
    section = _section(samples, options.scale, when)
    print(section)
    if options.docs is not None:
        write_page(options.docs, "optimize", section)
        _draw(samples, options.docs / _PICTURE)
    return int(any(sample.error for found in samples.values() for sample in found))


if __name__ == "__main__":
    sys.exit(main())
