"""The Delta protocol: actions, table properties and retention. No I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta._lazy import lazy_exports

if TYPE_CHECKING:
    from lazydelta.protocol.action_batches import CommitBatch, OtherAction
    from lazydelta.protocol.actions import (
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
    from lazydelta.protocol.retention import (
        Retention,
        RetentionCheck,
        TransactionRetention,
        parse_interval,
    )
    from lazydelta.protocol.table_properties import TableProperties

__all__ = [
    "ZONE_MAP_TAG",
    "CommitBatch",
    "CommitInfo",
    "DomainMetadata",
    "MalformedActionError",
    "OtherAction",
    "Retention",
    "RetentionCheck",
    "SetTransaction",
    "Sidecar",
    "TableMetadata",
    "TableProperties",
    "TableProtocol",
    "TransactionRetention",
    "clustering_columns",
    "parse_interval",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "action_batches": ("CommitBatch", "OtherAction"),
        "actions": (
            "ZONE_MAP_TAG",
            "CommitInfo",
            "DomainMetadata",
            "MalformedActionError",
            "SetTransaction",
            "Sidecar",
            "TableMetadata",
            "TableProtocol",
            "clustering_columns",
        ),
        "retention": ("Retention", "RetentionCheck", "TransactionRetention", "parse_interval"),
        "table_properties": ("TableProperties",),
    },
)
