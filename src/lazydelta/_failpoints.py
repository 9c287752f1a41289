"""Named places where a test may stop a writer dead, and nothing else.

A point that is not armed costs one comparison. `_LAZYDELTA_FAILPOINT=name:action[:hit]` arms one in
a child process; `arm` does it in this one. Every name is in `NAMES`, so that a test can show that
each of them was reached.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["NAMES", "Armed", "FailpointError", "arm", "arm_from_env", "failpoint"]

NAMES = (
    "data-file-started",
    "data-file-written",
    "commit-prepared",
    "commit-staged",
    "commit-put",
    "commit-acknowledged",
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
"""Every point, in the order in which a write that does everything passes them."""

Action = Literal["kill", "raise", "hang"]

ENVIRONMENT = "_LAZYDELTA_FAILPOINT"  # underscored: `LAZYDELTA_*` are settings of users
_HANG_SECONDS = 3600


class FailpointError(Exception):
    """Raised by a point that is armed to raise; no code of ours catches it by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Armed:
    """What shall happen where, and at which passing."""

    name: str
    action: Action | Callable[[], None]
    hit: int = 1


_lock = threading.Lock()
_armed: Armed | None = None
_passed: Counter[str] = Counter()


def failpoint(name: str) -> None:
    """Mark a place; returns at once unless a test has armed it."""
    if _armed is not None:
        _pass(_armed, name)


def _pass(armed: Armed, name: str) -> None:
    with _lock:
        _passed[name] += 1
        due = name == armed.name and _passed[name] == armed.hit
    if not due:
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
    """Arm a point for a `with` block, which gets the number of passings by name."""
    global _armed  # noqa: PLW0603 - one switch for the process, as the environment variable is
    if name not in NAMES:
        raise ValueError(f"no failpoint {name!r}")
    _passed.clear()
    _armed = Armed(name=name, action=action, hit=hit)
    try:
        yield _passed
    finally:
        _armed = None


def arm_from_env(text: str | None) -> None:
    """Arm what `name:action[:hit]` says, for the rest of this process."""
    global _armed  # noqa: PLW0603 - as above
    if not text:
        return
    name, action, *hit = text.split(":")
    if name not in NAMES or action not in get_args(Action):
        raise ValueError(f"{ENVIRONMENT}={text!r} names no failpoint or no action")
    _armed = Armed(name=name, action=action, hit=int(hit[0]) if hit else 1)  # type: ignore[arg-type]


arm_from_env(os.environ.get(ENVIRONMENT))
