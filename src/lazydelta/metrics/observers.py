"""The observer of events, and how it is notified."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from lazydelta.metrics.events import Event

__all__ = ["Observer", "notify"]

logger = logging.getLogger(__name__)

_failed: set[int] = set()
"""Ids of observers whose failure is logged already."""


class Observer(Protocol):
    """A callable that receives events. It should return quickly; its exceptions are logged."""

    def __call__(self, event: Event, /) -> None:
        """Receive `event`."""


def notify(observer: Observer | None, event: Event) -> None:
    """Send an event to an observer; an exception of the observer never fails the operation.

    The first exception of each observer is logged.
    """
    if observer is None:
        return
    try:
        observer(event)
    except Exception:
        if id(observer) not in _failed:
            _failed.add(id(observer))
            logger.exception("Config.observer failed on %s; reported once", type(event).__name__)
