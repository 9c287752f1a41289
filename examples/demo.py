"""What lazydelta does, on a table of 300,000 files: run it with `make demo`.

Writes the log of a sample table to a temporary directory, lists its files in several ways, checks
that the results agree, and removes the table. The log is written by another process, so that it
does not count in the memory of this one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

import lazydelta as ld

if TYPE_CHECKING:
    from collections.abc import Iterable

FILES = int(os.environ.get("DEMO_FILES", "300000"))
ONE_DAY = "day = '2026-05-01'"


def main() -> int:
    """Run the demonstration; return 0 if all results agree."""
    with tempfile.TemporaryDirectory(prefix="lazydelta-demo-") as directory:
        table_path = Path(directory) / "trips"
        build(table_path)
        say("1. The newest files")
        show_first(table_path)
        say("2. All files, as a stream")
        stream_all(table_path)
        say("3. The same files as a full replay")
        agreed = compare(table_path)
        say(f"4. One partition: {ONE_DAY}")
        show_filter(table_path)
        say("5. Concurrent writers, one of them killed")
        agreed &= run_example("writers.py")
        if os.environ.get("DEMO_SPARK", "yes") != "no":
            say("6. The same plan on Spark (the session takes a while to start)")
            agreed &= run_example("spark_plan.py", table_path)
    return 0 if agreed else 1


def build(path: Path) -> None:
    """Write the sample table."""
    started = time.perf_counter()
    script = Path(__file__).with_name("sample_table.py")
    command = [sys.executable, str(script), str(path), "--files", str(FILES)]
    subprocess.run(command, check=True)  # noqa: S603 - our own script
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    seconds = time.perf_counter() - started
    print(
        f"A sample table: {FILES:,} files in {size / 1e6:.0f} MB of log "
        f"(a checkpoint and 22 commits), written in {seconds:.1f} s."
    )


def show_first(path: Path) -> None:
    """Show the newest five files, and the time to the first."""
    table = ld.Table.open(path)
    started = time.perf_counter()
    scan = table.scan()
    first_ms = 0.0
    with scan.files(limit=5) as files:
        for number, file in enumerate(files):
            first_ms = first_ms or 1000 * (time.perf_counter() - started)
            deleted = file.deletion_vector
            note = "" if deleted is None else f"  ({deleted.cardinality:,} rows deleted)"
            print(f"   {number + 1}. v{file.version}  {file.path}{note}")
    print(
        f"   First file {first_ms:.0f} ms after Table.open; "
        f"bytes read of the checkpoint: {scan.explain()['checkpoint']['bytes']:,}."
    )


def stream_all(path: Path) -> None:
    """Stream all files, and sample the memory of this process."""
    started = time.perf_counter()
    memory: list[float] = []
    count = size = 0
    with ld.Table.open(path).scan().file_batches() as batches:
        for batch in batches:
            count += batch.num_rows
            size += pc.sum(batch.column("size")).as_py() or 0
            if count >= FILES * (len(memory) + 1) / 4:
                memory.append(memory_mb())
    seconds = time.perf_counter() - started
    print(
        f"   {count:,} files ({size / 1e12:.2f} TB of data) in {seconds:.2f} s, "
        f"{count / seconds:,.0f} per second."
    )
    marks = ", ".join(f"{megabytes:.0f}" for megabytes in memory)
    verdict = "flat" if max(memory) < 1.2 * memory[0] else "growing"
    print(f"   Resident memory after each quarter of the files: {marks} MB ({verdict}).")


def compare(path: Path) -> bool:
    """Compare both streaming strategies with the reference replay, file by file."""
    # The strict tripwire falls back to the reference replay at the first deletion vector. That is
    # in the newest commit here, so the whole list comes from the reference replay.
    reference = ld.Table.open(path, config=ld.Config(tripwire="strict")).scan()
    expected = identities(reference.file_batches())
    agreed = len(expected) == FILES and reference.explain()["run"]["fallbacks"] == 1
    print(f"   reference replay   {len(expected):>9,} files")
    for strategy in ("reverse", "forward"):
        found = identities(ld.Table.open(path).scan(strategy=strategy).file_batches())
        is_same = len(found) == len(set(found)) and set(found) == set(expected)
        verdict = "identical, each exactly once" if is_same else "DIFFERENT"
        print(f"   {strategy:<18} {len(found):>9,} files   {verdict}")
        agreed &= is_same
    return agreed


def show_filter(path: Path) -> None:
    """List the files of one partition, and show what the scan read and pruned."""
    scan = ld.Table.open(path).scan(where=ONE_DAY)
    with scan.file_batches() as batches:
        count = sum(batch.num_rows for batch in batches)
    explanation = scan.explain()
    groups = explanation["checkpoint"]
    print(
        f"   {count:,} files; {groups['row_groups_read']} of {groups['row_groups']} row groups of "
        f"the checkpoint read. scan.explain():\n"
    )
    explanation["table"] = path.name
    print("\n".join(f"   | {line}" for line in str(explanation).splitlines()))


def run_example(name: str, *arguments: Path) -> bool:
    """Run another example and print its output; return whether it succeeded."""
    command = [sys.executable, str(Path(__file__).with_name(name)), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    print(done.stdout, end="")
    if done.returncode:
        print(done.stderr, file=sys.stderr)
    return done.returncode == 0


def identities(batches: Iterable[pa.RecordBatch]) -> list[str]:
    """Return the key of each file: its path and its deletion vector."""
    found: list[str] = []
    for batch in batches:
        vector = pc.struct_field(batch.column("deletion_vector"), "path_or_inline_dv")
        keys = pc.binary_join_element_wise(batch.column("path"), pc.coalesce(vector, ""), "#")
        found += keys.to_pylist()
    return found


def memory_mb() -> float:
    """Return the resident memory of this process, or Arrow's allocations where that is unknown."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        pages = int(statm.read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
    return float(pa.total_allocated_bytes()) / 1e6


def say(heading: str) -> None:
    """Print a heading."""
    print(f"\n{heading}")


if __name__ == "__main__":
    sys.exit(main())
