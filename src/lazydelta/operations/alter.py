"""`table.alter`: changes of what a table says of itself, one commit each.

Each verb loads the newest version, has `operations.alter_steps` draft the next one, asks the table's rows
where the change depends on them, and commits. A change that changes nothing commits nothing.
Losing a race to another change of the table is a typed error, never a silent merge of both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import orjson

from lazydelta.checkpoint import post_commit_hooks
from lazydelta.errors import ColumnNotFoundError, ConfigError
from lazydelta.expressions.nodes import And, Column, IsNull, Not
from lazydelta.operations import alter_steps as alterations
from lazydelta.operations.check_constraints import constraint_rule
from lazydelta.operations.column_declarations import as_path, named_fields
from lazydelta.operations.existing_rows import refuse_broken, refuse_rows, refuse_untracked_files
from lazydelta.operations.schema_edits import find_field, nearest_field
from lazydelta.operations.table_draft import Draft
from lazydelta.schema import StructType, schema_to_json
from lazydelta.snapshot import load_snapshot
from lazydelta.transaction import Reads, Transaction, commit
from lazydelta.writer import ROW_TRACKING, is_on, shown_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lazydelta.config import Config
    from lazydelta.operations.column_declarations import Columns
    from lazydelta.schema import DataType, StructField
    from lazydelta.snapshot import SnapshotState
    from lazydelta.store import Store

__all__ = ["Alter", "AlterResult"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterResult:
    """What became of a change."""

    operation: str
    version: int
    """The table's newest version, with the change in it."""
    changed: bool
    """False if the table was like that already; then nothing was committed."""
    warnings: tuple[str, ...] = ()


