"""Table properties (`delta.*`), typed; parsed once per snapshot.

Only properties that some code reads are here; the rest stay in `metadata.configuration`.
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
    """The properties this engine acts on, with the protocol's defaults."""

    append_only: bool = False
    column_mapping_mode: str = "none"
    in_commit_timestamps: bool = False
    in_commit_timestamps_since_version: int | None = None
    in_commit_timestamps_since_ms: int | None = None
    row_tracking: bool = False
    row_tracking_suspended: bool = False
    write_serializable: bool = False
    """Whether writers may be ordered in another way than they committed; only this very value of
    `delta.isolationLevel` says so, and any other is the strict default."""

    @classmethod
    def parse(cls, configuration: Mapping[str, str]) -> TableProperties:
        """Read the properties; an absurd value is an error that names its key."""
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
    text = configuration.get(key)
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        raise SchemaError(f"{key} cannot be {text!r}") from None
