"""DELETE, UPDATE and MERGE killed at every failpoint: the table is at the old or new version."""

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


_MERGES = [
    ("merges", "verb-matched"),
    ("merges", "vector-file-written"),
    ("merges", "commit-put"),
    ("merges-rival", "verb-rebased"),
    ("rewriting-merges", "data-file-written"),
    ("rewriting-merges", "verb-written"),
]
"""Kinds and failpoints that are killed in a short run."""


def _names(kind):
    is_rewriting = kind == "rewriting-merges"
    return [name for name in NAMES if not (is_rewriting and name.startswith("vector-"))]


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", verbs.KINDS)
def test_every_failpoint_is_reached(kind, tmp_path, capsys):
    url = verbs.make_table(tmp_path)
    with arm("commit-rebased", lambda: None) as passed:
        writer.main(url, 0, _STEPS, f"{kind}-rival")
    assert set(passed) == set(_names(kind))
    assert verbs.check_rows(url, steps=_STEPS, kind=kind) == _STEPS
    verbs.check_feed(url)


def _marks(name):
    return [pytest.mark.long] if name.startswith(_SHARED) else []


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", [pytest.param(name, marks=_marks(name)) for name in NAMES])
def test_killed_at(name, tmp_path):
    _kill_at(name, 2, tmp_path, steps=3)


@pytest.mark.long
@pytest.mark.parametrize("hit", [1, 3, 5])
@pytest.mark.parametrize("name", NAMES)
def test_killed_earlier_or_later_at(name, hit, tmp_path):
    verbs.check_feed(_kill_at(name, hit, tmp_path, steps=2 * _STEPS))


@pytest.mark.sample(3)
@pytest.mark.parametrize(("kind", "name"), _MERGES)
def test_a_merge_killed_at(kind, name, tmp_path):
    verbs.check_feed(_kill_at(name, 2, tmp_path, steps=3, kind=kind))


@pytest.mark.long
@pytest.mark.parametrize("hit", [1, 2, 3, 5])
@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in verbs.KINDS[1:] for name in _names(kind)]
)
def test_a_merge_killed_earlier_or_later_at(kind, name, hit, tmp_path):
    verbs.check_feed(_kill_at(name, hit, tmp_path, steps=2 * _STEPS, kind=f"{kind}-rival"))


def _kill_at(name, hit, tmp_path, steps, kind="verbs-rival"):
    url = verbs.make_table(tmp_path)
    before = _files(url)
    killed = run(url, 0, steps, kind, f"{name}:kill:{hit}")
    assert killed.returncode == -signal.SIGKILL
    check_log(url)
    kind = kind.removesuffix("-rival")
    done = verbs.check_rows(url, steps=steps, kind=kind)
    assert done in (len(killed.acks), len(killed.acks) + 1)
    assert before <= _files(url)  # no file of an earlier version is gone
    again = run(url, 0, steps, kind)
    assert again.returncode == 0
    assert len(again.found) == done
    assert verbs.check_rows(url, steps=steps, kind=kind) == steps
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
