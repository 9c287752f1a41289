"""DELETE and UPDATE killed at every failpoint, and racing: the table is at the old or new version."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest

from lazydelta import Table
from lazydelta._failpoints import NAMES, arm
from tests.crash import verbs, writer
from tests.crash.harness import Writer, check_log, run

_STEPS = 6
_SHARED = ("data-file-", "checksum", "checkpoint", "last-checkpoint", "compaction")
"""Failpoints that `test_kill` covers too: those of verbs are the others."""


def test_every_failpoint_is_reached(tmp_path, capsys):
    url = verbs.make_table(tmp_path)
    with arm("commit-rebased", lambda: None) as passed:
        writer.main(url, 0, _STEPS, "verbs-rival")
    assert set(passed) == set(NAMES)
    assert verbs.check_rows(url, steps=_STEPS) == _STEPS
    verbs.check_feed(url)


def _marks(name):
    return [pytest.mark.long] if name.startswith(_SHARED) else []


@pytest.mark.parametrize("name", [pytest.param(name, marks=_marks(name)) for name in NAMES])
def test_killed_at(name, tmp_path):
    _kill_at(name, 2, tmp_path, steps=3)


@pytest.mark.long
@pytest.mark.parametrize("hit", [1, 3, 5])
@pytest.mark.parametrize("name", NAMES)
def test_killed_earlier_or_later_at(name, hit, tmp_path):
    verbs.check_feed(_kill_at(name, hit, tmp_path, steps=2 * _STEPS))


def _kill_at(name, hit, tmp_path, steps):
    url = verbs.make_table(tmp_path)
    before = _files(url)
    killed = run(url, 0, steps, "verbs-rival", f"{name}:kill:{hit}")
    assert killed.returncode == -signal.SIGKILL
    check_log(url)
    done = verbs.check_rows(url, steps=steps)
    assert done in (len(killed.acks), len(killed.acks) + 1)
    assert before <= _files(url)  # no file of an earlier version is gone
    again = run(url, 0, steps, "verbs")
    assert again.returncode == 0
    assert len(again.found) == done
    assert verbs.check_rows(url, steps=steps) == steps
    check_log(url)
    return url


def _files(url):
    return {file for file in Path(url).rglob("*") if file.suffix in (".parquet", ".bin")}


def test_killed_at_random(tmp_path):
    chance = random.Random(3)
    url = verbs.make_table(tmp_path)
    for _ in range(4):
        one = Writer(url, 0, 12, "verbs-rival")
        one.wait_until_it_writes()
        time.sleep(chance.uniform(0, 0.4))
        one.kill()
        one.finish()
        check_log(url)
        verbs.check_rows(url, steps=12)
    run(url, 0, 12, "verbs")
    assert verbs.check_rows(url, steps=12) == 12
    assert Table.open(url).version >= 12
