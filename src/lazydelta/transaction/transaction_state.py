"""What a transaction stands on: the table as of the version it is to follow.

Pure facts. A winner of the race moves the standing on by one version (`conflicts.check`); the
transaction itself never changes, so it can be prepared afresh for each version it is tried at.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import orjson

from lazydelta.protocol import (
    MalformedActionError,
    PathResolver,
    TableMetadata,
    TableProperties,
    TableProtocol,
    allows_column_mapping,
    supported_by_table,
)
from lazydelta.schema import StructType, parse_schema

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lazydelta.protocol import DomainMetadata
    from lazydelta.transaction.transaction import Isolation, Transaction

__all__ = [
    "NO_ROW_IDS",
    "ROW_TRACKING_DOMAIN",
    "EffectiveIsolation",
    "Standing",
    "isolation_of",
    "row_id_mark",
]

EffectiveIsolation = Literal["Serializable", "WriteSerializable", "SnapshotIsolation"]

ROW_TRACKING_DOMAIN = "delta.rowTracking"
NO_ROW_IDS = -1
"""The high-water mark of a table that never gave an id to a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The state of a table that the next version is built on.

    `version` is -1 where there is no table yet; protocol and metadata are then those to come.
    """

    table: str
    version: int
    protocol: TableProtocol
    metadata: TableMetadata
    schema: StructType
    properties: TableProperties
    resolver: PathResolver
    timestamp_ms: int | None = None
    """When `version` was committed, where the next commit must be later than that."""
    row_id_mark: int = NO_ROW_IDS
    """The highest row id given so far."""

    def supports(self, feature: str) -> bool:
        """Whether the table's protocol allows a feature."""
        return feature in supported_by_table(self.protocol)

    @property
    def gives_row_ids(self) -> bool:
        """Whether rows get ids: where they can, unless that was suspended to end it altogether."""
        is_suspended = self.properties.row_tracking_suspended and not self.properties.row_tracking
        return self.supports("rowTracking") and not is_suspended

    @property
    def mapping_mode(self) -> str:
        """The column mapping in force."""
        allowed = allows_column_mapping(self.protocol)
        return self.properties.column_mapping_mode if allowed else "none"

    @property
    def in_commit_timestamps(self) -> bool:
        """Whether commits carry their own time."""
        return self.properties.in_commit_timestamps and self.supports("inCommitTimestamp")

    def with_actions(
        self, protocol: TableProtocol | None, metadata: TableMetadata | None
    ) -> Standing:
        """Return the standing with the protocol and metadata of a commit, where it has any."""
        standing = self
        if protocol is not None:
            standing = replace(standing, protocol=protocol)
        if metadata is not None:
            standing = replace(
                standing,
                metadata=metadata,
                schema=parse_schema(metadata.schema_string, where=self.table),
                properties=TableProperties.parse(metadata.configuration),
            )
        return standing


def isolation_of(transaction: Transaction, standing: Standing) -> EffectiveIsolation:
    """Return the isolation that a transaction is judged by.

    One that only moves rows about, and says nothing else, cannot be seen by any reader: it is
    judged by the files it touches alone. That is decided from its own actions, never a winner's.
    """
    table_wide: Isolation = (
        "WriteSerializable" if standing.properties.write_serializable else "Serializable"
    )
    level = transaction.isolation or table_wide
    moves_only = transaction.has_files and not transaction.changes_rows
    if level == "WriteSerializable":
        moves_only = moves_only and not transaction.data_change
    return "SnapshotIsolation" if moves_only and transaction.has_only_files else level


def row_id_mark(domains: Iterable[DomainMetadata]) -> int:
    """Return the highest row id that the domains of a table or a commit speak of.

    Raises:
        MalformedActionError: The domain of row tracking does not say it.
    """
    for domain in domains:
        if domain.domain == ROW_TRACKING_DOMAIN and not domain.removed:
            try:
                return int(orjson.loads(domain.configuration)["rowIdHighWaterMark"])
            except (orjson.JSONDecodeError, LookupError, TypeError, ValueError):
                text = domain.configuration[:80]
                raise MalformedActionError(f"{ROW_TRACKING_DOMAIN} has {text!r}") from None
    return NO_ROW_IDS
