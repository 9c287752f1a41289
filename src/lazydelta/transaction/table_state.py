"""Table state of a transaction: protocol, metadata and counters at the version it commits after.

Rebased by one version for each winning commit. The transaction itself never changes, so it is
prepared anew for every version it is attempted at.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Self

import orjson

from lazydelta.protocol import MalformedActionError, TableMetadata, TableProperties, TableProtocol
from lazydelta.protocol.features import allows_column_mapping, supported_features
from lazydelta.protocol.paths import PathResolver
from lazydelta.schema import StructType, parse_schema

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lazydelta.protocol import DomainMetadata
    from lazydelta.snapshot import SnapshotState
    from lazydelta.transaction.transaction import Isolation, Transaction

__all__ = [
    "NO_ROW_IDS",
    "ROW_TRACKING_DOMAIN",
    "EffectiveIsolation",
    "TableState",
    "effective_isolation",
    "row_id_high_water_mark",
]

EffectiveIsolation = Literal["Serializable", "WriteSerializable", "SnapshotIsolation"]

ROW_TRACKING_DOMAIN = "delta.rowTracking"
NO_ROW_IDS = -1
"""The high-water mark of a table without row ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """State of a table at one version, without its files.

    Version -1 is a table that does not exist yet. It has the protocol and metadata of the
    transaction that creates it.
    """

    table: str
    version: int
    protocol: TableProtocol
    metadata: TableMetadata
    schema: StructType
    properties: TableProperties
    resolver: PathResolver
    timestamp_ms: int | None = None
    """When the version was committed; an in-commit timestamp after it must be greater."""
    row_id_high_water_mark: int = NO_ROW_IDS

    @classmethod
    def of_snapshot(cls, snapshot: SnapshotState, table: str) -> Self:
        """Return the state of a snapshot, without timestamp and row ids."""
        return cls(
            table=table,
            version=snapshot.version,
            protocol=snapshot.protocol,
            metadata=snapshot.metadata,
            schema=snapshot.schema,
            properties=snapshot.properties,
            resolver=snapshot.resolver,
        )

    @classmethod
    def of_new_table(cls, table: str, protocol: TableProtocol, metadata: TableMetadata) -> Self:
        """Return the state before the first version of a table."""
        return cls(
            table=table,
            version=-1,
            protocol=protocol,
            metadata=metadata,
            schema=parse_schema(metadata.schema_string, where=table),
            properties=TableProperties.parse(metadata.configuration),
            resolver=PathResolver(table),
        )

    def applied_to(self, snapshot: SnapshotState) -> SnapshotState:
        """Return a snapshot with the protocol and metadata of this state."""
        return replace(
            snapshot,
            protocol=self.protocol,
            metadata=self.metadata,
            schema=self.schema,
            properties=self.properties,
        )

    def supports(self, feature: str) -> bool:
        """Whether the protocol supports a table feature."""
        return feature in supported_features(self.protocol)

    @property
    def assigns_row_ids(self) -> bool:
        """Whether new rows get ids: where row tracking is supported and not suspended."""
        is_suspended = self.properties.row_tracking_suspended and not self.properties.row_tracking
        return self.supports("rowTracking") and not is_suspended

    @property
    def mapping_mode(self) -> str:
        """The column mapping mode in force."""
        supported = allows_column_mapping(self.protocol)
        return self.properties.column_mapping_mode if supported else "none"

    @property
    def in_commit_timestamps(self) -> bool:
        """Whether commits have an in-commit timestamp."""
        return self.properties.in_commit_timestamps and self.supports("inCommitTimestamp")

    def with_actions(
        self, protocol: TableProtocol | None, metadata: TableMetadata | None
    ) -> TableState:
        """Return the state with the protocol and metadata actions of a commit, if it has any."""
        state = self
        if protocol is not None:
            state = replace(state, protocol=protocol)
        if metadata is not None and metadata is not self.metadata:
            state = replace(
                state,
                metadata=metadata,
                schema=parse_schema(metadata.schema_string, where=self.table),
                properties=TableProperties.parse(metadata.configuration),
            )
        return state


def effective_isolation(transaction: Transaction, state: TableState) -> EffectiveIsolation:
    """Return the isolation level that conflicts are checked at.

    A transaction that only rearranges files, and has no other action, is invisible to readers, so
    only the files it touches matter. This depends on its own actions, never on a winning commit.
    """
    table_level: Isolation = (
        "WriteSerializable" if state.properties.write_serializable else "Serializable"
    )
    level = transaction.isolation or table_level
    rearranges_only = transaction.has_files and not transaction.changes_rows
    if level == "WriteSerializable":
        rearranges_only = rearranges_only and not transaction.data_change
    return "SnapshotIsolation" if rearranges_only and transaction.has_only_files else level


def row_id_high_water_mark(domains: Iterable[DomainMetadata]) -> int:
    """Return the highest assigned row id that metadata domains state.

    Raises:
        MalformedActionError: The domain of row tracking lacks it.
    """
    for domain in domains:
        if domain.domain == ROW_TRACKING_DOMAIN and not domain.removed:
            try:
                return int(orjson.loads(domain.configuration)["rowIdHighWaterMark"])
            except (orjson.JSONDecodeError, LookupError, TypeError, ValueError):
                shown = domain.configuration[:80]
                raise MalformedActionError(f"{ROW_TRACKING_DOMAIN} has {shown!r}") from None
    return NO_ROW_IDS
