"""How long a table keeps its past: the two retention properties, and what they allow.

Log cleanup takes commits, VACUUM takes data files; a version can be read while both are there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from lazydelta.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lazydelta.protocol.actions import SetTransaction

__all__ = ["LOG_RETENTION", "Retention", "RetentionCheck", "TransactionRetention"]

LOG_RETENTION = "delta.logRetentionDuration"
FILE_RETENTION = "delta.deletedFileRetentionDuration"
TRANSACTION_RETENTION = "delta.setTransactionRetentionDuration"

_SECONDS = {
    "nanosecond": 1e-9,
    "microsecond": 1e-6,
    "millisecond": 1e-3,
    "second": 1.0,
    "minute": 60.0,
    "hour": 3600.0,
    "day": 86_400.0,
    "week": 604_800.0,
}
_PART = re.compile(r"\s*(-?\d+)\s*([a-z]+?)s?\b")


@dataclass(frozen=True, slots=True)
class RetentionCheck:
    """Whether a window of history is safe, and which property is too short if not."""

    wanted: timedelta
    log: timedelta
    deleted_files: timedelta

    @property
    def too_short(self) -> tuple[str, ...]:
        """The properties that keep less than the wanted window."""
        kept = {LOG_RETENTION: self.log, FILE_RETENTION: self.deleted_files}
        return tuple(name for name, time in kept.items() if time < self.wanted)

    @property
    def ok(self) -> bool:
        """Whether every version of the window stays readable."""
        return not self.too_short


@dataclass(frozen=True, slots=True)
class Retention:
    """How long commits and deleted data files are kept."""

    log: timedelta
    deleted_files: timedelta

    @classmethod
    def parse(cls, configuration: Mapping[str, str]) -> Retention:
        """Read the properties, with the protocol's defaults of 30 and 7 days."""
        return cls(
            log=_interval(configuration, LOG_RETENTION, timedelta(days=30)),
            deleted_files=_interval(configuration, FILE_RETENTION, timedelta(days=7)),
        )

    def check(self, wanted: timedelta) -> RetentionCheck:
        """Judge whether versions as old as `wanted` stay readable."""
        return RetentionCheck(wanted, self.log, self.deleted_files)


@dataclass(frozen=True, slots=True)
class TransactionRetention:
    """How long the progress of an application is remembered after its last commit."""

    kept_for: timedelta | None
    """None: for ever, the protocol's default."""

    @classmethod
    def parse(cls, configuration: Mapping[str, str]) -> TransactionRetention:
        """Read the property."""
        if TRANSACTION_RETENTION not in configuration:
            return cls(None)
        return cls(_interval(configuration, TRANSACTION_RETENTION, timedelta()))

    def kept(self, actions: Iterable[SetTransaction], *, now_ms: int) -> dict[str, SetTransaction]:
        """Return the newest action of each application that is not forgotten, by its id.

        Args:
            actions: Oldest first.
            now_ms: The time that their age is measured at.
        """
        newest = {action.app_id: action for action in actions}
        if self.kept_for is None:
            return newest
        oldest = now_ms - self.kept_for // timedelta(milliseconds=1)
        return {
            name: action
            for name, action in newest.items()
            if action.last_updated is None or action.last_updated > oldest
        }


def _interval(configuration: Mapping[str, str], key: str, default: timedelta) -> timedelta:
    """Parse an interval such as `interval 1 week 2 days`.

    >>> _interval({"k": "interval 1 week 2 days"}, "k", timedelta())
    datetime.timedelta(days=9)
    """
    text = configuration.get(key)
    if text is None:
        return default
    rest = text.strip().lower().removeprefix("interval")
    parts = _PART.findall(rest)
    if not parts or _PART.sub("", rest).strip() or any(unit not in _SECONDS for _, unit in parts):
        raise SchemaError(f"{key} cannot be {text!r}")
    return timedelta(seconds=sum(int(count) * _SECONDS[unit] for count, unit in parts))
