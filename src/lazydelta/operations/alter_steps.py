"""The changes that `table.alter` makes, each from draft to draft. Pure.

A change says what a table will be, or refuses by name with a cure. What has to be asked of the
table's rows or files (is this constraint true already?) is asked by `operations.alter`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lazydelta.errors import ColumnNotFoundError, ConfigError
from lazydelta.operations.check_constraints import constraint_key, constraint_rule
from lazydelta.operations.column_dependencies import check_statistics_columns, users_of
from lazydelta.operations.expression_checks import check_fillers
from lazydelta.operations.schema_edits import (
    add_field,
    change_field,
    find_field,
    move_field,
    nearest_field,
    type_inside,
    with_metadata,
    with_type_inside,
)
from lazydelta.schema import PrimitiveType, StructType, parse_column_type
from lazydelta.schema.evolution import can_widen, with_type_change
from lazydelta.schema.mapping import physical_path, without_column_ids
from lazydelta.writer import (
    CONSTRAINT,
    ENGINE_MANAGED,
    MAPPING_MODE,
    ROW_TRACKING,
    RequestedProperties,
    all_fields,
    check_keys,
    is_identity,
    is_on,
    refuse_void_within,
    shown_path,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lazydelta.operations.table_draft import Draft
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
_NEEDS_MAPPING = "Turn on column mapping first (delta.columnMapping.mode = name)"


def add_columns(
    draft: Draft, columns: Sequence[tuple[Path, StructField]], *, place: str | None = None
) -> Draft:
    """Add columns, last in their structs, or behind `place`; "" stands for the very front."""
    schema, behind = draft.schema, place
    for path, item in columns:
        change = f"add column {shown_path(path)}"
        if not item.nullable:
            reason = "the rows that are there have no value for it, so it must be nullable"
            raise draft.refuse(change, reason, "Add it nullable, fill it, then set it NOT NULL")
        if _is_computed(item):
            reason = "the rows that are there would not have its value"
            raise draft.refuse(change, reason, "Add it plain; a default may be set afterwards")
        refuse_void_within([item], draft.table)
        schema = add_field(schema, path, _bare(item))
        if behind is not None:
            schema = move_field(schema, path, after=behind or None)
            behind = item.name
    return draft.with_schema(schema).finished()


def rename_column(draft: Draft, path: Path, name: str) -> Draft:
    """Give a column another name; files and log keep its physical one."""
    change = f"rename column {shown_path(path)}"
    item = find_field(draft.schema, path)
    if item.name == name:
        return draft
    if draft.mapping_mode == "none":
        raise draft.refuse(change, "files have it under this name", _NEEDS_MAPPING)
    _refuse_users(draft, path, change)
    schema = change_field(draft.schema, path, lambda field: replace(field, name=name))
    renamed = draft.with_schema(schema)
    if len(path) == 1:
        columns = tuple(name if c == item.name else c for c in draft.metadata.partition_columns)
        renamed = renamed.with_metadata(replace(renamed.metadata, partition_columns=columns))
    return renamed.finished()


def drop_column(draft: Draft, path: Path, *, clustering: Sequence[Path] = ()) -> Draft:
    """Leave a column out; its values stay in the files, unseen.

    Args:
        draft: The table.
        path: Of the column.
        clustering: Physical paths of the columns that the table is clustered by.
    """
    change = f"drop column {shown_path(path)}"
    item = find_field(draft.schema, path)
    if draft.mapping_mode == "none":
        raise draft.refuse(change, "files have it, and would show it again", _NEEDS_MAPPING)
    partitions = draft.metadata.partition_columns
    if len(path) == 1 and item.name in partitions:
        raise draft.refuse(change, "the table is partitioned by it", "Write the table anew")
    if any(at[: len(path)] == _physical(draft, path) for at in clustering):
        raise draft.refuse(change, "the table is clustered by it", "Cluster it by others first")
    _refuse_users(draft, path, change)
    schema = change_field(draft.schema, path, lambda _: None)
    if all(field.name in partitions for field in schema):
        raise draft.refuse(change, "only partition columns would be left", "Keep one column")
    return draft.with_schema(schema).finished()


def set_nullable(draft: Draft, path: Path, *, nullable: bool) -> Draft:
    """Let a column have nulls, or not."""
    return _changed(draft, path, lambda field: replace(field, nullable=nullable))


def set_column_metadata(draft: Draft, path: Path, key: str, value: Any) -> Draft:
    """Set one entry of a column's metadata, or take it away if None."""
    return _changed(draft, path, lambda field: with_metadata(field, key, value))


def change_type(draft: Draft, path: Path, kind: str | DataType) -> Draft:
    """Give a column, an element of a list, or a key or value of a map a wider type."""
    change = f"change the type of {shown_path(path)}"
    new = parse_column_type(kind) if isinstance(kind, str) else kind
    at, inside = nearest_field(draft.schema, path)
    item = find_field(draft.schema, at)
    old = type_inside(item.type, inside)
    if old == new:
        return draft
    if is_identity(item):
        raise draft.refuse(change, "it numbers the rows, and numbers are of the type BIGINT")
    if not is_on(draft.configuration, "delta.enableTypeWidening"):
        cure = "Set delta.enableTypeWidening = true first"
        raise draft.refuse(change, f"files have it as {old}", cure)
    is_partition = path[0] in draft.metadata.partition_columns
    if not can_widen(old, new) or (is_partition and old == _DATE):
        raise draft.refuse(change, f"{new} does not take every {old} that files may have")
    _refuse_users(draft, path, change, with_statistics=False)

    def widened(item: StructField) -> StructField:
        noted = with_type_change(item, old, new, inside)
        return replace(noted, type=with_type_inside(item.type, inside, new))

    return draft.with_schema(change_field(draft.schema, at, widened)).finished()


