"""A table's protocol, metadata and schema on their way to the next version. Pure.

Each change gives a new draft, and whatever a change drags along is done here: columns get their
ids under column mapping, and the protocol comes to allow what the schema and the properties need.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lazydelta.errors import AlterationError
from lazydelta.protocol import TableProperties
from lazydelta.protocol.features import allows_column_mapping
from lazydelta.schema import StructType, schema_to_json
from lazydelta.schema.mapping import assign_column_ids, to_physical
from lazydelta.writer import (
    MAPPING_MODE,
    MAX_COLUMN_ID,
    RequestedProperties,
    TableDefinition,
    check_names,
    needed_features,
    needed_protocol,
    row_tracking_columns,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lazydelta.protocol import TableMetadata
    from lazydelta.snapshot import SnapshotState

__all__ = ["Draft"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft(TableDefinition):
    """What a table will say of itself."""

    @classmethod
    def of(cls, snapshot: SnapshotState) -> Draft:
        """Begin with what a version says.

        Raises:
            AlterationError: It has a column mapping mode that its protocol does not allow, and
                that any change of the protocol might bring into force.
        """
        draft = cls(
            table=snapshot.store.root,
            protocol=snapshot.protocol,
            metadata=snapshot.metadata,
            schema=snapshot.schema,
        )
        if draft.mapping_mode != TableProperties.parse(draft.configuration).column_mapping_mode:
            reason = f"{MAPPING_MODE} is set, and the protocol does not allow column mapping"
            raise draft.refuse("alter anything", reason, "Have its owner remove the property")
        return draft

    @property
    def configuration(self) -> Mapping[str, str]:
        """The properties."""
        return self.metadata.configuration

    @property
    def mapping_mode(self) -> str:
        """The column mapping mode in force."""
        mode = TableProperties.parse(self.configuration).column_mapping_mode
        return mode if allows_column_mapping(self.protocol) else "none"

    def refuse(self, change: str, reason: str, cure: str = "") -> AlterationError:
        """Return the error for a change that this table does not allow."""
        return AlterationError(self.table, change, reason, cure)

    def with_schema(self, schema: StructType) -> Draft:
        """Return the draft with other columns; new ones get their ids and physical names."""
        if self.mapping_mode == "none":
            return self._with_columns(schema)
        to_physical(self.schema, self.mapping_mode)  # a damaged schema must not get new names
        return self._with_ids(schema, keep_names=False)

    def with_column_mapping(self, mode: str) -> Draft:
        """Return the draft with column mapping on: files keep the names that they have."""
        named = self._with_ids(self.schema, keep_names=True)
        return named.with_configuration({**named.configuration, MAPPING_MODE: mode})

    def with_configuration(self, configuration: Mapping[str, str]) -> Draft:
        """Return the draft with other properties."""
        return replace(self, metadata=replace(self.metadata, configuration=dict(configuration)))

    def with_metadata(self, metadata: TableMetadata) -> Draft:
        """Return the draft with other metadata of the same schema."""
        return replace(self, metadata=metadata)

    def finished(self, asked: RequestedProperties | None = None) -> Draft:
        """Return the draft with the protocol that it needs, once all changes are made.

        Raises:
            SchemaError: Names that the table cannot have.
            UnsupportedFeatureError: lazydelta could not write the table then.
        """
        asked = RequestedProperties(configuration={}) if asked is None else asked
        configuration = {**self.configuration, **row_tracking_columns(self.configuration)}
        check_names(
            self.schema,
            configuration,
            mapped=TableProperties.parse(configuration).column_mapping_mode != "none",
            table=self.table,
        )
        needed = needed_features(self.schema, configuration)
        protocol = needed_protocol(self.protocol, needed, asked=asked, table=self.table)
        return replace(self.with_configuration(configuration), protocol=protocol)

    def _with_ids(self, schema: StructType, *, keep_names: bool) -> Draft:
        known = self.configuration.get(MAX_COLUMN_ID, "0")
        if not known.isdecimal():
            raise self.refuse("give ids to columns", f"{MAX_COLUMN_ID} is {known!r}")
        last_id = int(known)
        schema, last_id = assign_column_ids(schema, last_id=last_id, keep_names=keep_names)
        mapped = self._with_columns(schema)
        return mapped.with_configuration({**self.configuration, MAX_COLUMN_ID: str(last_id)})

    def _with_columns(self, schema: StructType) -> Draft:
        metadata = replace(self.metadata, schema_string=schema_to_json(schema))
        return replace(self, schema=schema, metadata=metadata)
