"""The Delta protocol in code: actions, features, properties and paths. No I/O."""

from __future__ import annotations

from lazydelta.protocol.action_batches import CommitBatch, OtherAction
from lazydelta.protocol.actions import ADD, CHANGE_COLUMNS, CHANGE_FILE, CommitInfo, DELETION_VECTOR, DomainMetadata, MalformedActionError, REMOVE, REMOVE_ACTION, SetTransaction, Sidecar, TableMetadata, TableProtocol, ZONE_MAP_TAG, clustering_columns
from lazydelta.protocol.data_paths import Location, PathResolver
from lazydelta.protocol.retention import Retention, RetentionCheck, TransactionRetention
from lazydelta.protocol.table_features import Compatibility, WRITER_FEATURES, allows_column_mapping, check_protocol, compatibility, supported_by_table, switched_on, unreadable_features, unwritable_features, why_unreadable, with_features
from lazydelta.protocol.table_properties import TableProperties

__all__ = [
    "ADD",
    "CHANGE_COLUMNS",
    "CHANGE_FILE",
    "CommitBatch",
    "CommitInfo",
    "Compatibility",
    "DELETION_VECTOR",
    "DomainMetadata",
    "Location",
    "MalformedActionError",
    "OtherAction",
    "PathResolver",
    "REMOVE",
    "REMOVE_ACTION",
    "Retention",
    "RetentionCheck",
    "SetTransaction",
    "Sidecar",
    "TableMetadata",
    "TableProperties",
    "TableProtocol",
    "TransactionRetention",
    "WRITER_FEATURES",
    "ZONE_MAP_TAG",
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
