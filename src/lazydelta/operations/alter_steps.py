"""The alterations of `table.alter`, each a function from draft to draft. Pure.

Each returns the next draft or refuses the change with a cure. `operations.alter` validates
existing rows and files.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lazydelta.errors import ColumnNotFoundError, ConfigError
from lazydelta.operations.check_constraints import constraint_key, parse_constraint
from lazydelta.operations.column_dependencies import check_statistics_columns, dependents_of
from lazydelta.operations.expression_checks import check_computed_columns
from lazydelta.operations.schema_edits import (
    add_field,
    change_field,
    enclosing_field,
    find_field,
    move_field,
    nested_type,
    with_metadata,
    with_nested_type,
)
from lazydelta.schema import PrimitiveType, StructType, format_path, parse_column_type
from lazydelta.schema.evolution import can_widen, with_type_change
from lazydelta.schema.mapping import physical_path, without_column_ids
from lazydelta.writer.columns import check_void_within, is_identity
from lazydelta.writer.properties import (
    CONSTRAINT_PREFIX,
    ENGINE_MANAGED,
    MAPPING_MODE,
    ROW_TRACKING,
    RequestedProperties,
    check_property_keys,
    is_enabled,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lazydelta.operations.table_draft import TableDraft
    from lazydelta.schema import DataType, StructField

__all__ = [
    "add_columns",
    "add_constraint",
    "add_features",
    "change_type",
    "drop_column",
    "drop_constraint",
    "rename_column",
    "set_column_metadata",
    "set_default",
    "set_nullable",
    "set_properties",
    "unset_properties",
]

Path = tuple[str, ...]

_DEFAULT = "CURRENT_DEFAULT"
_GENERATION = "delta.generationExpression"
_SUSPENDED = "delta.rowTrackingSuspended"
_DATE = PrimitiveType("date")
_NEEDS_MAPPING = "Enable column mapping first (delta.columnMapping.mode = name)"


def add_columns(
    draft: TableDraft, columns: Sequence[tuple[Path, StructField]], *, place: str | None = None
) -> TableDraft:
    """Add columns, last in their structs or after `place`; "" means first."""
    schema, after = draft.schema, place
    for path, item in columns:
        change = f"add column {format_path(path)}"
        if not item.nullable:
            reason = "existing rows have no value for it, so it must be nullable"
            raise draft.refuse(change, reason, "Add it nullable, fill it, then set it NOT NULL")
        if _is_computed(item):
            reason = "existing rows would not have its value"
            raise draft.refuse(change, reason, "Add it without; a default may be set afterwards")
        check_void_within([item], draft.table)
        schema = add_field(schema, path, _without_ids(item))
        if after is not None:
            schema = move_field(schema, path, after=after or None)
            after = item.name
    return draft.with_schema(schema).finished()


def rename_column(draft: TableDraft, path: Path, name: str) -> TableDraft:
    """Rename a column; files and log keep its physical name."""
    change = f"rename column {format_path(path)}"
    item = find_field(draft.schema, path)
    if item.name == name:
        return draft
    if draft.mapping_mode == "none":
        raise draft.refuse(change, "data files use this name", _NEEDS_MAPPING)
    _check_dependents(draft, path, change)
    schema = change_field(draft.schema, path, lambda field: replace(field, name=name))
    renamed = draft.with_schema(schema)
    if len(path) == 1:
        columns = tuple(name if c == item.name else c for c in draft.metadata.partition_columns)
        renamed = renamed.with_metadata(replace(renamed.metadata, partition_columns=columns))
    return renamed.finished()


def drop_column(draft: TableDraft, path: Path, *, clustering: Sequence[Path] = ()) -> TableDraft:
    """Drop a column; its values stay in the data files, hidden.

    Args:
        draft: The table.
        path: The path of the column.
        clustering: Physical paths of the clustering columns.
    """
    change = f"drop column {format_path(path)}"
    item = find_field(draft.schema, path)
    if draft.mapping_mode == "none":
        reason = "data files have it, and a new column of this name would show its values"
        raise draft.refuse(change, reason, _NEEDS_MAPPING)
    partitions = draft.metadata.partition_columns
    if len(path) == 1 and item.name in partitions:
        raise draft.refuse(change, "the table is partitioned by it", "Rewrite the table")
    if any(at[: len(path)] == _physical(draft, path) for at in clustering):
        cure = "Change the clustering columns first"
        raise draft.refuse(change, "the table is clustered by it", cure)
    _check_dependents(draft, path, change)
    schema = change_field(draft.schema, path, lambda _: None)
    if all(field.name in partitions for field in schema):
        raise draft.refuse(change, "only partition columns would remain", "Keep one data column")
    return draft.with_schema(schema).finished()


def set_nullable(draft: TableDraft, path: Path, *, nullable: bool) -> TableDraft:
    """Make a column nullable or NOT NULL."""
    return _changed(draft, path, lambda field: replace(field, nullable=nullable))


def set_column_metadata(draft: TableDraft, path: Path, key: str, value: Any) -> TableDraft:
    """Set one key of a column's metadata; None removes it."""
    return _changed(draft, path, lambda field: with_metadata(field, key, value))


