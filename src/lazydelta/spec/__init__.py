"""The Delta protocol in code: actions, features, properties and paths. No I/O."""

from __future__ import annotations

from lazydelta.spec.actions import (
    ADD,
    DELETION_VECTOR,
    REMOVE,
    CommitInfo,
    DomainMetadata,
    MalformedActionError,
    SetTransaction,
    Sidecar,
    TableMetadata,
    TableProtocol,
)
from lazydelta.spec.batches import CommitBatch, OtherAction
from lazydelta.spec.features import (
    Compatibility,
    allows_column_mapping,
    check_protocol,
    compatibility,
    unreadable_features,
    why_unreadable,
)
from lazydelta.spec.paths import Location, PathResolver
from lazydelta.spec.properties import TableProperties
from lazydelta.spec.retention import Retention, RetentionCheck

__all__ = [
    "ADD",
    "DELETION_VECTOR",
    "REMOVE",
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
    "allows_column_mapping",
    "check_protocol",
    "compatibility",
    "unreadable_features",
    "why_unreadable",
]
