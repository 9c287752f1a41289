"""A new table: its protocol and metadata from a schema and wishes, and the commit of version 0.

`new_table` decides and is pure; `create_table` commits what it decided. The protocol is the
lowest that the schema and the properties need, so that the oldest engines can read the table.
"""

from __future__ import annotations

import time
import uuid
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Literal, get_args

from lazydelta.checkpoint import post_commit_hooks
from lazydelta.errors import AlterationError, ConfigError, TableExistsError, TableNotFoundError
from lazydelta.operations.check_constraints import constraint_properties
from lazydelta.operations.column_dependencies import check_statistics_columns
from lazydelta.operations.expression_checks import check_expressions
from lazydelta.protocol import TableMetadata
from lazydelta.schema import schema_to_json
from lazydelta.schema.mapping import assign_column_ids, without_column_ids
from lazydelta.snapshot import load_snapshot
from lazydelta.transaction import CommitResult, Transaction, commit
from lazydelta.writer import (
    FIRST_PROTOCOL,
    MAPPING_MODE,
    MAX_COLUMN_ID,
    RequestedProperties,
    check_names,
    check_partition_columns,
    needed_features,
    needed_protocol,
    refuse_void_within,
    row_tracking_columns,
    without_high_water_marks,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lazydelta.config import Config
    from lazydelta.protocol import TableProtocol
    from lazydelta.schema import StructType
    from lazydelta.snapshot import SnapshotState
    from lazydelta.store import Store

__all__ = ["CreateMode", "create_table", "new_table"]

CreateMode = Literal["error", "ignore"]


def new_table(
    schema: StructType,
    *,
    partition_by: Sequence[str] = (),
    properties: Mapping[str, Any] | None = None,
    name: str | None = None,
    description: str | None = None,
    constraints: Mapping[str, str] | None = None,
    table: str = "the new table",
) -> tuple[TableProtocol, TableMetadata]:
    """Return the first protocol and metadata of a table; nothing is read or written.

    Args:
        schema: Its columns; ids, physical names and marks of another table are dropped.
        partition_by: Names of the columns to partition by.
        properties: `delta.*` properties and the user's own. `delta.feature.X = supported` and
            `delta.minReaderVersion`/`delta.minWriterVersion` change the protocol instead.
        name: A name for people.
        description: A text for people.
        constraints: CHECK constraints, expressions by name.
        table: Its address; named in errors.

    Raises:
        SchemaError: Columns or partitioning that no table can have.
        ConfigError: A property that does not exist or does not take this value.
        PredicateError: A constraint that is not a condition on these columns.
        ColumnNotFoundError: A partition column or a constraint names a column that is not there.
        UnsupportedFeatureError: What was asked for cannot be written by lazydelta.
    """
    asked = RequestedProperties.parse(properties or {})
    configuration = dict(asked.configuration)
    schema = without_high_water_marks(without_column_ids(schema))
    is_mapped = configuration.get(MAPPING_MODE, "none") != "none"
    check_names(schema, configuration, mapped=is_mapped, table=table)
    refuse_void_within(schema, table)
    partition_columns = check_partition_columns(schema, partition_by, table=table)
    configuration |= constraint_properties(constraints or {}, schema)
    check_statistics_columns(schema, configuration)
    check_expressions(schema, table)
    configuration |= row_tracking_columns(configuration)
    if is_mapped:
        schema, last_id = assign_column_ids(schema, last_id=0, keep_names=False)
        configuration[MAX_COLUMN_ID] = str(last_id)
    needed = needed_features(schema, configuration)
    metadata = TableMetadata(
        id=str(uuid.uuid4()),
        name=name,
        description=description,
        schema_string=schema_to_json(schema),
        partition_columns=partition_columns,
        configuration=configuration,
        created_time=time.time_ns() // 1_000_000,
    )
    return needed_protocol(FIRST_PROTOCOL, needed, asked=asked, table=table), metadata


def create_table(
    store: Store,
    config: Config,
    schema: StructType,
    *,
    mode: CreateMode = "error",
    partition_by: Sequence[str] = (),
    properties: Mapping[str, Any] | None = None,
    name: str | None = None,
    description: str | None = None,
    constraints: Mapping[str, str] | None = None,
) -> CommitResult | None:
    """Commit version 0 of a table without rows; None if it was there and `mode` is "ignore".

    Of two that create one table at the same time, one wins.

    Raises:
        TableExistsError: There is a table, and `mode` is "error".
        AlterationError: There is a table with other columns, and `mode` is "ignore".
    """
    if mode not in get_args(CreateMode):
        raise ConfigError("mode", f"must be one of {', '.join(get_args(CreateMode))}, not {mode!r}")
    protocol, metadata = new_table(
        schema,
        partition_by=partition_by,
        properties=properties,
        name=name,
        description=description,
        constraints=constraints,
        table=store.root,
    )
    existing = _existing(store, config)
    if existing is None:
        creation, hooks = _creation(protocol, metadata), post_commit_hooks(config)
        try:
            return commit(creation, store=store, config=config, base=None, hooks=hooks)
        except TableExistsError:
            if mode == "error":
                raise TableExistsError(store.root, "create") from None
            existing = load_snapshot(store, config, version=None)
    if mode == "error":
        raise TableExistsError(store.root, "create")
    _check_same(existing, schema, metadata)
    return None


def _existing(store: Store, config: Config) -> SnapshotState | None:
    try:
        return load_snapshot(store, config, version=None)
    except TableNotFoundError:
        return None


def _creation(protocol: TableProtocol, metadata: TableMetadata) -> Transaction:
    return Transaction(
        operation="CREATE TABLE",
        parameters={
            "isManaged": "false",
            "description": metadata.description,
            "partitionBy": list(metadata.partition_columns),
            "properties": dict(metadata.configuration),
        },
        protocol=protocol,
        metadata=metadata,
    )


def _check_same(found: SnapshotState, schema: StructType, metadata: TableMetadata) -> None:
    """Refuse to leave a table as it is that is not the one that was asked for."""
    bare, wanted = without_column_ids(found.schema), without_column_ids(schema)
    differences = [
        f"wanted {asked}, found {has}"
        for asked, has in zip_longest(map(str, wanted), map(str, bare), fillvalue="nothing")
        if asked != has
    ]
    if found.partition_columns != metadata.partition_columns:
        shown = [
            ", ".join(names) or "nothing"
            for names in (metadata.partition_columns, found.partition_columns)
        ]
        differences.append(f"wanted partitioned by {shown[0]}, found by {shown[1]}")
    if differences:
        raise AlterationError(
            found.store.root,
            "create this table",
            f"there is another one ({'; '.join(differences)})",
            "Open that one, or choose another place",
        )