def set_default(draft: Draft, path: Path, expression: str | None) -> Draft:
    """Set what a column gets in rows written without it; None: nothing."""
    if len(path) > 1:
        reason = "only whole columns have defaults"
        raise draft.refuse(f"set a default of {shown_path(path)}", reason)
    item = find_field(draft.schema, path)
    if expression is not None and (_GENERATION in item.metadata or is_identity(item)):
        reason = "its values are generated"
        raise draft.refuse(f"set a default of {shown_path(path)}", reason)
    changed = set_column_metadata(draft, path, _DEFAULT, expression)
    check_fillers(changed.schema, changed.table)
    return changed


def add_constraint(draft: Draft, name: str, expression: str) -> Draft:
    """Add a CHECK constraint; whether the rows that are there hold it is not asked here."""
    key = constraint_key(name)
    if key in draft.configuration:
        change, reason = f"add constraint {name!r}", "there is one of this name"
        raise draft.refuse(change, f"{reason}: {draft.configuration[key]}", "Drop it first")
    constraint_rule(name, expression, draft.schema)
    return draft.with_configuration({**draft.configuration, key: expression.strip()}).finished()


def drop_constraint(draft: Draft, name: str, *, missing_ok: bool) -> Draft:
    """Take a CHECK constraint away."""
    known = {key.lower(): key for key in draft.configuration if key.startswith(CONSTRAINT)}
    key = known.get(CONSTRAINT + name.lower())
    if key is None:
        if missing_ok:
            return draft
        names = ", ".join(sorted(k.removeprefix(CONSTRAINT) for k in known.values())) or "none"
        raise draft.refuse(f"drop constraint {name!r}", f"there is no such; existing: {names}")
    kept = {k: text for k, text in draft.configuration.items() if k != key}
    return draft.with_configuration(kept).finished()


def set_properties(draft: Draft, properties: Mapping[str, Any]) -> Draft:
    """Set properties, with the changes of schema and protocol that they need."""
    asked = RequestedProperties.parse(properties)
    check_statistics_columns(draft.schema, asked.configuration)
    wanted = dict(asked.configuration)
    mode = wanted.pop(MAPPING_MODE, draft.mapping_mode)
    draft = draft.with_configuration({**draft.configuration, **wanted})
    if mode != draft.mapping_mode:
        if (draft.mapping_mode, mode) != ("none", "name"):
            change = f"set {MAPPING_MODE} = {mode}"
            reason = f"files were written in mode {draft.mapping_mode!r}"
            raise draft.refuse(change, reason, 'Of existing tables only "none" becomes "name"')
        draft = draft.with_column_mapping(mode)
    if is_on(wanted, ROW_TRACKING) and is_on(draft.configuration, _SUSPENDED):
        reason = f"{_SUSPENDED} is true: another engine is about to end it"
        cure = "Have that engine finish or resume"
        raise draft.refuse(f"set {ROW_TRACKING} = true", reason, cure)
    return draft.finished(asked)


def unset_properties(draft: Draft, keys: Iterable[str], *, missing_ok: bool) -> Draft:
    """Take properties away, back to their defaults."""
    gone = tuple(dict.fromkeys(keys))
    for key in gone:
        is_users = not key.startswith(CONSTRAINT) and key not in ENGINE_MANAGED
        if is_users and (missing_ok or key in draft.configuration):
            continue  # a key that only another engine knows may go as well
        check_keys([key])
        known = ", ".join(sorted(draft.configuration)) or "none"
        raise ConfigError(key, f"the table has no such property; it has: {known}")
    if MAPPING_MODE in gone and draft.mapping_mode != "none":
        reason = "files have other names than the columns"
        raise draft.refuse(f"unset {MAPPING_MODE}", reason, "Write the table anew")
    kept = {key: text for key, text in draft.configuration.items() if key not in gone}
    return draft.with_configuration(kept).finished()


def add_features(
    draft: Draft, names: Sequence[str], *, reader: int | None = None, writer: int | None = None
) -> Draft:
    """Let the table use features, or raise the versions of its protocol."""
    asked = RequestedProperties(
        configuration={},
        features=tuple(names),
        min_reader_version=reader,
        min_writer_version=writer,
    )
    return draft.finished(asked)


def _changed(draft: Draft, path: Path, change: Callable[[StructField], StructField]) -> Draft:
    schema = change_field(draft.schema, path, change)
    return draft if schema == draft.schema else draft.with_schema(schema).finished()


def _is_computed(item: StructField) -> bool:
    """Whether rows that have no value for a new column would get one, or a part of it."""
    parts = [part for _, part in all_fields(StructType((item,)))]
    ruled = {_DEFAULT, _GENERATION} & item.metadata.keys()
    return bool(ruled) or any(map(is_identity, parts))


def _bare(item: StructField) -> StructField:
    """Return a new field without the ids of the table that it may come from."""
    return without_column_ids(StructType((item,))).fields[0]


def _refuse_users(draft: Draft, path: Path, change: str, *, with_statistics: bool = True) -> None:
    users = users_of(draft, path, with_statistics=with_statistics)
    if users:
        raise draft.refuse(change, f"{' and '.join(users)} needs it", "Take that away first")


def _physical(draft: Draft, path: Path) -> Path:
    """Return the physical names of a path, as far as it leads through structs alone."""
    try:
        return physical_path(draft.schema, path, draft.mapping_mode)
    except ColumnNotFoundError:
        return path  # inside a list or a map, by which no table is clustered
