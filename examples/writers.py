"""Four processes append to one table concurrently; one of them is killed and restarted.

Every append has an application transaction (`app_id`, `app_version`). So a restarted writer repeats
all its appends, and the table ignores those that it already has.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow.compute as pc

import lazydelta as ld

WRITERS = 4
STEPS = 5
ROWS = 1_000


def main() -> int:
    """Run the demonstration; return 0 if no row was lost or doubled."""
    with tempfile.TemporaryDirectory(prefix="lazydelta-writers-") as directory:
        path = Path(directory) / "readings"
        table = ld.Table.create(
            path,
            "writer int, step int, value long",
            constraints={"positive": "value >= 0"},
            properties={"delta.checkpointInterval": "10"},
        )
        started = time.perf_counter()
        writers = [start(path, number) for number in range(WRITERS)]
        wait_for(table, WRITERS)
        os.kill(writers[0].pid, signal.SIGKILL)
        writers[0].wait()
        writers[0] = start(path, 0)
        failed = sum(writer.wait() != 0 for writer in writers)
        seconds = time.perf_counter() - started
        try:
            ld.write(table, {"writer": [9], "step": [0], "value": [-1]}, mode="append")
        except ld.errors.ConstraintViolationError as error:
            refused = str(error).splitlines()[-1].strip(" -")
        return 0 if report(table, failed, seconds, refused) else 1


def start(path: Path, number: int) -> subprocess.Popen[bytes]:
    """Start a process that appends a few times."""
    return subprocess.Popen([sys.executable, __file__, str(path), str(number)])  # noqa: S603


def append(path: str, number: int) -> None:
    """Append a few times; the table skips the appends that it already has."""
    for step in range(STEPS):
        rows = {"writer": [number] * ROWS, "step": [step] * ROWS, "value": list(range(ROWS))}
        ld.write(path, rows, mode="append", app_id=f"writer-{number}", app_version=step)


def wait_for(table: ld.Table, version: int) -> None:
    """Wait until a version is committed."""
    while table.version < version:
        time.sleep(0.01)


def report(table: ld.Table, failed: int, seconds: float, refused: str) -> bool:
    """Print the state of the table; return whether every row is present exactly once."""
    rows = table.to_arrow()
    steps = rows.group_by(["writer", "step"]).aggregate([("value", "count")])
    counts = steps.column("value_count")
    complete = steps.num_rows == WRITERS * STEPS and pc.all(pc.equal(counts, ROWS)).as_py()
    verdict = "each step exactly once" if complete and not failed else "LOST OR DOUBLED"
    log = sorted(file.name for file in Path(table.url, "_delta_log").iterdir())
    checkpoints = sum(name.endswith(".checkpoint.parquet") for name in log)
    checksums = sum(name.endswith(".crc") for name in log)
    matches = "matches" if table.check().ok else "DOES NOT MATCH"
    print(
        f"   {WRITERS} processes, {STEPS} appends each, one killed and restarted: "
        f"{seconds:.1f} s.\n"
        f"   {rows.num_rows:,} rows at version {table.version}: {verdict}.\n"
        f"   {checkpoints} checkpoints and {checksums} checksums; "
        f"the newest checksum {matches} the log.\n"
        f"   A row that violates a constraint is refused: {refused}"
    )
    return bool(complete) and not failed


if __name__ == "__main__":
    if len(sys.argv) > 1:
        append(sys.argv[1], int(sys.argv[2]))
    else:
        sys.exit(main())
