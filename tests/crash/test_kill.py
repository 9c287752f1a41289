"""Writers killed at every failpoint and at random: the table stays consistent."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time

import pytest

from lazydelta._failpoints import ENVIRONMENT, NAMES, arm
from tests.crash import writer
from tests.crash.harness import Writer, check_log, check_rows, environment, make_table, run

_STEPS = 6
WRITE_NAMES = [name for name in NAMES if not name.startswith(("verb-", "vector-"))]


def test_every_failpoint_is_reached(tmp_path, capsys):
    url = make_table(tmp_path)
    with arm("commit-rebased", lambda: None) as passed:
        writer.main(url, 0, _STEPS, "rival")
    assert set(passed) == set(WRITE_NAMES)


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", WRITE_NAMES)
def test_killed_at(name, tmp_path):
    _kill_at(name, 1, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("hit", [2, 3, 5])
@pytest.mark.parametrize("name", WRITE_NAMES)
def test_killed_later_at(name, hit, tmp_path):
    _kill_at(name, hit, tmp_path, steps=4 * _STEPS)


def _kill_at(name, hit, tmp_path, steps=_STEPS):
    url = make_table(tmp_path)
    kind = "rival" if name == "commit-rebased" else "plain"
    killed = run(url, 0, steps, kind, f"{name}:kill:{hit}")
    assert killed.returncode == -signal.SIGKILL
    check_log(url)
    # A new process reads the table and repeats the steps without any repair.
    again = run(url, 0, steps)
    assert again.returncode == 0
    check_rows(url, again.rows[-1], [killed, again])
    assert set(killed.acks) <= set(again.rows[0])
    assert set(range(steps)) <= set(again.rows[-1])
    check_log(url)


def test_killed_in_a_new_interpreter(tmp_path):
    """In a new interpreter, with the failpoint set by the environment."""
    url = make_table(tmp_path)
    program = f"from tests.crash.writer import main; main({url!r}, 0, {_STEPS}, 'plain')"
    armed = {**environment(), ENVIRONMENT: "commit-put:kill:2"}
    ended = subprocess.run(
        [sys.executable, "-c", program], env=armed, stdout=subprocess.DEVNULL, check=False
    )
    assert ended.returncode == -signal.SIGKILL
    check_log(url)
    again = run(url, 0, _STEPS)
    assert set(again.rows[0]) == {-1, 0, 1}  # the second is committed, though not acknowledged
    check_rows(url, again.rows[-1], [again])


def _random_kills(tmp_path, rounds, writers, seed):
    chance = random.Random(seed)
    url = make_table(tmp_path)
    all_numbers = []
    for number in range(rounds):
        running = [Writer(url, 10_000 * number + 100 * w, 90) for w in range(writers)]
        for one in running:
            one.wait_until_it_writes()
        for one in running:
            time.sleep(chance.uniform(0, 0.3))
            one.kill()
        all_numbers += [one.finish() for one in running]
        check_log(url)
    after = run(url, 9_000_000, 1)
    assert after.returncode == 0
    check_rows(url, after.rows[-1], [*all_numbers, after])


def test_killed_at_random_among_others(tmp_path):
    _random_kills(tmp_path, rounds=1, writers=4, seed=1)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(25))
def test_killed_at_random_long(seed, tmp_path):
    _random_kills(tmp_path, rounds=4, writers=4, seed=seed)
