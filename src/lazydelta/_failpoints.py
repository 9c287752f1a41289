"""Failpoints: named places where a test can kill, stop or fail a writer.

A failpoint that is not armed costs one comparison. `_LAZYDELTA_FAILPOINT=name:action[:hit]` arms
one in a child process, `arm` in this process. `NAMES` lists them all, so that tests can assert that
each one is reached.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["NAMES", "Armed", "FailpointError", "arm", "arm_from_env", "failpoint"]

NAMES = (
    "verb-matched",
    "data-file-started",
    "data-file-written",
    "vector-file-prepared",
    "vector-file-written",
    "verb-written",
    "commit-prepared",
    "commit-staged",
    "commit-put",
    "commit-acknowledged",
    "verb-rebased",
    "commit-rebased",
    "checksum-prepared",
    "checksum-written",
    "checkpoint-part-written",
    "checkpoint-manifest-prepared",
    "checkpoint-published",
    "last-checkpoint-written",
    "compaction-prepared",
    "compaction-written",
)
"""All failpoints, in the order in which a write, or DELETE, UPDATE or MERGE, reaches them."""

Action = Literal["kill", "raise", "hang"]

ENVIRONMENT = "_LAZYDELTA_FAILPOINT"  # underscored: `LAZYDELTA_*` are settings of users
_HANG_SECONDS = 3600


class FailpointError(Exception):
    """Raised by a failpoint with the action `raise`; the package never catches it by name."""


class Armed(NamedTuple):
    """The armed failpoint: its action, and the hit that triggers it."""

    name: str
    action: Action | Callable[[], None]
    hit: int = 1


_lock = threading.Lock()
_armed: Armed | None = None
_hits: Counter[str] = Counter()


def failpoint(name: str) -> None:
    """Mark a failpoint; does nothing unless a test has armed it."""
    if _armed is not None:
        _hit(_armed, name)


def _hit(armed: Armed, name: str) -> None:
    with _lock:
        _hits[name] += 1
        is_triggered = name == armed.name and _hits[name] == armed.hit
    if not is_triggered:
        return
    if callable(armed.action):
        armed.action()
    elif armed.action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif armed.action == "hang":
        time.sleep(_HANG_SECONDS)
    else:
        raise FailpointError(name)


@contextmanager
def arm(name: str, action: Action | Callable[[], None], hit: int = 1) -> Iterator[Counter[str]]:
    """Arm a failpoint for a `with` block; yields the number of hits by name."""
    global _armed  # noqa: PLW0603 - one switch for the process, as the environment variable is
    if name not in NAMES:
        raise ValueError(f"no failpoint {name!r}")
    _hits.clear()
    _armed = Armed(name=name, action=action, hit=hit)
    try:
        yield _hits
    finally:
        _armed = None


def arm_from_env(value: str | None) -> None:
    """Arm the failpoint of `name:action[:hit]` for the rest of this process."""
    global _armed  # noqa: PLW0603 - as above
    if not value:
        return
    name, action, *hit = value.split(":")
    if name not in NAMES or action not in get_args(Action):
        raise ValueError(f"{ENVIRONMENT}={value!r} is not a failpoint and an action")
    _armed = Armed(name=name, action=action, hit=int(hit[0]) if hit else 1)  # type: ignore[arg-type]


arm_from_env(os.environ.get(ENVIRONMENT))
