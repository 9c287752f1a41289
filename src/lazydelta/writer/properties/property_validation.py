"""Validate table properties that a user sets: known keys and valid values.

An unknown `delta.*` key is a typo, and an invalid value would fail later in another engine; both
are refused by name. Keys outside `delta.` belong to the user. Independent of any table:
`writer.properties.required_protocol` derives the protocol that a property needs.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from datetime import timedelta
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from lazydelta.config import CODECS
from lazydelta.errors import ConfigError, SchemaError
from lazydelta.protocol import Retention

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = [
    "CHANGE_FEED",
    "CONSTRAINT_PREFIX",
    "ENGINE_MANAGED",
    "MAPPING_MODE",
    "MAX_COLUMN_ID",
    "ROW_TRACKING",
    "RequestedProperties",
    "check_property_keys",
    "is_enabled",
    "row_tracking_columns",
]

CONSTRAINT_PREFIX = "delta.constraints."
"""Prefix of the properties that store CHECK constraints."""
MAPPING_MODE = "delta.columnMapping.mode"
MAX_COLUMN_ID = "delta.columnMapping.maxColumnId"
CHANGE_FEED = "delta.enableChangeDataFeed"
ROW_TRACKING = "delta.enableRowTracking"

_ROW_TRACKING_COLUMNS = {
    "delta.rowTracking.materializedRowIdColumnName": "_row-id-col-",
    "delta.rowTracking.materializedRowCommitVersionColumnName": "_row-commit-version-col-",
}
_FEATURE = "delta.feature."
_MIN_READER = "delta.minReaderVersion"
_MIN_WRITER = "delta.minWriterVersion"


def _boolean(value: str) -> str | None:
    return None if value.lower() in ("true", "false") else "true or false"


def _at_least(least: int) -> Callable[[str], str | None]:
    def check(value: str) -> str | None:
        is_integer = re.fullmatch(r"-?\d{1,18}", value) is not None
        return None if is_integer and int(value) >= least else f"an integer of at least {least}"

    return check


def _one_of(*options: str) -> Callable[[str], str | None]:
    def check(value: str) -> str | None:
        return None if value in options else " or ".join(options)

    return check


def _interval(value: str) -> str | None:
    expected = 'a non-negative interval, as in "interval 7 days"'
    try:
        duration = Retention.parse({"delta.logRetentionDuration": value}).log
    except (SchemaError, OverflowError):
        return expected
    return None if duration >= timedelta() else expected


def _size(value: str) -> str | None:
    match = re.fullmatch(r"(\d{1,15})\s*([kmgt]?b?)", value.strip().lower())
    return None if match and int(match[1]) > 0 else 'a positive size, as in "128mb" or "134217728"'


def _codec(value: str) -> str | None:
    codecs = (*CODECS, "uncompressed", "lz4_raw")
    return None if value.lower() in codecs else " or ".join(codecs)


def _page_format(value: str) -> str | None:
    is_valid = re.fullmatch(r"1\.0\.0|2\.\d{1,9}\.\d{1,9}", value) is not None
    return None if is_valid else '"1.0.0", or "2.x.y" for data pages of version 2'


def _not_empty(value: str) -> str | None:
    return None if value.strip() else "a non-empty string"


_VALIDATORS: dict[str, Callable[[str], str | None]] = {
    "delta.appendOnly": _boolean,
    "delta.autoOptimize": _boolean,
    "delta.autoOptimize.autoCompact": _one_of("true", "false", "auto", "legacy"),
    "delta.autoOptimize.optimizeWrite": _boolean,
    "delta.checkpoint.writeStatsAsJson": _boolean,
    "delta.checkpoint.writeStatsAsStruct": _boolean,
    "delta.checkpointInterval": _at_least(1),
    "delta.checkpointPolicy": _one_of("classic", "v2"),
    "delta.checkpointRetentionDuration": _interval,
    MAPPING_MODE: _one_of("none", "name", "id"),
    "delta.compatibility.symlinkFormatManifest.enabled": _one_of("false"),
    "delta.dataSkippingNumIndexedCols": _at_least(-1),
    "delta.dataSkippingStatsColumns": _not_empty,
    "delta.deletedFileRetentionDuration": _interval,
    CHANGE_FEED: _boolean,
    "delta.enableDeletionVectors": _boolean,
    "delta.enableExpiredLogCleanup": _boolean,
    "delta.enableFullRetentionRollback": _boolean,
    "delta.enableIcebergCompatV1": _boolean,
    "delta.enableIcebergCompatV2": _boolean,
    "delta.enableIcebergCompatV3": _boolean,
    "delta.enableInCommitTimestamps": _boolean,
    ROW_TRACKING: _boolean,
    "delta.enableTypeWidening": _boolean,
    "delta.enableVariantShredding": _boolean,
    "delta.isolationLevel": _one_of("Serializable", "WriteSerializable"),
    "delta.logRetentionDuration": _interval,
    _MIN_READER: _at_least(1),
    _MIN_WRITER: _at_least(1),
    "delta.parquet.compression.codec": _codec,
    "delta.parquet.format.version": _page_format,
    "delta.randomizeFilePrefixes": _boolean,
    "delta.randomPrefixLength": _at_least(1),
    "delta.setTransactionRetentionDuration": _interval,
    "delta.targetFileSize": _size,
    "delta.tuneFileSizesForRewrites": _boolean,
}
"""Properties that a user may set, and a function that returns what a valid value would be.

