"""`table.alter`: changes of columns, properties, constraints and protocol, one commit each.

Each verb loads the latest version, drafts the next one with `operations.alter_steps`, validates
existing rows where the change depends on them, and commits. A change without effect commits
nothing. A concurrent metadata change is a typed conflict, never a silent merge.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import orjson

from lazydelta.checkpoint import post_commit_hooks
from lazydelta.errors import ColumnNotFoundError, ConfigError
from lazydelta.expressions.nodes import And, Column, IsNull, Not
from lazydelta.operations import alter_steps
from lazydelta.operations.check_constraints import parse_constraint
from lazydelta.operations.clustering_columns import (
    check_columns,
    clustered_protocol,
    clustering_domain,
    logical_paths,
)
from lazydelta.operations.column_declarations import as_path, fields_with_paths
from lazydelta.operations.existing_rows import (
    check_all_files_tracked,
    check_constraint_holds,
    check_no_match,
)
from lazydelta.operations.schema_edits import enclosing_field, find_field
from lazydelta.operations.table_draft import TableDraft
from lazydelta.schema import StructType, format_path, schema_to_json
from lazydelta.schema.mapping import physical_path
from lazydelta.snapshot import load_snapshot
from lazydelta.transaction import Reads, Transaction, commit
from lazydelta.writer.properties import ROW_TRACKING, is_enabled

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lazydelta.config import Config
    from lazydelta.operations.column_declarations import Columns
    from lazydelta.protocol import DomainMetadata
    from lazydelta.schema import DataType, StructField
    from lazydelta.snapshot import SnapshotState
    from lazydelta.store import Store

__all__ = ["Alter", "AlterResult"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterResult:
    """Result of an alteration."""

    operation: str
    version: int
    """The latest version, which has the change."""
    changed: bool
    """False if the change had no effect, and nothing was committed."""
    warnings: tuple[str, ...] = ()


class Alter:
    """Changes of a table's columns, properties, constraints and protocol."""

    def __init__(self, store: Store, config: Config) -> None:
        self._store = store
        self._config = config

    def add_columns(
        self, columns: Columns, *, after: str | None = None, first: bool = False
    ) -> AlterResult:
        """Add columns; existing rows have null in them.

        Args:
            columns: SQL (`"a int, b string"`), a schema, a list of fields, or a mapping of paths
                to types, in which `trip.stops.element.name` reaches into structs, lists and maps.
            after: Insert them after this column of their struct; by default they are last.
            first: Insert them first.

        Raises:
            AlterationError: A column is NOT NULL, or has a default or an expression.
            SchemaError: A name exists already or is invalid.
        """
        if first and after is not None:
            raise ConfigError("after", "use first or after, not both")
        base = self._latest()
        fields = fields_with_paths(columns, where=self._store.root)
        draft = alter_steps.add_columns(TableDraft.of(base), fields, place="" if first else after)
        added = [{"path": format_path(path), **_as_json(item)} for path, item in fields]
        return self._commit(base, draft, "ADD COLUMNS", {"columns": added})

    def rename_column(self, column: str | Sequence[str], name: str) -> AlterResult:
        """Rename a column; requires column mapping, and rewrites no file."""
        base, path = self._latest(), as_path(column)
        draft = alter_steps.rename_column(TableDraft.of(base), path, name)
        new = format_path((*path[:-1], name))
        paths = {"oldColumnPath": format_path(path), "newColumnPath": new}
        return self._commit(base, draft, "RENAME COLUMN", paths)

    def drop_column(self, column: str | Sequence[str]) -> AlterResult:
        """Drop a column; requires column mapping, and rewrites no file."""
        base, path = self._latest(), as_path(column)
        draft = alter_steps.drop_column(
            TableDraft.of(base), path, clustering=base.clustering_columns()
        )
        return self._commit(base, draft, "DROP COLUMNS", {"columns": [format_path(path)]})

    def set_nullable(self, column: str | Sequence[str], nullable: bool = True) -> AlterResult:
        """Make a column nullable, or NOT NULL with `nullable=False`.

        Raises:
            ConstraintViolationError: The column is to be NOT NULL, and existing rows have nulls.
        """
        base, path = self._latest(), as_path(column)
        draft = alter_steps.set_nullable(TableDraft.of(base), path, nullable=nullable)
        if draft.metadata == base.metadata or nullable:
            return self._commit_column(base, draft, path)
        try:
            names = [item.name for item in base.schema.find(path)]
        except ColumnNotFoundError:
            reason = "existing rows cannot be checked for nulls inside lists and maps"
            change = f"set {format_path(path)} NOT NULL"
            raise TableDraft.of(base).refuse(change, reason) from None
        *parents, field = (Column(path[: index + 1]) for index in range(len(path)))
        present = tuple(Not(IsNull(parent)) for parent in parents)
        nulls = And((*present, IsNull(field))) if present else IsNull(field)
        check_no_match(base, nulls, f"column {format_path(path)} has nulls", columns=names[:1])
        return self._commit_column(base, draft, path, reads=Reads(whole_table=True))

    def set_comment(self, column: str | Sequence[str], comment: str | None) -> AlterResult:
        """Set the comment of a column; None removes it."""
        base, path = self._latest(), as_path(column)
        draft = alter_steps.set_column_metadata(TableDraft.of(base), path, "comment", comment)
        return self._commit_column(base, draft, path)

    def set_default(self, column: str | Sequence[str], expression: str | None) -> AlterResult:
        """Set the default of a column, for rows written without it; None removes it."""
        base, path = self._latest(), as_path(column)
        draft = alter_steps.set_default(TableDraft.of(base), path, expression)
        return self._commit_column(base, draft, path)

    def change_type(self, column: str | Sequence[str], kind: str | DataType) -> AlterResult:
        """Widen the type of a column; requires `delta.enableTypeWidening`, rewrites no file."""
        base, path = self._latest(), as_path(column)
        draft = alter_steps.change_type(TableDraft.of(base), path, kind)
        return self._commit_column(base, draft, path)

    def add_constraint(self, name: str, expression: str) -> AlterResult:
        """Add a CHECK constraint, after validating all existing rows.

        Raises:
            ConstraintViolationError: An existing row violates it.
            PredicateError: Not a condition that lazydelta can evaluate.
        """
        base = self._latest()
        draft = alter_steps.add_constraint(TableDraft.of(base), name, expression)
        check_constraint_holds(base, parse_constraint(name, expression, base.schema))
        parameters = {"name": name, "expr": expression.strip()}
        reads = Reads(whole_table=True)
        return self._commit(base, draft, "ADD CONSTRAINT", parameters, reads=reads)

    def drop_constraint(self, name: str, *, missing_ok: bool = False) -> AlterResult:
        """Drop a CHECK constraint."""
        base = self._latest()
        draft = alter_steps.drop_constraint(TableDraft.of(base), name, missing_ok=missing_ok)
        return self._commit(base, draft, "DROP CONSTRAINT", {"name": name})

    def set_properties(self, properties: Mapping[str, Any]) -> AlterResult:
        """Set table properties, and upgrade the protocol as they require.

        Enabling column mapping assigns ids to all columns. Enabling row tracking is refused while
        the table has files without row ids.

        Raises:
            ConfigError: An unknown property or an invalid value.
            AlterationError: The table does not allow the change.
        """
        base = self._latest()
        draft = alter_steps.set_properties(TableDraft.of(base), properties)
        reads = Reads()
        tracked = is_enabled(base.metadata.configuration, ROW_TRACKING)
        if is_enabled(draft.configuration, ROW_TRACKING) and not tracked:
            check_all_files_tracked(base)
            reads = Reads(whole_table=True)
        values = {key: str(value) for key, value in properties.items()}
        return self._commit(base, draft, "SET TBLPROPERTIES", {"properties": values}, reads=reads)

    def unset_properties(self, *keys: str, missing_ok: bool = False) -> AlterResult:
        """Remove table properties: their defaults apply."""
        base = self._latest()
        draft = alter_steps.unset_properties(TableDraft.of(base), keys, missing_ok=missing_ok)
        return self._commit(base, draft, "UNSET TBLPROPERTIES", {"properties": list(keys)})

    def set_name(self, name: str | None) -> AlterResult:
        """Set the table's display name."""
        base = self._latest()
        draft = TableDraft.of(base).with_metadata(replace(base.metadata, name=name))
        return self._commit(base, draft, "SET TABLE NAME", {"name": name})

    def set_description(self, description: str | None) -> AlterResult:
        """Set the table's description."""
        base = self._latest()
        draft = TableDraft.of(base).with_metadata(replace(base.metadata, description=description))
        return self._commit(base, draft, "SET TABLE DESCRIPTION", {"description": description})

    def add_feature(self, *names: str) -> AlterResult:
        """Add table features to the protocol, by name."""
        base = self._latest()
        draft = alter_steps.add_features(TableDraft.of(base), names)
        return self._commit(base, draft, "ADD FEATURE", {"features": list(names)})

    def upgrade_protocol(self, reader: int | None = None, writer: int | None = None) -> AlterResult:
        """Upgrade the protocol versions; they are never downgraded."""
        base = self._latest()
        draft = alter_steps.add_features(TableDraft.of(base), (), reader=reader, writer=writer)
        parameters = {"newProtocol": draft.protocol.to_json()}
        return self._commit(base, draft, "UPGRADE PROTOCOL", parameters)

    def cluster_by(self, columns: Sequence[str | Sequence[str]]) -> AlterResult:
        """Set the clustering columns; an empty list removes them. Existing files stay as they are.

        `table.optimize()` clusters new files by them, and all files with `full=True`.

        Raises:
            ConfigError: Too many columns, one twice, or a type without an order.
            AlterationError: The table is partitioned.
        """
        base = self._latest()
        draft = TableDraft.of(base)
        mode, old = draft.mapping_mode, base.clustering_columns()
        paths = check_columns(base.schema, (), columns, setting="columns")
        names = ",".join(map(format_path, paths))
        if base.partition_columns and paths:
            cure = "Partition or cluster a table; new files of a clustered table need no partitions"
            raise draft.refuse(f"cluster by {names}", "it is partitioned", cure)
        domain = clustering_domain(base.schema, paths, mode)
        if old == [physical_path(base.schema, path, mode) for path in paths]:
            return AlterResult(operation="CLUSTER BY", version=base.version, changed=False)
        draft = replace(draft, protocol=clustered_protocol(draft.protocol))
        before = ",".join(map(format_path, logical_paths(base.schema, old, mode)))
        parameters = {"oldClusteringColumns": before, "newClusteringColumns": names}
        return self._commit(base, draft, "CLUSTER BY", parameters, domains=(domain,))

    def _latest(self) -> SnapshotState:
        return load_snapshot(self._store, self._config, version=None)

    def _commit_column(
        self,
        base: SnapshotState,
        draft: TableDraft,
        path: tuple[str, ...],
        *,
        reads: Reads | None = None,
    ) -> AlterResult:
        index, _ = enclosing_field(draft.schema, path)
        column = {"path": format_path(path), **_as_json(find_field(draft.schema, index))}
        return self._commit(base, draft, "CHANGE COLUMN", {"column": column}, reads=reads)

    def _commit(
        self,
        base: SnapshotState,
        draft: TableDraft,
        operation: str,
        parameters: Mapping[str, Any],
        *,
        reads: Reads | None = None,
        domains: tuple[DomainMetadata, ...] = (),
    ) -> AlterResult:
        """Commit a draft; commits nothing if the draft equals the table."""
        protocol = None if draft.protocol == base.protocol else draft.protocol
        metadata = None if draft.metadata == base.metadata else draft.metadata
        if protocol is None and metadata is None and not domains:
            return AlterResult(operation=operation, version=base.version, changed=False)
        transaction = Transaction(
            operation=operation,
            parameters=parameters,
            protocol=protocol,
            metadata=metadata,
            domains=domains,
            reads=Reads() if reads is None else reads,
        )
        done = commit(
            transaction,
            store=self._store,
            config=self._config,
            base=base,
            hooks=post_commit_hooks(self._config),
        )
        return AlterResult(
            operation=operation, version=done.version, changed=True, warnings=done.warnings
        )


def _as_json(item: StructField) -> dict[str, Any]:
    schema: dict[str, Any] = orjson.loads(schema_to_json(StructType((item,))))
    field: dict[str, Any] = schema["fields"][0]
    return field