def change_type(draft: TableDraft, path: Path, kind: str | DataType) -> TableDraft:
    """Widen the type of a column, a list element, or a map key or value."""
    change = f"change the type of {format_path(path)}"
    new = parse_column_type(kind) if isinstance(kind, str) else kind
    at, inside = enclosing_field(draft.schema, path)
    item = find_field(draft.schema, at)
    old = nested_type(item.type, inside)
    if old == new:
        return draft
    if is_identity(item):
        raise draft.refuse(change, "it is an identity column, and those are BIGINT")
    if not is_enabled(draft.configuration, "delta.enableTypeWidening"):
        cure = "Set delta.enableTypeWidening = true first"
        raise draft.refuse(change, f"data files have it as {old}", cure)
    is_partition = path[0] in draft.metadata.partition_columns
    if not can_widen(old, new) or (is_partition and old == _DATE):
        raise draft.refuse(change, f"{old} cannot be widened to {new}")
    _check_dependents(draft, path, change, with_statistics=False)

    def widened(item: StructField) -> StructField:
        recorded = with_type_change(item, old, new, inside)
        return replace(recorded, type=with_nested_type(item.type, inside, new))

    return draft.with_schema(change_field(draft.schema, at, widened)).finished()


def set_default(draft: TableDraft, path: Path, expression: str | None) -> TableDraft:
    """Set the default of a column; None removes it."""
    change = f"set a default of {format_path(path)}"
    if len(path) > 1:
        raise draft.refuse(change, "only top-level columns can have defaults")
    item = find_field(draft.schema, path)
    if expression is not None and (_GENERATION in item.metadata or is_identity(item)):
        raise draft.refuse(change, "its values are generated")
    changed = set_column_metadata(draft, path, _DEFAULT, expression)
    check_computed_columns(changed.schema, changed.table)
    return changed


def add_constraint(draft: TableDraft, name: str, expression: str) -> TableDraft:
    """Add a CHECK constraint; the caller validates existing rows."""
    key = constraint_key(name)
    if key in draft.configuration:
        reason = f"a constraint of this name exists: {draft.configuration[key]}"
        raise draft.refuse(f"add constraint {name!r}", reason, "Drop it first")
    parse_constraint(name, expression, draft.schema)
    return draft.with_configuration({**draft.configuration, key: expression.strip()}).finished()


def drop_constraint(draft: TableDraft, name: str, *, missing_ok: bool) -> TableDraft:
    """Drop a CHECK constraint."""
    keys = {key.lower(): key for key in draft.configuration if key.startswith(CONSTRAINT_PREFIX)}
    key = keys.get(CONSTRAINT_PREFIX + name.lower())
    if key is None:
        if missing_ok:
            return draft
        names = (
            ", ".join(sorted(k.removeprefix(CONSTRAINT_PREFIX) for k in keys.values())) or "none"
        )
        raise draft.refuse(f"drop constraint {name!r}", f"it does not exist; existing: {names}")
    kept = {k: sql for k, sql in draft.configuration.items() if k != key}
    return draft.with_configuration(kept).finished()