class Alter:
    """The verbs that change a table's columns, properties, constraints and protocol."""

    def __init__(self, store: Store, config: Config) -> None:
        self._store = store
        self._config = config

    def add_columns(
        self, columns: Columns, *, after: str | None = None, first: bool = False
    ) -> AlterResult:
        """Add columns; rows that are there have null in them.

        Args:
            columns: SQL text (`"a int, b string"`), a schema, a list of fields, or a map of paths
                to types, in which `trip.stops.element.name` reaches into structs, lists and maps.
            after: Put them behind this column of their struct; by default they come last.
            first: Put them in front.

        Raises:
            AlterationError: A column that is NOT NULL, or has a default or an expression.
            SchemaError: A name that is taken or not allowed.
        """
        if first and after is not None:
            raise ConfigError("after", "columns go in front, or behind another one: not both")
        base = self._newest()
        fields = named_fields(columns, where=self._store.root)
        draft = alterations.add_columns(Draft.of(base), fields, place="" if first else after)
        shown = [{"path": shown_path(path), **_as_json(item)} for path, item in fields]
        return self._commit(base, draft, "ADD COLUMNS", {"columns": shown})

    def rename_column(self, column: str | Sequence[str], name: str) -> AlterResult:
        """Give a column another name; needs column mapping, and rewrites nothing."""
        base, path = self._newest(), as_path(column)
        draft = alterations.rename_column(Draft.of(base), path, name)
        new = shown_path((*path[:-1], name))
        paths = {"oldColumnPath": shown_path(path), "newColumnPath": new}
        return self._commit(base, draft, "RENAME COLUMN", paths)

    def drop_column(self, column: str | Sequence[str]) -> AlterResult:
        """Take a column away; needs column mapping, and rewrites nothing."""
        base, path = self._newest(), as_path(column)
        draft = alterations.drop_column(Draft.of(base), path, clustering=base.clustering_columns())
        return self._commit(base, draft, "DROP COLUMNS", {"columns": [shown_path(path)]})

    def set_nullable(self, column: str | Sequence[str], nullable: bool = True) -> AlterResult:
        """Let a column have nulls; with `nullable=False` forbid them, if it has none.

        Raises:
            ConstraintViolationError: There are rows with a null in it.
        """
        base, path = self._newest(), as_path(column)
        draft = alterations.set_nullable(Draft.of(base), path, nullable=nullable)
        if draft.metadata == base.metadata or nullable:
            return self._commit_column(base, draft, path)
        try:
            names = [item.name for item in base.schema.find(path)]
        except ColumnNotFoundError:
            reason = "rows are not looked through for nulls inside lists and maps"
            raise Draft.of(base).refuse(f"forbid nulls in {shown_path(path)}", reason) from None
        *parents, inside = (Column(path[: at + 1]) for at in range(len(path)))
        present = tuple(Not(IsNull(parent)) for parent in parents)
        nulls = And((*present, IsNull(inside))) if present else IsNull(inside)
        refuse_rows(base, nulls, f"column {shown_path(path)} has nulls", columns=names[:1])
        return self._commit_column(base, draft, path, reads=Reads(whole_table=True))

    def set_comment(self, column: str | Sequence[str], comment: str | None) -> AlterResult:
        """Say what a column is; None takes the comment away."""
        base, path = self._newest(), as_path(column)
        draft = alterations.set_column_metadata(Draft.of(base), path, "comment", comment)
        return self._commit_column(base, draft, path)

    def set_default(self, column: str | Sequence[str], expression: str | None) -> AlterResult:
        """Set the value that a column gets in rows written without it; None: no default."""
        base, path = self._newest(), as_path(column)
        draft = alterations.set_default(Draft.of(base), path, expression)
        return self._commit_column(base, draft, path)

    def change_type(self, column: str | Sequence[str], kind: str | DataType) -> AlterResult:
        """Give a column a wider type; needs `delta.enableTypeWidening`, and rewrites nothing."""
        base, path = self._newest(), as_path(column)
        draft = alterations.change_type(Draft.of(base), path, kind)
        return self._commit_column(base, draft, path)

    def add_constraint(self, name: str, expression: str) -> AlterResult:
        """Add a CHECK constraint, after all rows were seen to satisfy it.

        Raises:
            ConstraintViolationError: Some row does not; it is shown.
            PredicateError: Not a condition that lazydelta can evaluate.
        """
        base = self._newest()
        draft = alterations.add_constraint(Draft.of(base), name, expression)
        refuse_broken(base, constraint_rule(name, expression, base.schema))
        shown = {"name": name, "expr": expression.strip()}
        reads = Reads(whole_table=True)
        return self._commit(base, draft, "ADD CONSTRAINT", shown, reads=reads)

    def drop_constraint(self, name: str, *, missing_ok: bool = False) -> AlterResult:
        """Take a CHECK constraint away."""
        base = self._newest()
        draft = alterations.drop_constraint(Draft.of(base), name, missing_ok=missing_ok)
        return self._commit(base, draft, "DROP CONSTRAINT", {"name": name})

    def set_properties(self, properties: Mapping[str, Any]) -> AlterResult:
        """Set table properties, with the changes of the protocol that they need.

        Switching on column mapping gives ids to all columns. Switching on row tracking is refused
        while the table has files whose rows have no ids.

        Raises:
            ConfigError: A property that does not exist or does not take this value.
            AlterationError: A change that the table does not allow.
        """
        base = self._newest()
        draft = alterations.set_properties(Draft.of(base), properties)
        reads = Reads()
        tracked = is_on(base.metadata.configuration, ROW_TRACKING)
        if is_on(draft.configuration, ROW_TRACKING) and not tracked:
            refuse_untracked_files(base)
            reads = Reads(whole_table=True)
        shown = {key: str(value) for key, value in properties.items()}
        return self._commit(base, draft, "SET TBLPROPERTIES", {"properties": shown}, reads=reads)

    def unset_properties(self, *keys: str, missing_ok: bool = False) -> AlterResult:
        """Take table properties away, back to their defaults."""
        base = self._newest()
        draft = alterations.unset_properties(Draft.of(base), keys, missing_ok=missing_ok)
        return self._commit(base, draft, "UNSET TBLPROPERTIES", {"properties": list(keys)})

    def set_name(self, name: str | None) -> AlterResult:
        """Set the table's name for people."""
        base = self._newest()
        draft = Draft.of(base).with_metadata(replace(base.metadata, name=name))
        return self._commit(base, draft, "SET TABLE NAME", {"name": name})

    def set_description(self, description: str | None) -> AlterResult:
        """Set the table's description for people."""
        base = self._newest()
        draft = Draft.of(base).with_metadata(replace(base.metadata, description=description))
        return self._commit(base, draft, "SET TABLE DESCRIPTION", {"description": description})

    def add_feature(self, *names: str) -> AlterResult:
        """Let the table use features, by their names in the protocol."""
        base = self._newest()
        draft = alterations.add_features(Draft.of(base), names)
        return self._commit(base, draft, "ADD FEATURE", {"features": list(names)})

    def upgrade_protocol(self, reader: int | None = None, writer: int | None = None) -> AlterResult:
        """Raise the versions of the protocol; they never go down."""
        base = self._newest()
        draft = alterations.add_features(Draft.of(base), (), reader=reader, writer=writer)
        shown = {"newProtocol": draft.protocol.to_json()}
        return self._commit(base, draft, "UPGRADE PROTOCOL", shown)

    def _newest(self) -> SnapshotState:
        return load_snapshot(self._store, self._config, version=None)

    def _commit_column(
        self,
        base: SnapshotState,
        draft: Draft,
        path: tuple[str, ...],
        *,
        reads: Reads | None = None,
    ) -> AlterResult:
        at, _ = nearest_field(draft.schema, path)
        column = {"path": shown_path(path), **_as_json(find_field(draft.schema, at))}
        return self._commit(base, draft, "CHANGE COLUMN", {"column": column}, reads=reads)

    def _commit(
        self,
        base: SnapshotState,
        draft: Draft,
        operation: str,
        parameters: Mapping[str, Any],
        *,
        reads: Reads | None = None,
    ) -> AlterResult:
        """Commit a draft; nothing, if it says what the table says already."""
        protocol = None if draft.protocol == base.protocol else draft.protocol
        metadata = None if draft.metadata == base.metadata else draft.metadata
        if protocol is None and metadata is None:
            return AlterResult(operation=operation, version=base.version, changed=False)
        transaction = Transaction(
            operation=operation,
            parameters=parameters,
            protocol=protocol,
            metadata=metadata,
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
