"""Table features: which ones a table supports and uses, and which ones this engine supports."""

from __future__ import annotations

from lazydelta.protocol.features.table_features import (
    WRITER_FEATURES,
    Compatibility,
    allows_column_mapping,
    check_protocol,
    compatibility,
    enabled_features,
    supported_features,
    unreadable_features,
    unsupported_error,
    unwritable_features,
    with_features,
)

__all__ = [
    "WRITER_FEATURES",
    "Compatibility",
    "allows_column_mapping",
    "check_protocol",
    "compatibility",
    "enabled_features",
    "supported_features",
    "unreadable_features",
    "unsupported_error",
    "unwritable_features",
    "with_features",
]
