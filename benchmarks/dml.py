"""`python -m benchmarks.dml`: measure DELETE and MERGE; writes a page of `docs/benchmarks/`.

Every measurement is a separate process on its own copy of the table, and the engines alternate, so
that a busy minute of the machine affects all of them. The tables of lazydelta have deletion
vectors; deltalake cannot write these, so its tables do not. Both write Snappy.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.dml_cases import FULL, QUICK, SCALES, cases_of
from benchmarks.dml_engines import Sample
from benchmarks.dml_report import OURS, dml_section, draw_dml
from benchmarks.dml_tables import case_data, copy_table
from benchmarks.page import PAGES, write_page
from benchmarks.spec import CACHE

if TYPE_CHECKING:
    from benchmarks.dml_cases import Case, Scale
    from benchmarks.dml_report import Samples
    from benchmarks.dml_tables import CaseData

__all__ = ["main"]

_ROOT = Path(__file__).resolve().parent.parent
_PICTURE = Path("img/benchmarks-dml.svg")
_TIMEOUT_SECONDS = 1200
_TOLERANCE = 0.001
"""Keys drawn at random are not all distinct in the table, so a few rows more may be updated."""


def _log(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def _sizes(table: Path) -> dict[Path, int]:
    return {path: path.stat().st_size for path in table.rglob("*") if path.is_file()}


def _measured(engine: str, case: Case, data: CaseData, scale: Scale) -> Sample:
    """Measure one engine in a child process; a wrong result is a sample with an error."""
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        table = Path(folder) / "table"
        copy_table(data.table, table)
        if engine == OURS:
            import lazydelta as ld

            ld.Table.open(table).alter.set_properties({"delta.enableDeletionVectors": "true"})
        before = _sizes(table)
        source = [] if data.source is None else [str(data.source)]
        sample = _child([engine, case.name, scale.name, str(table), *source])
        new = {path: size for path, size in _sizes(table).items() if path not in before}
        in_data = [p.suffix == ".parquet" and p.parent.name != "_delta_log" for p in new]
        sample.data_bytes = sum(s for s, yes in zip(new.values(), in_data, strict=True) if yes)
        sample.other_bytes = sum(new.values()) - sample.data_bytes
        sample.error = sample.error or _problem(sample, data, table)
    return sample


def _child(arguments: list[str]) -> Sample:
    places = [str(_ROOT), str(_ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, places))}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.dml_engines", *arguments],
            cwd=_ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Sample(error=f"no result after {_TIMEOUT_SECONDS} s")
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        return Sample(error=f"exit {done.returncode}: {done.stderr.strip().splitlines()[-1:]}")
    return Sample(**json.loads(lines[-1]))


def _problem(sample: Sample, data: CaseData, table: Path) -> str:
    """Return what is wrong with a result; empty if nothing is."""
    import lazydelta as ld

    for name, expected in data.expected.items():
        found = sample.counts.get(name, -1)
        most = expected * (1 + _TOLERANCE) if name == "updated" else expected
        if not expected <= found <= most:
            return f"{name}: {found}, expected {expected}"
    if data.rows is not None and (found := ld.Table.open(table).scan().count()) != data.rows:
        return f"the table has {found} rows, expected {data.rows}"
    return ""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dml", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, one round")
    parser.add_argument("--scale", choices=list(SCALES), help="another size; default: full")
    parser.add_argument("--case", action="append", help="only this one, or those that start so")
    parser.add_argument("--engine", action="append", help="only this one; may be repeated")
    parser.add_argument("--rounds", type=int, help="default 3; 1 for a quick run")
    parser.add_argument("--list", action="store_true", help="print the names of the cases")
    parser.add_argument(
        "--docs",
        type=Path,
        help="write the page there; default: docs/benchmarks/, unless quick or partial",
    )
    return parser


def _chosen(options: argparse.Namespace, scale: Scale) -> list[Case]:
    wanted = options.case or [""]
    found = cases_of(scale).values()
    return [case for case in found if any(case.name.startswith(name) for name in wanted)]


def _shown(sample: Sample) -> str:
    written = (sample.data_bytes + sample.other_bytes) / 1e6
    return sample.error or (
        f"{sample.seconds:7.2f} s, CPU {sample.cpu_seconds:6.2f} s, "
        f"{sample.peak_rss / 2**20:5.0f} MiB, {written:7.1f} MB written"
    )


def _run(cases: list[Case], scale: Scale, options: argparse.Namespace) -> Samples:
    rounds = options.rounds or (1 if scale != FULL else 3)
    samples: Samples = {case.name: {} for case in cases}
    for case in cases:
        data = case_data(case)
        engines = [e for e in case.engines if not options.engine or e in options.engine]
        for number in range(rounds):
            for engine in engines if number % 2 == 0 else reversed(engines):
                sample = _measured(engine, case, data, scale)
                samples[case.name].setdefault(engine, []).append(sample)
                _log(f"round {number + 1}: {case.name:34} {engine:18} {_shown(sample)}")
    return samples


def main(arguments: list[str] | None = None) -> int:
    """Run as a command; 1 if an engine failed or returned a wrong result."""
    options = _parser().parse_args(arguments)
    scale = SCALES[options.scale] if options.scale else QUICK if options.quick else FULL
    cases = _chosen(options, scale)
    if options.list:
        print("\n".join(case.name for case in cases))
        return 0
    when = f"{datetime.now(UTC).date()}, load average {os.getloadavg()[0]:.1f} at the start"
    samples = _run(cases, scale, options)
    section = dml_section(cases, samples, when=when, picture=_PICTURE, is_judged=scale == FULL)
    print(section)
    is_whole = scale == FULL and not options.case and not options.engine
    docs: Path | None = options.docs or (PAGES if is_whole else None)
    if docs is not None:
        write_page(docs, "changing-rows", section)
        draw_dml(samples, docs / _PICTURE)
    return int(any(s.error for found in samples.values() for all_ in found.values() for s in all_))


if __name__ == "__main__":
    sys.exit(main())
