"""Table properties as a user gives them: which there are, and which values they take.

A `delta.*` key that no engine knows is a typing error, and a value out of range fails later and
elsewhere; both are refused here, by name. Keys outside `delta.` belong to the user. Nothing here
knows a table: what a property needs of the protocol is in `writer.required_protocol`.
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
    "CONSTRAINT",
    "ENGINE_MANAGED",
    "MAPPING_MODE",
    "MAX_COLUMN_ID",
    "ROW_TRACKING",
    "RequestedProperties",
    "check_keys",
    "is_on",
    "row_tracking_columns",
]

CONSTRAINT = "delta.constraints."
"""What the keys of CHECK constraints begin with."""
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


def _boolean(text: str) -> str | None:
    return None if text.lower() in ("true", "false") else "true or false"


def _at_least(least: int) -> Callable[[str], str | None]:
    def check(text: str) -> str | None:
        is_whole = re.fullmatch(r"-?\d{1,18}", text) is not None
        return None if is_whole and int(text) >= least else f"a whole number from {least} on"

    return check


def _one_of(*options: str) -> Callable[[str], str | None]:
    def check(text: str) -> str | None:
        return None if text in options else " or ".join(options)

    return check


def _interval(text: str) -> str | None:
    wanted = 'an interval that is not negative, as in "interval 7 days"'
    try:
        kept = Retention.parse({"delta.logRetentionDuration": text}).log
    except (SchemaError, OverflowError):
        return wanted
    return None if kept >= timedelta() else wanted


def _size(text: str) -> str | None:
    sized = re.fullmatch(r"(\d{1,15})\s*([kmgt]?b?)", text.strip().lower())
    return None if sized and int(sized[1]) > 0 else 'a size above 0, as in "128mb" or "134217728"'


def _codec(text: str) -> str | None:
    known = (*CODECS, "uncompressed", "lz4_raw")
    return None if text.lower() in known else " or ".join(known)


def _page_format(text: str) -> str | None:
    is_known = re.fullmatch(r"1\.0\.0|2\.\d{1,9}\.\d{1,9}", text) is not None
    return None if is_known else '"1.0.0", or "2.x.y" for data pages of version 2'


def _any(text: str) -> str | None:
    return None if text.strip() else "some text"


_KNOWN: dict[str, Callable[[str], str | None]] = {
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
    "delta.dataSkippingStatsColumns": _any,
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
"""The properties that a user may set, as delta-spark and Databricks name them."""

ENGINE_MANAGED = (
    MAX_COLUMN_ID,
    "delta.columnMapping.hasDroppedOrRenamed",
    "delta.inCommitTimestampEnablementTimestamp",
    "delta.inCommitTimestampEnablementVersion",
    "delta.requireCheckpointProtectionBeforeVersion",
    *_ROW_TRACKING_COLUMNS,
    "delta.rowTrackingSuspended",
)
"""Properties that engines keep for themselves; a wrong value loses rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedProperties:
    """What a user's properties ask for: settings to keep, and changes of the protocol."""

    configuration: Mapping[str, str]
    """Properties to store."""
    features: tuple[str, ...] = ()
    """Features asked for by `delta.feature.X = supported`; not stored."""
    min_reader_version: int | None = None
    min_writer_version: int | None = None

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> RequestedProperties:
        """Check names and values, and take apart what is stored and what is not.

        >>> asked = RequestedProperties.parse(
        ...     {"delta.feature.deletionVectors": "supported", "a": 1}
        ... )
        >>> asked.features, asked.configuration
        (('deletionVectors',), {'a': '1'})

        Raises:
            ConfigError: An unknown `delta.*` key, or a value it does not take.
        """
        texts = {key: _text(key, value) for key, value in given.items()}
        check_keys(key for key in texts if not key.startswith(_FEATURE))
        for key, text in texts.items():
            _check_value(key, text)
        reader, writer = (texts.pop(key, None) for key in (_MIN_READER, _MIN_WRITER))
        features = [key for key in texts if key.startswith(_FEATURE)]
        return cls(
            configuration={key: texts[key] for key in texts if key not in features},
            features=tuple(key.removeprefix(_FEATURE) for key in features),
            min_reader_version=None if reader is None else int(reader),
            min_writer_version=None if writer is None else int(writer),
        )


def is_on(configuration: Mapping[str, str], key: str) -> bool:
    """Whether a property that is on or off is on."""
    return configuration.get(key, "").lower() == "true"


def row_tracking_columns(configuration: Mapping[str, str]) -> dict[str, str]:
    """Return the columns in which files keep moved rows' ids, if rows are tracked.

    They are chosen once for a table, and by chance, so that no column of a user has their names.
    """
    if not is_on(configuration, ROW_TRACKING):
        return {}
    return {
        key: configuration.get(key, f"{prefix}{uuid.uuid4()}")
        for key, prefix in _ROW_TRACKING_COLUMNS.items()
    }


def check_keys(keys: Iterable[str]) -> None:
    """Refuse the names of properties that do not exist or are not the user's to change.

    Raises:
        ConfigError: With the nearest name that exists.
    """
    for key in keys:
        if key.startswith(CONSTRAINT):
            cure = "give constraints=..., or use alter.add_constraint and alter.drop_constraint"
            raise ConfigError(key, f"a constraint is more than a property: {cure}")
        if key in ENGINE_MANAGED:
            raise ConfigError(key, "engines keep this property themselves; it cannot be changed")
        if key.startswith("delta.") and key not in _KNOWN:
            raise ConfigError(key, f"no such table property{_near(key)}")
        alike = {known.lower(): known for known in _KNOWN}.get(key.lower(), key)
        if alike != key:
            raise ConfigError(key, f"no such table property (did you mean {alike!r}?)")


def _near(key: str) -> str:
    folded = {known.lower(): known for known in _KNOWN}
    near = get_close_matches(key.lower(), folded, n=1, cutoff=0.6)
    return f" (did you mean {folded[near[0]]!r}?)" if near else ""


def _text(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float | str):
        return str(value)
    raise ConfigError(key, f"a property is text, a number or a bool, not {type(value).__name__}")


def _check_value(key: str, text: str) -> None:
    wanted = _one_of("supported")(text) if key.startswith(_FEATURE) else None
    if key in _KNOWN:
        wanted = _KNOWN[key](text)
    if wanted is not None:
        raise ConfigError(key, f"must be {wanted}, not {text!r}")
