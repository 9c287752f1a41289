"""Table properties that a user sets, and the protocol that they require."""

from __future__ import annotations

from lazydelta.writer.properties.property_validation import (
    CHANGE_FEED,
    CONSTRAINT_PREFIX,
    ENGINE_MANAGED,
    MAPPING_MODE,
    MAX_COLUMN_ID,
    ROW_TRACKING,
    RequestedProperties,
    check_property_keys,
    is_enabled,
    row_tracking_columns,
)
from lazydelta.writer.properties.required_protocol import (
    BASE_PROTOCOL,
    required_features,
    upgraded_protocol,
)

__all__ = [
    "BASE_PROTOCOL",
    "CHANGE_FEED",
    "CONSTRAINT_PREFIX",
    "ENGINE_MANAGED",
    "MAPPING_MODE",
    "MAX_COLUMN_ID",
    "ROW_TRACKING",
    "RequestedProperties",
    "check_property_keys",
    "is_enabled",
    "required_features",
    "row_tracking_columns",
    "upgraded_protocol",
]