The names are those of Delta Spark and Databricks. None means that the value is valid.
"""

ENGINE_MANAGED = (
    MAX_COLUMN_ID,
    "delta.columnMapping.hasDroppedOrRenamed",
    "delta.inCommitTimestampEnablementTimestamp",
    "delta.inCommitTimestampEnablementVersion",
    "delta.requireCheckpointProtectionBeforeVersion",
    *_ROW_TRACKING_COLUMNS,
    "delta.rowTrackingSuspended",
)
"""Properties that only engines write; a wrong value loses rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedProperties:
    """Requested properties, split into those to store and changes of the protocol."""

    configuration: Mapping[str, str]
    """Properties to store."""
    features: tuple[str, ...] = ()
    """Features requested with `delta.feature.X = supported`; not stored."""
    min_reader_version: int | None = None
    min_writer_version: int | None = None

    @classmethod
    def parse(cls, properties: Mapping[str, Any]) -> RequestedProperties:
        """Validate properties and split them.

        >>> requested = RequestedProperties.parse(
        ...     {"delta.feature.deletionVectors": "supported", "a": 1}
        ... )
        >>> requested.features, requested.configuration
        (('deletionVectors',), {'a': '1'})

        Raises:
            ConfigError: An unknown `delta.*` key, or an invalid value.
        """
        values = {key: _to_string(key, value) for key, value in properties.items()}
        check_property_keys(key for key in values if not key.startswith(_FEATURE))
        for key, value in values.items():
            _check_value(key, value)
        reader, writer = (values.pop(key, None) for key in (_MIN_READER, _MIN_WRITER))
        features = [key for key in values if key.startswith(_FEATURE)]
        return cls(
            configuration={key: values[key] for key in values if key not in features},
            features=tuple(key.removeprefix(_FEATURE) for key in features),
            min_reader_version=None if reader is None else int(reader),
            min_writer_version=None if writer is None else int(writer),
        )


def is_enabled(configuration: Mapping[str, str], key: str) -> bool:
    """Whether a boolean property is true."""
    return configuration.get(key, "").lower() == "true"


def row_tracking_columns(configuration: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that name the materialized row tracking columns; empty if disabled.

    Names that the table does not have yet are random, so that no user column collides with them.
    """
    if not is_enabled(configuration, ROW_TRACKING):
        return {}
    return {
        key: configuration.get(key, f"{prefix}{uuid.uuid4()}")
        for key, prefix in _ROW_TRACKING_COLUMNS.items()
    }


def check_property_keys(keys: Iterable[str]) -> None:
    """Refuse unknown properties and those that a user cannot set.

    Raises:
        ConfigError: With the closest known property.
    """
    for key in keys:
        if key.startswith(CONSTRAINT_PREFIX):
            cure = "use constraints=..., alter.add_constraint or alter.drop_constraint"
            raise ConfigError(key, f"constraints cannot be set as properties; {cure}")
        if key in ENGINE_MANAGED:
            raise ConfigError(key, "this property is managed by the engine; it cannot be changed")
        if key.startswith("delta.") and key not in _VALIDATORS:
            raise ConfigError(key, f"no such table property{_suggestion(key)}")
        known_key = {known.lower(): known for known in _VALIDATORS}.get(key.lower(), key)
        if known_key != key:
            raise ConfigError(key, f"no such table property (did you mean {known_key!r}?)")


def _suggestion(key: str) -> str:
    folded = {known.lower(): known for known in _VALIDATORS}
    closest = get_close_matches(key.lower(), folded, n=1, cutoff=0.6)
    return f" (did you mean {folded[closest[0]]!r}?)" if closest else ""


def _to_string(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float | str):
        return str(value)
    raise ConfigError(key, f"must be a string, a number or a bool, not {type(value).__name__}")


def _check_value(key: str, value: str) -> None:
    expected = _one_of("supported")(value) if key.startswith(_FEATURE) else None
    if key in _VALIDATORS:
        expected = _VALIDATORS[key](value)
    if expected is not None:
        raise ConfigError(key, f"must be {expected}, not {value!r}")
