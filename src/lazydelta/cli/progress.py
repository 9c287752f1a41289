"""A progress line on standard error: files or rows so far, rate, phase.

Shown only if standard error is a terminal and the command has run for half a second. A thread
redraws it, because a scan that prunes everything yields nothing for a long time.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING, Self

from lazydelta.cli import tuning

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Progress"]

_ERASE = "\r\x1b[K"


class Progress:
    """Shows `describe()` while the `with` block runs, if standard error is a terminal.

    Args:
        describe: Called from another thread; returns the count so far and the phase.
        enabled: False disables it.
        unit: The unit of the count.
    """

    def __init__(
        self,
        describe: Callable[[], tuple[int, str]],
        *,
        enabled: bool = True,
        unit: str = "files",
    ) -> None:
        self._describe = describe
        self._unit = unit
        self._stream = sys.stderr
        self._enabled = enabled and self._stream.isatty()
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._started = self._quiet_since = time.monotonic()
        self._is_drawn = False
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        if self._enabled:
            self._thread = threading.Thread(
                target=self._run, name="lazydelta-progress", daemon=True
            )
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        if self._thread is not None:
            self._thread.join()
        self._erase()

    def pause(self) -> None:
        """Erase the line before other output to the same terminal."""
        if self._enabled:
            with self._lock:
                self._quiet_since = time.monotonic()
                self._erase()

    def _run(self) -> None:
        while not self._done.wait(tuning.REDRAW_SECONDS):
            with self._lock:
                now = time.monotonic()
                if now - self._quiet_since >= tuning.PROGRESS_DELAY_SECONDS:
                    self._draw(now - self._started)

    def _line(self, seconds: float) -> str:
        count, phase = self._describe()
        return f"{phase}: {count:,} {self._unit}, {count / seconds:,.0f}/s, {seconds:.1f} s"

    def _draw(self, seconds: float) -> None:
        self._stream.write(f"{_ERASE}{self._line(seconds)}")
        self._stream.flush()
        self._is_drawn = True

    def _erase(self) -> None:
        if self._is_drawn:
            self._stream.write(_ERASE)
            self._stream.flush()
            self._is_drawn = False
