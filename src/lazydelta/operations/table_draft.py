"""Draft of a table's next protocol, metadata and schema. Pure.

Each change returns a new draft, with its consequences: new columns get ids under column mapping,
and the protocol is upgraded to what schema and properties require.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lazydelta.errors import AlterationError
from lazydelta.protocol import TableProperties
from lazydelta.protocol.features import allows_column_mapping
from lazydelta.schema import StructType, schema_to_json
from lazydelta.schema.mapping import assign_column_ids, to_physical
from lazydelta.writer.columns import TableDefinition, check_names
from lazydelta.writer.properties import (
    MAPPING_MODE,
    MAX_COLUMN_ID,
    RequestedProperties,
    required_features,
    row_tracking_columns,
    upgraded_protocol,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lazydelta.protocol import TableMetadata
    from lazydelta.snapshot import SnapshotState

__all__ = ["TableDraft"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDraft(TableDefinition):
    """Protocol, metadata and schema of the version to commit."""

    @classmethod
    def of(cls, snapshot: SnapshotState) -> TableDraft:
        """Return the draft of an unchanged version.

        Raises:
            AlterationError: The table sets a column mapping mode that its protocol does not
                support; a protocol upgrade would activate it.
        """
        draft = cls(
            table=snapshot.store.root,
            protocol=snapshot.protocol,
            metadata=snapshot.metadata,
            schema=snapshot.schema,
        )
        if draft.mapping_mode != TableProperties.parse(draft.configuration).column_mapping_mode:
            reason = f"{MAPPING_MODE} is set, and the protocol does not support column mapping"
            raise draft.refuse("alter the table", reason, "Have its owner remove the property")
        return draft

    @property
    def configuration(self) -> Mapping[str, str]:
        """Table properties."""
        return self.metadata.configuration

    @property
    def mapping_mode(self) -> str:
        """The effective column mapping mode."""
        mode = TableProperties.parse(self.configuration).column_mapping_mode
        return mode if allows_column_mapping(self.protocol) else "none"

    def refuse(self, change: str, reason: str, cure: str = "") -> AlterationError:
        """Return the error for a change that this table does not allow."""
        return AlterationError(self.table, change, reason, cure)

    def with_schema(self, schema: StructType) -> TableDraft:
        """Return the draft with another schema; new columns get ids and physical names."""
        if self.mapping_mode == "none":
            return self._with_columns(schema)
        to_physical(self.schema, self.mapping_mode)  # raises if the existing mapping is invalid
        return self._with_ids(schema, keep_names=False)

    def with_column_mapping(self, mode: str) -> TableDraft:
        """Return the draft with column mapping enabled; physical names are the current names."""
        named = self._with_ids(self.schema, keep_names=True)
        return named.with_configuration({**named.configuration, MAPPING_MODE: mode})

    def with_configuration(self, configuration: Mapping[str, str]) -> TableDraft:
        """Return the draft with other properties."""
        return replace(self, metadata=replace(self.metadata, configuration=dict(configuration)))

    def with_metadata(self, metadata: TableMetadata) -> TableDraft:
        """Return the draft with other metadata and the same schema."""
        return replace(self, metadata=metadata)

    def finished(self, requested: RequestedProperties | None = None) -> TableDraft:
        """Return the draft with the required protocol; call it after all changes.

        Raises:
            SchemaError: Invalid column names.
            UnsupportedFeatureError: lazydelta cannot write a table with a required feature.
        """
        requested = RequestedProperties(configuration={}) if requested is None else requested
        configuration = {**self.configuration, **row_tracking_columns(self.configuration)}
        check_names(
            self.schema,
            configuration,
            mapped=TableProperties.parse(configuration).column_mapping_mode != "none",
            table=self.table,
        )
        required = required_features(self.schema, configuration)
        protocol = upgraded_protocol(self.protocol, required, requested=requested, table=self.table)
        return replace(self.with_configuration(configuration), protocol=protocol)

    def _with_ids(self, schema: StructType, *, keep_names: bool) -> TableDraft:
        max_id = self.configuration.get(MAX_COLUMN_ID, "0")
        if not max_id.isdecimal():
            raise self.refuse("assign column ids", f"{MAX_COLUMN_ID} is {max_id!r}")
        schema, last_id = assign_column_ids(schema, last_id=int(max_id), keep_names=keep_names)
        mapped = self._with_columns(schema)
        return mapped.with_configuration({**self.configuration, MAX_COLUMN_ID: str(last_id)})

    def _with_columns(self, schema: StructType) -> TableDraft:
        metadata = replace(self.metadata, schema_string=schema_to_json(schema))
        return replace(self, schema=schema, metadata=metadata)
