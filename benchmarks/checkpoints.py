"""Checkpoints: the cost of writing one, and of planning on one of ours.

    python -m benchmarks.checkpoints                  # 1 M files; prints, ends with the verdicts
    python -m benchmarks.checkpoints --files 100_000 --rounds 1

Every run has its own process and copy of the log. Two tables have the same files: the checkpoint of
one is hash-ordered in one row group, that of the other is sorted. Ours is timed from the address of
the table to the end. deltalake does most of its replay while it opens, so it is timed twice: from
the address too, and its `create_checkpoint` alone.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.clock import Sample, load_lazydelta
from benchmarks.engines import memory_of_process, run
from benchmarks.generate import table_for
from benchmarks.limits import Verdict, format_figure
from benchmarks.spec import CHECKPOINT_VERSION, TableSpec
from benchmarks.suites import HEADLINE, SPARK_LIKE

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["checkpoint_verdicts"]

MOST_RSS = 512e6
_ROOT = Path(__file__).resolve().parent.parent
_EMPTY_COMMIT = '{"commitInfo":{"operation":"NOTHING"}}\n'


def _checkpoint(engine: str, path: str) -> Sample:
    """Write a checkpoint in this process; `first_seconds` is when the table was open.

    CPU time goes to standard error: it is more reliable than wall time on a shared machine.
    """
    if engine == "lazydelta":
        import lazydelta

        load_lazydelta()
    else:
        import deltalake
    sample = Sample(base_rss=memory_of_process("VmRSS"))
    start, busy = time.perf_counter(), time.process_time()
    if engine == "lazydelta":
        table = lazydelta.Table.open(path)
        sample.first_seconds = time.perf_counter() - start
        sample.count = table.checkpoint().adds
    else:
        theirs = deltalake.DeltaTable(path)
        sample.first_seconds = time.perf_counter() - start
        theirs.create_checkpoint()
        sample.count = json.loads(Path(path, "_delta_log/_last_checkpoint").read_text())["version"]
    sample.total_seconds = time.perf_counter() - start
    print(f"CPU time: {time.process_time() - busy:.2f} s", file=sys.stderr)
    sample.peak_rss = memory_of_process("VmHWM")
    return sample


def _child(*arguments: str) -> Sample:
    command = [sys.executable, "-m", "benchmarks.checkpoints", "--child", *arguments]
    done = subprocess.run(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return Sample(**json.loads(done.stdout.splitlines()[-1]))


def _copied(spec: TableSpec, directory: str, name: str) -> Path:
    """Return a copy of a table's log that may be written to."""
    where = Path(directory, name)
    shutil.copytree(table_for(spec) / "_delta_log", where / "_delta_log")
    return where


def _written(spec: TableSpec, rounds: int, directory: str) -> dict[str, list[Sample]]:
    """Write checkpoints of a table, with both engines alternating."""
    samples: dict[str, list[Sample]] = {"lazydelta": [], "deltalake": []}
    for number in range(rounds):
        for engine, found in samples.items():
            copy = _copied(spec, directory, f"{engine}-{number}")
            found.append(_child(engine, "checkpoint", str(copy)))
            shutil.rmtree(copy)
            print(engine, spec.label, json.dumps(asdict(found[-1])), file=sys.stderr, flush=True)
    return samples


def _planned(spec: TableSpec, rounds: int, directory: str) -> dict[str, list[Sample]]:
    """Plan one partition on the hash-ordered checkpoint, and on ours of the same files."""
    theirs = _copied(spec, directory, "hash-ordered")
    ours = _copied(spec, directory, "laid-out")
    log = ours / "_delta_log"
    (log / f"{CHECKPOINT_VERSION + 1:020d}.json").write_text(_EMPTY_COMMIT)
    _child("lazydelta", "checkpoint", str(ours))
    for old in log.glob(f"{CHECKPOINT_VERSION:020d}.*"):
        old.unlink()
    samples: dict[str, list[Sample]] = {"laid out": [], "hash-ordered": []}
    for _ in range(max(rounds, 3)):
        for name, table in (("laid out", ours), ("hash-ordered", theirs)):
            timed = _child("lazydelta", "partition", str(table))
            counted = _child("lazydelta", "partition", str(table), "--account")
            timed.request_bytes = counted.request_bytes
            samples[name].append(timed)
            print(name, json.dumps(asdict(timed)), file=sys.stderr, flush=True)
    counts = {sample.count for found in samples.values() for sample in found}
    if len(counts) != 1:
        raise RuntimeError(f"the plans do not agree: {counts}")
    return samples


def checkpoint_verdicts(files: int, rounds: int) -> list[Verdict]:
    """Measure, and return the verdict on each checkpoint limit of issue 5."""
    spec = replace(SPARK_LIKE, files=files)
    sources = {"hash-ordered": spec, "in order": replace(HEADLINE, files=files)}
    verdicts = []
    with tempfile.TemporaryDirectory(dir=table_for(spec).parent) as directory:
        for name, source in sources.items():
            verdicts += _writing_verdicts(name, _written(source, rounds, directory))
        planned = _planned(replace(spec, tail=0), rounds, directory)
    seconds, size = (
        [min(getattr(s, figure) for s in planned[name]) for name in ("laid out", "hash-ordered")]
        for figure in ("total_seconds", "request_bytes")
    )
    return [
        *verdicts,
        _verdict("one partition, bytes", size[0], size[1], 0.1, "1/10 of hash-ordered"),
        _verdict("one partition, time", seconds[0], seconds[1], 0.2, "1/5 of hash-ordered"),
    ]


def _writing_verdicts(source: str, written: dict[str, list[Sample]]) -> list[Verdict]:
    """Return the verdicts on writing, against both timings of deltalake."""
    ours, theirs = written["lazydelta"], written["deltalake"]
    peak = max(sample.peak_rss for sample in ours)
    best = min(sample.total_seconds for sample in ours)
    opened = min(sample.total_seconds for sample in theirs)
    alone = min(sample.total_seconds - sample.first_seconds for sample in theirs)
    what = f"writing a checkpoint, source {source}"
    must = "0.5 x deltalake"
    return [
        _verdict(f"{what}: peak memory", peak, MOST_RSS, 1, "512 MB"),
        _verdict(f"{what}: time, both from the address of the table", best, opened, 0.5, must),
        _verdict(f"{what}: time, against create_checkpoint alone", best, alone, 0.5, must),
    ]


def _verdict(what: str, ours: float, theirs: float, most: float, must: str) -> Verdict:
    is_bytes = isinstance(ours, int)
    shown = " / ".join(format_figure(value, is_bytes=is_bytes) for value in (ours, theirs))
    return Verdict(what=what, must=must, ratio=ours / theirs, most=most, shown=shown)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run as a command."""
    command_line = sys.argv[1:] if arguments is None else arguments
    if command_line[:1] == ["--child"]:
        engine, workload, path, *extra = command_line[1:]
        done = _checkpoint(engine, path) if workload == "checkpoint" else run(
            engine, workload, path, accounting="--account" in extra
        )  # fmt: skip
        print(json.dumps(asdict(done)))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=SPARK_LIKE.files)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(command_line)
    for verdict in checkpoint_verdicts(options.files, options.rounds):
        print(f"{verdict.word:5} {verdict.what}: {verdict.shown} ({verdict.must})")


if __name__ == "__main__":
    main()
