"""Typed table properties (`delta.*`), parsed once per snapshot.

Only the properties that the engine uses; the others are in `metadata.configuration`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lazydelta.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["TableProperties"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableProperties:
    """The properties that the engine uses, with the protocol's defaults."""

    append_only: bool = False
    column_mapping_mode: str = "none"
    in_commit_timestamps: bool = False
    in_commit_timestamps_since_version: int | None = None
    in_commit_timestamps_since_ms: int | None = None
    row_tracking: bool = False
    row_tracking_suspended: bool = False
    write_serializable: bool = False
    """Whether the isolation level is `WriteSerializable`; any other value of
    `delta.isolationLevel` is the strict default, `Serializable`."""

    @classmethod
    def parse(cls, configuration: Mapping[str, str]) -> TableProperties:
        """Parse the properties; the error of an invalid value names its key."""
        mode = configuration.get("delta.columnMapping.mode", "none").lower()
        if mode not in ("none", "name", "id"):
            raise SchemaError(f"delta.columnMapping.mode cannot be {mode!r}")
        return cls(
            append_only=_flag(configuration, "delta.appendOnly"),
            column_mapping_mode=mode,
            in_commit_timestamps=_flag(configuration, "delta.enableInCommitTimestamps"),
            in_commit_timestamps_since_version=_number(
                configuration, "delta.inCommitTimestampEnablementVersion"
            ),
            in_commit_timestamps_since_ms=_number(
                configuration, "delta.inCommitTimestampEnablementTimestamp"
            ),
            row_tracking=_flag(configuration, "delta.enableRowTracking"),
            row_tracking_suspended=_flag(configuration, "delta.rowTrackingSuspended"),
            write_serializable=configuration.get("delta.isolationLevel") == "WriteSerializable",
        )


def _flag(configuration: Mapping[str, str], key: str) -> bool:
    return configuration.get(key, "false").lower() == "true"


def _number(configuration: Mapping[str, str], key: str) -> int | None:
    value = configuration.get(key)
    if value is None:
        return None
    try:
        return int(value)
    except ValueError:
        raise SchemaError(f"{key} cannot be {value!r}") from None
