"""`python -m benchmarks.startup`: measure start-up, and write its page.

Imports are timed inside a new interpreter. Commands on a small local table are timed with process
start. Everything is warm and interleaved. deltalake is the peer.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.limits import Verdict, format_figure
from benchmarks.page import PAGES, write_page
from benchmarks.report import machine, markdown_table, verdict_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    Samples = dict[str, list[float]]
    """The name of a case, and its seconds in each round."""

__all__ = ["LIMITS", "main", "measure_startup", "startup_section", "startup_verdicts"]

_ROOT = Path(__file__).resolve().parent.parent
_FILES = 20
_IMPORT = "import time; t = time.perf_counter(); {}; print(time.perf_counter() - t)"
_FILE_URIS = "import sys; from deltalake import DeltaTable; DeltaTable(sys.argv[1]).file_uris()"

IMPORTS = (
    "import pyarrow",
    "import deltalake",
    "import lazydelta",
    "from lazydelta import Table",
)
COMMANDS = {
    "lazydelta count": ["-m", "lazydelta", "count", "{}"],
    "lazydelta files --limit 10": ["-m", "lazydelta", "files", "{}", "--limit", "10"],
    "deltalake file_uris()": ["-c", _FILE_URIS, "{}"],
}
LIMITS = (
    ("import lazydelta", "import pyarrow", 1.5),
    ("from lazydelta import Table", "import pyarrow", 1.5),
    ("lazydelta count", "deltalake file_uris()", 2.0),
    ("lazydelta files --limit 10", "deltalake file_uris()", 2.0),
)
"""Our case, the case that it is compared with, and the greatest ratio.

Issue 18 limits `import lazydelta`. That loads names on first use, so alone it would only show that
the cost was deferred: the first name that a reader needs has the same limit.
"""
_METHOD = """\
An import is timed inside a new interpreter, without the start of the interpreter.
`import lazydelta` loads no dependency: the cost is deferred to the first use of a name, which
`from lazydelta import Table` includes. Compare that one with the peers.

A command is timed from process start to exit, on a local table of 20 files in one commit. deltalake
runs `python -c "from deltalake import DeltaTable; DeltaTable(path).file_uris()"`. Cases are
interleaved. The first round is not counted, so compiled modules and files are in the page cache.

`import pyarrow`, which imports numpy, is half of a command, and alone almost the limit. A tenth is
`pyarrow.compute`, which wraps every function when it is imported; methods of arrays such as
`filter` import it. A quarter is our own modules, half of that the creation of dataclasses. The rest
is click, the standard library, and the work.
"""


def _build_table(path: Path) -> None:
    import pyarrow as pa

    import lazydelta

    table = lazydelta.Table.create(path, "id bigint, part int", partition_by=["part"])
    table.write(pa.table({"id": range(_FILES), "part": pa.array(range(_FILES), pa.int32())}))


def _run(arguments: Sequence[str]) -> tuple[float, str]:
    """Return the seconds of a new interpreter from start to exit, and its output."""
    paths = [str(_ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # else no round is warm
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, *arguments], env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    return time.perf_counter() - start, done.stdout


def measure_startup(rounds: int) -> Samples:
    """Run every case once in each round; the first round only warms up."""
    samples: Samples = {name: [] for name in (*IMPORTS, *COMMANDS)}
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "table")
        _build_table(path)
        for number in range(rounds + 1):
            times = {name: float(_run(["-c", _IMPORT.format(name)])[1]) for name in IMPORTS}
            for name, arguments in COMMANDS.items():
                times[name], _ = _run([part.format(path) for part in arguments])
            for name, seconds in times.items() if number else ():
                samples[name].append(seconds)
    return samples


def startup_verdicts(samples: Samples) -> list[Verdict]:
    """Return the verdict on every limit."""
    verdicts = []
    for name, peer, most in LIMITS:
        ours, theirs = min(samples[name]), min(samples[peer])
        median_ratio = statistics.median(samples[name]) / statistics.median(samples[peer])
        verdicts.append(
            Verdict(
                what=name,
                must=f"{most:g} x {peer}",
                ratio=ours / theirs,
                median_ratio=median_ratio,
                most=most,
                shown=" / ".join(format_figure(value, is_bytes=False) for value in (ours, theirs)),
            )
        )
    return verdicts


def startup_section(samples: Samples, *, when: str) -> str:
    """Return the page."""
    rows = [
        [f"`{name}`", f"{1000 * min(seconds):.0f}", f"{1000 * statistics.median(seconds):.0f}"]
        for name, seconds in samples.items()
    ]
    parts = [
        "# Start-up\n",
        f"Written by `python -m benchmarks.startup` on {when}: {machine()}.\n",
        verdict_table(startup_verdicts(samples), is_judged=True),
        markdown_table(["case", "best ms", "median ms"], rows),
        _METHOD,
    ]
    return "\n".join(parts)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the page, and write it for a run of full length."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.startup", description=__doc__)
    parser.add_argument("--rounds", type=int, default=10, help="runs of each case; default 10")
    parser.add_argument("--quick", action="store_true", help="3 rounds; does not write the page")
    parser.add_argument(
        "--docs",
        type=Path,
        help="write the page there; default: docs/benchmarks/, unless --quick",
    )
    options = parser.parse_args(arguments)
    when = f"{datetime.now(UTC).date()}, load average {os.getloadavg()[0]:.1f} at the start"
    section = startup_section(measure_startup(3 if options.quick else options.rounds), when=when)
    print(section)
    docs: Path | None = options.docs or (None if options.quick else PAGES)
    if docs is not None:
        write_page(docs, "start-up", section)
    return 0


if __name__ == "__main__":
    sys.exit(main())
