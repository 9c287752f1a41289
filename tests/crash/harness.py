"""Writer processes to kill, and checks of the table afterwards."""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from pathlib import Path
from urllib.parse import unquote

import deltalake
import pyarrow.parquet as pq

from lazydelta import Table, write
from tests.crash.writer import ROWS

_ROOT = Path(__file__).parents[2]
_VERSIONS_READ = 8

PROPERTIES = {"delta.checkpointInterval": "3", "lazydelta.logCompactionInterval": "2"}


def make_table(directory):
    """Return the path of a table with frequent checkpoints and log compactions."""
    url = str(directory / "table")
    write(url, {"id": [-1] * ROWS}, properties=PROPERTIES)
    return url


def environment():
    """Return an environment with the engine on the path and without settings."""
    kept = {k: v for k, v in os.environ.items() if "LAZYDELTA_" not in k}
    return {**kept, "PYTHONPATH": os.pathsep.join([str(_ROOT), str(_ROOT / "src")])}


@dataclass
class WriterOutput:
    """The output of a writer."""

    returncode: int | None = None
    intents: list[int] = field(default_factory=list)
    acks: dict[int, int] = field(default_factory=dict)
    found: dict[int, int] = field(default_factory=dict)
    rows: list[list[int]] = field(default_factory=list)

    @classmethod
    def parse(cls, printed, returncode):
        output = cls(returncode)
        for line in printed.splitlines():
            word, *rest = line.split(" ", 1)
            if word == "intent":
                output.intents.append(int(rest[0]))
            elif word in ("ack", "found"):
                number, version = rest[0].split()
                (output.acks if word == "ack" else output.found)[int(number)] = int(version)
            elif word == "rows":
                output.rows.append(json.loads(rest[0]))
        return output


class _Forker:
    """The process from which writers are forked."""

    def __init__(self):
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("writer.py"))],
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        atexit.register(self._process.communicate)

    def ask(self, command, argument):
        print(json.dumps([command, argument]), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())


_forker = cache(_Forker)


class Writer:
    """A running writer; its output goes to a file, which survives a kill."""

    def __init__(self, url, first, count, kind="plain", failpoint=None, options=None):
        self._output = tempfile.NamedTemporaryFile()  # noqa: SIM115 - closed by finish
        self._errors = tempfile.NamedTemporaryFile()  # noqa: SIM115 - closed by finish
        self._returncode = None
        start = {
            "output": self._output.name,
            "errors": self._errors.name,
            "failpoint": failpoint,
            "arguments": [url, first, count, kind, options],
        }
        self._pid = _forker().ask("start", start)

    def _has_ended(self):
        if self._returncode is None:
            self._returncode = _forker().ask("poll", self._pid)
        return self._returncode is not None

    def wait_until_it_writes(self):
        """Wait until it has read the table or has exited."""
        while not self._content(self._output) and not self._has_ended():
            time.sleep(0.005)

    def kill(self):
        if not self._has_ended():
            os.kill(self._pid, signal.SIGKILL)

    def finish(self):
        """Return its output and its exit code."""
        while not self._has_ended():
            time.sleep(0.005)
        output = WriterOutput.parse(self._content(self._output), self._returncode)
        assert output.returncode in (0, -signal.SIGKILL), self._content(self._errors)
        self._output.close()
        self._errors.close()
        return output

    @staticmethod
    def _content(file):
        return os.pread(file.fileno(), 1 << 20, 0).decode()


def run(url, first, count, kind="plain", failpoint=None):
    return Writer(url, first, count, kind, failpoint).finish()


def _commits(url):
    """Return the commits by name."""
    return sorted(p for p in Path(url, "_delta_log").iterdir() if len(p.name) == 25)


def check_log(url):
    """Check that every commit is complete, none is missing and none is duplicated."""
    names = [path.name for path in _commits(url)]
    assert names == [f"{version:020d}.json" for version in range(len(names))]
    identities = []
    for path in _commits(url):
        data = path.read_bytes()
        assert data.endswith(b"\n")
        actions = [json.loads(line) for line in data.splitlines()]
        identities.append(actions[0]["commitInfo"]["txnId"])
    assert len(set(identities)) == len(identities)


def check_rows(url, rows, writers):
    """Check that each write is atomic, and that acknowledged writes exist exactly once."""
    counts = Counter(rows)
    assert set(counts.values()) <= {ROWS}
    acknowledged = {-1}.union(*(output.acks | output.found for output in writers))
    intended = {-1}.union(*(output.intents for output in writers))
    assert acknowledged <= set(counts) <= intended
    theirs = deltalake.DeltaTable(url).to_pyarrow_table()["id"].to_pylist()
    assert Counter(theirs) == counts
    _check_versions(url, writers)


def _check_versions(url, writers):
    """Check that each version is the acknowledged write; read some of them by time travel."""
    written = _rows_by_version(url)
    for output in writers:
        for number, version in output.acks.items():
            assert written[version] == [number] * ROWS
        for number, version in output.found.items():
            assert written.index([number] * ROWS) <= version
    for version in range(0, len(written), 1 + len(written) // _VERSIONS_READ):
        found = Table.open(url).snapshot(version).to_arrow()["id"].to_pylist()
        assert Counter(found) == Counter(chain.from_iterable(written[: version + 1]))


def _rows_by_version(url):
    """Return the ids added by each commit, without the engine."""
    found = []
    for commit in _commits(url):
        actions = map(json.loads, commit.read_bytes().splitlines())
        adds = [action["add"]["path"] for action in actions if "add" in action]
        ids = [pq.read_table(Path(url, unquote(path)))["id"].to_pylist() for path in adds]
        found.append(list(chain.from_iterable(ids)))
    return found
