"""How long a commit goes on, and how it rests between tries: bounded, and never in step."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazydelta.config import Config

__all__ = ["Clock", "Pace"]

# A lost race is no sign of trouble: the next version is free at once, and only many losers in step
# would be in each other's way.
_LOSS_BASE_SECONDS = 0.001
_LOSS_CAP_SECONDS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """The passing of time; tests bring their own."""

    sleep: Callable[[float], None] = time.sleep
    monotonic: Callable[[], float] = time.monotonic
    now_ms: Callable[[], int] = lambda: time.time_ns() // 10**6


@dataclass
class Pace:
    """The tries of one commit."""

    config: Config
    clock: Clock
    attempts: int = 0
    losses: int = 0
    failures: int = 0
    began: float = field(init=False)

    def __post_init__(self) -> None:
        self.began = self.clock.monotonic()

    @property
    def seconds(self) -> float:
        """How long it has been going on."""
        return self.clock.monotonic() - self.began

    @property
    def is_late(self) -> bool:
        """Whether its time is over."""
        return self.seconds >= self.config.commit_seconds

    @property
    def is_over(self) -> bool:
        """Whether its time or its attempts are used up."""
        return self.attempts >= self.config.commit_attempts or self.is_late

    def rest_after_loss(self) -> None:
        """Let others finish."""
        self._rest(_LOSS_BASE_SECONDS, self.losses, _LOSS_CAP_SECONDS)

    def rest_after_failure(self) -> None:
        """Let the store recover."""
        self.failures += 1
        config = self.config
        self._rest(config.retry_base_seconds, self.failures, config.retry_cap_seconds)

    def _rest(self, base: float, times: int, cap: float) -> None:
        longest = min(cap, base * 2 ** min(times, 30))
        self.clock.sleep(random.uniform(0, longest))  # noqa: S311 - not a secret
