"""Retention properties: how long commits, deleted files and transactions are kept.

Log cleanup deletes commits, VACUUM deletes data files; a version is readable while both exist.
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

__all__ = [
    "FILE_RETENTION",
    "LOG_RETENTION",
    "Retention",
    "RetentionCheck",
    "TransactionRetention",
    "parse_interval",
]

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
_INTERVAL_PART = re.compile(r"\s*(-?\d+)\s*([a-z]+?)s?\b")


@dataclass(frozen=True, slots=True)
class RetentionCheck:
    """Whether the retention covers a window of history, and which properties are too short."""

    required: timedelta
    log: timedelta
    deleted_files: timedelta

    @property
    def too_short(self) -> tuple[str, ...]:
        """The properties that are shorter than the required window."""
        retentions = {LOG_RETENTION: self.log, FILE_RETENTION: self.deleted_files}
        return tuple(name for name, time in retentions.items() if time < self.required)

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

    def check(self, required: timedelta) -> RetentionCheck:
        """Check whether versions as old as `required` stay readable."""
        return RetentionCheck(required, self.log, self.deleted_files)


@dataclass(frozen=True, slots=True)
class TransactionRetention:
    """How long the `txn` action of an application is kept."""

    kept_for: timedelta | None
    """None means for ever, the protocol's default."""

    @classmethod
    def parse(cls, configuration: Mapping[str, str]) -> TransactionRetention:
        """Read the property."""
        if TRANSACTION_RETENTION not in configuration:
            return cls(None)
        return cls(_interval(configuration, TRANSACTION_RETENTION, timedelta()))

    def kept(self, actions: Iterable[SetTransaction], *, now_ms: int) -> dict[str, SetTransaction]:
        """Return the newest unexpired action of each application, by its id.

        Args:
            actions: The actions, oldest first.
            now_ms: The current time.
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
    value = configuration.get(key)
    return default if value is None else parse_interval(value, key)


def parse_interval(value: str, name: str) -> timedelta:
    """Parse an interval such as `interval 1 week 2 days`, or `36 hours`.

    Raises:
        SchemaError: It is not an interval of fixed units; the message has the name.
    """
    interval = value.strip().lower().removeprefix("interval")
    parts = _INTERVAL_PART.findall(interval)
    has_rest = bool(_INTERVAL_PART.sub("", interval).strip())
    if not parts or has_rest or any(unit not in _SECONDS for _, unit in parts):
        raise SchemaError(f"{name} cannot be {value!r}")
    return timedelta(seconds=sum(int(count) * _SECONDS[unit] for count, unit in parts))
