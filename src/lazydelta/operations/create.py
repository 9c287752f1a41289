"""Create a table: derive protocol and metadata, and commit version 0.

`new_table` is pure; `create_table` commits its result. The protocol is the lowest that schema and
properties require, so that older engines can read the table.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Literal, get_args

from lazydelta.checkpoint import post_commit_hooks
from lazydelta.errors import (
    AlterationError,
    AppendOnlyError,
    ConfigError,
    TableExistsError,
    TableNotFoundError,
)
from lazydelta.operations.check_constraints import constraint_properties
from lazydelta.operations.clustering_columns import (
    check_columns,
    clustered_protocol,
    clustering_domain,
)
from lazydelta.operations.column_dependencies import check_statistics_columns
from lazydelta.operations.expression_checks import check_column_expressions
from lazydelta.operations.replace_where import replace_where
from lazydelta.protocol import TableMetadata
from lazydelta.schema import format_path, parse_schema, schema_to_json
from lazydelta.schema.mapping import assign_column_ids, without_column_ids
from lazydelta.snapshot import load_snapshot
from lazydelta.transaction import CommitResult, Transaction, commit
from lazydelta.writer.columns import (
    check_names,
    check_partition_columns,
    check_void_within,
    without_high_water_marks,
)
from lazydelta.writer.properties import (
    BASE_PROTOCOL,
    MAPPING_MODE,
    MAX_COLUMN_ID,
    RequestedProperties,
    required_features,
    row_tracking_columns,
    upgraded_protocol,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lazydelta.config import Config
    from lazydelta.protocol import TableProtocol
    from lazydelta.schema import StructType
    from lazydelta.snapshot import SnapshotState
    from lazydelta.store import Store

__all__ = ["CreateMode", "create_table", "new_table"]

CreateMode = Literal["error", "ignore", "replace"]


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
    """Return the protocol and metadata of a new table. Pure.

    Args:
        schema: Its columns; column ids, physical names and high-water marks of another table are
            dropped.
        partition_by: Names of the partition columns.
        properties: `delta.*` properties and the user's own. `delta.feature.X = supported` and
            `delta.minReaderVersion`/`delta.minWriterVersion` change the protocol instead.
        name: The table's display name.
        description: The table's description.
        constraints: CHECK constraints, SQL conditions by name.
        table: The table's URL, for errors.

    Raises:
        SchemaError: Invalid columns or partition columns.
        ConfigError: An unknown property or an invalid value.
        PredicateError: A constraint is not a condition on these columns.
        ColumnNotFoundError: A partition column or a column of a constraint does not exist.
        UnsupportedFeatureError: lazydelta cannot write a table with a required feature.
    """
    requested = RequestedProperties.parse(properties or {})
    configuration = dict(requested.configuration)
    schema = without_high_water_marks(without_column_ids(schema))
    is_mapped = configuration.get(MAPPING_MODE, "none") != "none"
    check_names(schema, configuration, mapped=is_mapped, table=table)
    check_void_within(schema, table)
    partition_columns = check_partition_columns(schema, partition_by, table=table)
    configuration |= constraint_properties(constraints or {}, schema)
    check_statistics_columns(schema, configuration)
    check_column_expressions(schema, table)
    configuration |= row_tracking_columns(configuration)
    if is_mapped:
        schema, last_id = assign_column_ids(schema, last_id=0, keep_names=False)
        configuration[MAX_COLUMN_ID] = str(last_id)
    required = required_features(schema, configuration)
    metadata = TableMetadata(
        id=str(uuid.uuid4()),
        name=name,
        description=description,
        schema_string=schema_to_json(schema),
        partition_columns=partition_columns,
        configuration=configuration,
        created_time=time.time_ns() // 1_000_000,
    )
    return upgraded_protocol(BASE_PROTOCOL, required, requested=requested, table=table), metadata


def create_table(
    store: Store,
    config: Config,
    schema: StructType,
    *,
    mode: CreateMode = "error",
    partition_by: Sequence[str] = (),
    cluster_by: Sequence[str] = (),
    properties: Mapping[str, Any] | None = None,
    name: str | None = None,
    description: str | None = None,
    constraints: Mapping[str, str] | None = None,
) -> CommitResult | None:
    """Commit version 0 of an empty table; None if the table exists and `mode` is "ignore".

    Of two concurrent creations one wins. With the mode "replace" an existing table loses its rows,
    columns and properties in one commit; older versions stay readable, and its protocol keeps the
    features that it has.

    Raises:
        TableExistsError: The table exists, and `mode` is "error".
        AlterationError: The table exists with other columns, and `mode` is "ignore".
        AppendOnlyError: The table is append-only, and `mode` is "replace".
    """
    _check_mode(mode)
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
        creation, hooks = _creation(protocol, metadata, cluster_by), post_commit_hooks(config)
        try:
            return commit(creation, store=store, config=config, base=None, hooks=hooks)
        except TableExistsError:
            if mode == "error":
                raise TableExistsError(store.root, "create") from None
            existing = load_snapshot(store, config, version=None)
    if mode == "error":
        raise TableExistsError(store.root, "create")
    if mode == "replace":
        declared = RequestedProperties.parse(properties or {})
        return _replace(existing, config, _replacement(existing, metadata, cluster_by, declared))
    _check_same(existing, schema, metadata)
    return None


def _replace(base: SnapshotState, config: Config, replacement: Transaction) -> CommitResult:
    hooks = post_commit_hooks(config)
    return commit(replacement, store=base.store, config=config, base=base, hooks=hooks)


def _check_mode(mode: str) -> None:
    if mode not in get_args(CreateMode):
        raise ConfigError("mode", f"must be one of {', '.join(get_args(CreateMode))}, not {mode!r}")


def _existing(store: Store, config: Config) -> SnapshotState | None:
    try:
        return load_snapshot(store, config, version=None)
    except TableNotFoundError:
        return None


def _creation(
    protocol: TableProtocol, metadata: TableMetadata, cluster_by: Sequence[str]
) -> Transaction:
    creation = Transaction(
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
    if not cluster_by:
        return creation
    if metadata.partition_columns:
        raise ConfigError("cluster_by", "a table is partitioned or clustered, not both")
    schema = parse_schema(metadata.schema_string, where="the new table")
    paths = check_columns(schema, (), cluster_by, setting="cluster_by")
    domain = clustering_domain(schema, paths, metadata.configuration.get(MAPPING_MODE, "none"))
    return replace(
        creation,
        parameters={**creation.parameters, "clusterBy": list(map(format_path, paths))},
        protocol=clustered_protocol(protocol),
        domains=(domain,),
    )


def _replacement(
    existing: SnapshotState,
    metadata: TableMetadata,
    cluster_by: Sequence[str],
    requested: RequestedProperties,
) -> Transaction:
    """Return the transaction that replaces a table by an empty one."""
    if existing.properties.append_only:
        raise AppendOnlyError(existing.store.root, "REPLACE TABLE")
    schema = parse_schema(metadata.schema_string, where=existing.store.root)
    required = required_features(schema, metadata.configuration)
    protocol = upgraded_protocol(
        existing.protocol, required, requested=requested, table=existing.store.root
    )
    creation = _creation(protocol, metadata, cluster_by)
    domains = creation.domains
    if not cluster_by and existing.clustering_columns():
        domains = (clustering_domain(schema, (), "none"),)
    old = replace_where(existing, None)
    return replace(
        creation,
        operation="REPLACE TABLE",
        removes=old.removes,
        reads=old.reads,
        domains=domains,
        protocol=None if creation.protocol == existing.protocol else creation.protocol,
    )


def _check_same(existing: SnapshotState, schema: StructType, metadata: TableMetadata) -> None:
    """Refuse an existing table whose columns or partition columns differ from those requested."""
    actual, requested = without_column_ids(existing.schema), without_column_ids(schema)
    differences = [
        f"requested {left}, existing {right}"
        for left, right in zip_longest(map(str, requested), map(str, actual), fillvalue="nothing")
        if left != right
    ]
    if existing.partition_columns != metadata.partition_columns:
        left, right = (
            ", ".join(names) or "nothing"
            for names in (metadata.partition_columns, existing.partition_columns)
        )
        differences.append(f"requested partitioned by {left}, existing by {right}")
    if differences:
        raise AlterationError(
            existing.store.root,
            "create this table",
            f"a different table exists ({'; '.join(differences)})",
            "Open that one, or use another URL",
        )
