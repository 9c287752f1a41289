"""The Delta protocol in code: actions, features, properties and paths. No I/O."""

from __future__ import annotations

from lazydelta.protocol.action_batches import CommitBatch, OtherAction
from lazydelta.protocol.actions import (
    ADD,
    CHANGE_COLUMNS,
    CHANGE_FILE,
    DELETION_VECTOR,
    REMOVE,
    REMOVE_ACTION,
    ZONE_MAP_TAG,
    CommitInfo,
    DomainMetadata,
    MalformedActionError,
    SetTransaction,
    Sidecar,
    TableMetadata,
    TableProtocol,
    clustering_columns,
)
from lazydelta.protocol.data_paths import Location, PathResolver
from lazydelta.protocol.retention import Retention, RetentionCheck, TransactionRetention
from lazydelta.protocol.table_features import (
    WRITER_FEATURES,
    Compatibility,
    allows_column_mapping,
    check_protocol,
    compatibility,
    supported_by_table,
    switched_on,
    unreadable_features,
    unwritable_features,
    why_unreadable,
    with_features,
)
from lazydelta.protocol.table_properties import TableProperties

__all__ = [
    "ADD",
    "CHANGE_COLUMNS",
    "CHANGE_FILE",
    "DELETION_VECTOR",
    "REMOVE",
    "REMOVE_ACTION",
    "WRITER_FEATURES",
    "ZONE_MAP_TAG",
    "CommitBatch",
    "CommitInfo",
    "Compatibility",
    "DomainMetadata",
    "Location",
    "MalformedActionError",
    "OtherAction",
    "PathResolver",
    "Retention",
    "RetentionCheck",
    "SetTransaction",
    "Sidecar",
    "TableMetadata",
    "TableProperties",
    "TableProtocol",
    "TransactionRetention",
    "allows_column_mapping",
    "check_protocol",
    "clustering_columns",
    "compatibility",
    "supported_by_table",
    "switched_on",
    "unreadable_features",
    "unwritable_features",
    "why_unreadable",
    "with_features",
]