def set_properties(draft: TableDraft, properties: Mapping[str, Any]) -> TableDraft:
    """Set properties, and change schema and protocol as they require."""
    requested = RequestedProperties.parse(properties)
    check_statistics_columns(draft.schema, requested.configuration)
    configuration = dict(requested.configuration)
    mode = configuration.pop(MAPPING_MODE, draft.mapping_mode)
    draft = draft.with_configuration({**draft.configuration, **configuration})
    if mode != draft.mapping_mode:
        if (draft.mapping_mode, mode) != ("none", "name"):
            change = f"set {MAPPING_MODE} = {mode}"
            reason = f"data files were written in mode {draft.mapping_mode!r}"
            cure = 'On existing tables only "none" can change, to "name"'
            raise draft.refuse(change, reason, cure)
        draft = draft.with_column_mapping(mode)
    if is_enabled(configuration, ROW_TRACKING) and is_enabled(draft.configuration, _SUSPENDED):
        reason = f"{_SUSPENDED} is true: another engine is disabling the feature"
        cure = "Finish or cancel that in the other engine"
        raise draft.refuse(f"set {ROW_TRACKING} = true", reason, cure)
    return draft.finished(requested)


def unset_properties(draft: TableDraft, keys: Iterable[str], *, missing_ok: bool) -> TableDraft:
    """Remove properties: their defaults apply."""
    removed = tuple(dict.fromkeys(keys))
    for key in removed:
        is_user_key = not key.startswith(CONSTRAINT_PREFIX) and key not in ENGINE_MANAGED
        if is_user_key and (missing_ok or key in draft.configuration):
            continue  # includes `delta.*` keys that lazydelta does not support
        check_property_keys([key])
        existing = ", ".join(sorted(draft.configuration)) or "none"
        raise ConfigError(key, f"the table has no such property; it has: {existing}")
    if MAPPING_MODE in removed and draft.mapping_mode != "none":
        reason = "data files use physical column names"
        raise draft.refuse(f"unset {MAPPING_MODE}", reason, "Rewrite the table")
    kept = {key: value for key, value in draft.configuration.items() if key not in removed}
    return draft.with_configuration(kept).finished()


def add_features(
    draft: TableDraft, names: Sequence[str], *, reader: int | None = None, writer: int | None = None
) -> TableDraft:
    """Add table features, or upgrade the protocol versions."""
    requested = RequestedProperties(
        configuration={},
        features=tuple(names),
        min_reader_version=reader,
        min_writer_version=writer,
    )
    return draft.finished(requested)


def _changed(
    draft: TableDraft, path: Path, change: Callable[[StructField], StructField]
) -> TableDraft:
    schema = change_field(draft.schema, path, change)
    return draft if schema == draft.schema else draft.with_schema(schema).finished()


def _is_computed(item: StructField) -> bool:
    """Whether a column has a default or generated values, at any depth."""
    fields = [field for _, field in StructType((item,)).all_fields()]
    has_expression = bool({_DEFAULT, _GENERATION} & item.metadata.keys())
    return has_expression or any(map(is_identity, fields))


def _without_ids(item: StructField) -> StructField:
    """Return a field without the column ids of another table."""
    return without_column_ids(StructType((item,))).fields[0]


def _check_dependents(
    draft: TableDraft, path: Path, change: str, *, with_statistics: bool = True
) -> None:
    dependents = dependents_of(draft, path, with_statistics=with_statistics)
    if dependents:
        raise draft.refuse(change, f"{' and '.join(dependents)} depends on it", "Drop that first")


def _physical(draft: TableDraft, path: Path) -> Path:
    """Return the physical names of a path through structs."""
    try:
        return physical_path(draft.schema, path, draft.mapping_mode)
    except ColumnNotFoundError:
        return path  # inside a list or a map, which cannot be clustering columns
