"""Writers in processes of their own, killed; and what must hold of a table afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import deltalake

from lazydelta import Table, write
from lazydelta._failpoints import ENVIRONMENT
from tests.crash.writer import ROWS

_ROOT = Path(__file__).parents[2]
_SECONDS = 120
_BYTECODE = tempfile.TemporaryDirectory()

PROPERTIES = {"delta.checkpointInterval": "3", "lazydelta.logCompactionInterval": "2"}


def make_table(directory):
    """Return the address of a table that checkpoints and compacts often."""
    url = str(directory / "table")
    write(url, {"id": [-1] * ROWS}, properties=PROPERTIES)
    return url


@dataclass
class Said:
    """What a writer said before it ended."""

    returncode: int | None = None
    intents: list[int] = field(default_factory=list)
    acks: dict[int, int] = field(default_factory=dict)
    rows: list[list[int]] = field(default_factory=list)

    @classmethod
    def parse(cls, output, returncode):
        said = cls(returncode)
        for line in output.splitlines():
            word, *rest = line.split(" ", 1)
            if word == "intent":
                said.intents.append(int(rest[0]))
            elif word == "ack":
                number, version = rest[0].split()
                said.acks[int(number)] = int(version)
            elif word == "rows":
                said.rows.append(json.loads(rest[0]))
        return said


class Writer:
    """A writer at work; what it says goes to a file, which outlives it."""

    def __init__(self, url, first, count, kind="plain", failpoint=None):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("LAZYDELTA_")}
        environment["PYTHONPATH"] = os.pathsep.join([str(_ROOT), str(_ROOT / "src")])
        # Compiled once for all of them, wherever the tests may write.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        environment["PYTHONPYCACHEPREFIX"] = _BYTECODE.name
        if failpoint is not None:
            environment[ENVIRONMENT] = failpoint
        program = str(Path(__file__).with_name("writer.py"))
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed by finish
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by finish
        self._process = subprocess.Popen(
            [sys.executable, program, url, str(first), str(count), kind],
            env=environment,
            stdout=self._output,
            stderr=self._errors,
        )

    def wait_until_it_writes(self):
        """Return when it has read the table, or has ended."""
        while not self._said(self._output) and self._process.poll() is None:
            time.sleep(0.005)

    def kill(self):
        self._process.kill()

    def finish(self):
        """Return what it said, and how it ended."""
        returncode = self._process.wait(timeout=_SECONDS)
        said = Said.parse(self._said(self._output), returncode)
        assert returncode in (0, -9), self._said(self._errors)
        self._output.close()
        self._errors.close()
        return said

    @staticmethod
    def _said(file):
        return os.pread(file.fileno(), 1 << 20, 0).decode()


def run(url, first, count, kind="plain", failpoint=None):
    return Writer(url, first, count, kind, failpoint).finish()


def check_log(url):
    """Every commit is whole, none is missing, and no two are one."""
    names = sorted(p.name for p in Path(url, "_delta_log").iterdir() if len(p.name) == 25)
    assert names == [f"{version:020d}.json" for version in range(len(names))]
    identities = []
    for name in names:
        text = Path(url, "_delta_log", name).read_bytes()
        assert text.endswith(b"\n")
        actions = [json.loads(line) for line in text.splitlines()]
        identities.append(actions[0]["commitInfo"]["txnId"])
    assert len(set(identities)) == len(identities)


def check_rows(url, rows, writers):
    """Each write is there whole or not at all, what was acknowledged is there, once."""
    counts = Counter(rows)
    assert set(counts.values()) <= {ROWS}
    acknowledged = {-1}.union(*(said.acks for said in writers))
    intended = {-1}.union(*(said.intents for said in writers))
    assert acknowledged <= set(counts) <= intended
    theirs = deltalake.DeltaTable(url).to_pyarrow_table()["id"].to_pylist()
    assert Counter(theirs) == counts
    for said in writers:
        for number, version in said.acks.items():
            at_version = Table.open(url).snapshot(version).to_arrow()["id"].to_pylist()
            assert at_version.count(number) == ROWS
