"""Retry policy for commits: exponential backoff with jitter, bounded by attempts and by time."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lazydelta.transaction import tuning

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazydelta.config import Config

__all__ = ["Clock", "RetryPolicy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """Source of time; tests pass their own."""

    sleep: Callable[[float], None] = time.sleep
    monotonic: Callable[[], float] = time.monotonic
    now_ms: Callable[[], int] = lambda: time.time_ns() // 10**6


@dataclass
class RetryPolicy:
    """Counts the attempts of one commit, and sleeps between them."""

    config: Config
    clock: Clock
    attempts: int = 0
    conflicts: int = 0
    failures: int = 0
    started: float = field(init=False)
    failing_since: float | None = None

    def __post_init__(self) -> None:
        self.started = self.clock.monotonic()

    @property
    def seconds(self) -> float:
        """Time since the first attempt."""
        return self.clock.monotonic() - self.started

    @property
    def is_timed_out(self) -> bool:
        """Whether `commit_seconds` have passed."""
        return self.seconds >= self.config.commit_seconds

    @property
    def is_store_down(self) -> bool:
        """Whether the store has only failed for the deadline of a request."""
        if self.failing_since is None:
            return False
        failing = self.clock.monotonic() - self.failing_since
        return failing >= self.config.request_deadline_seconds

    @property
    def is_exhausted(self) -> bool:
        """Whether no attempt or no time is left."""
        return self.attempts >= self.config.commit_attempts or self.is_timed_out

    def back_off_after_conflict(self) -> None:
        """Sleep after a version was lost to another writer."""
        self._sleep(tuning.CONFLICT_BASE_SECONDS, self.conflicts, tuning.CONFLICT_CAP_SECONDS)

    def back_off_after_failure(self) -> None:
        """Sleep after the store failed."""
        self.failures += 1
        if self.failing_since is None:
            self.failing_since = self.clock.monotonic()
        config = self.config
        self._sleep(config.retry_base_seconds, self.failures, config.retry_cap_seconds)

    def note_success(self) -> None:
        """Restart backoff and deadline of failures after the store has answered."""
        self.failures = 0
        self.failing_since = None

    def _sleep(self, base: float, times: int, cap: float) -> None:
        longest = min(cap, base * 2 ** min(times, 30))
        self.clock.sleep(random.uniform(0, longest))  # noqa: S311 - not a secret
