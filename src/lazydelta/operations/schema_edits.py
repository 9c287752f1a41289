"""Edit one field of a schema: add, change, drop or move it. Pure.

A path is a tuple of names; `element`, `key` and `value` lead into lists and maps, as in Spark.
Validates the schema only; whether the table allows a change is up to the caller.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lazydelta.errors import ColumnNotFoundError, SchemaError
from lazydelta.schema import ArrayType, MapType, StructField, StructType, format_path

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lazydelta.schema import DataType

    Change = Callable[[StructField], StructField | None]

__all__ = [
    "add_field",
    "change_field",
    "enclosing_field",
    "find_field",
    "move_field",
    "nested_type",
    "with_metadata",
    "with_nested_type",
]

Path = tuple[str, ...]

_NESTED_PARTS = ("element", "key", "value")


def find_field(schema: StructType, path: Path) -> StructField:
    """Return the field at a path.

    Raises:
        ColumnNotFoundError: No field has this path.
    """
    fields: list[StructField] = []

    def collect(item: StructField) -> StructField:
        fields.append(item)
        return item

    change_field(schema, path, collect)
    return fields[0]


def change_field(schema: StructType, path: Path, change: Change) -> StructType:
    """Return the schema with one field changed, or dropped if `change` returns None.

    Raises:
        ColumnNotFoundError: No field has this path.
        SchemaError: The new name exists, or a struct would have no field left.
    """

    def changed(struct: StructType) -> StructType:
        item = _get(struct, path)
        new = change(item)
        others = tuple(f for f in struct if f is not item)
        if new is None:
            if not others:
                raise SchemaError(f"{format_path(path)} is the only field of its struct; keep one")
            return StructType(others)
        _check_unused(others, new.name, path)
        return StructType(tuple(new if f is item else f for f in struct))

    return _within_struct(schema, path, changed)


def add_field(schema: StructType, path: Path, item: StructField) -> StructType:
    """Return the schema with a new field, last in the struct that the path leads to.

    Args:
        schema: The schema.
        path: The path of the new field; its last part is the field's name.
        item: The field.

    Raises:
        ColumnNotFoundError: The struct does not exist.
        SchemaError: The name exists; names are case-insensitive.
    """

    def added(struct: StructType) -> StructType:
        _check_unused(struct.fields, item.name, path)
        return StructType((*struct.fields, item))

    return _within_struct(schema, path, added)


def move_field(schema: StructType, path: Path, *, after: str | None) -> StructType:
    """Return the schema with a field moved after another one of its struct; None is first."""

    def moved(struct: StructType) -> StructType:
        item = _get(struct, path)
        others = [f for f in struct if f is not item]
        index = 0
        if after is not None:
            previous = _get(struct, (*path[:-1], after))
            if previous is item:
                raise SchemaError(f"{format_path(path)} cannot be after itself")
            index = others.index(previous) + 1
        return StructType((*others[:index], item, *others[index:]))

    return _within_struct(schema, path, moved)


def with_metadata(item: StructField, key: str, value: Any) -> StructField:
    """Return the field with one key of its metadata set, or removed if None."""
    kept = {name: entry for name, entry in item.metadata.items() if name != key}
    return replace(item, metadata=kept if value is None else {**kept, key: value})


def enclosing_field(schema: StructType, path: Path) -> tuple[Path, Path]:
    """Split a path into that of its innermost struct field, and the rest inside lists and maps."""
    for end in range(len(path), 0, -1):
        if any(part not in _NESTED_PARTS for part in path[end:]):
            break
        try:
            kind = find_field(schema, path[:end]).type
        except ColumnNotFoundError:
            continue
        nested_type(kind, path[end:])
        return path[:end], path[end:]
    return path, ()


def nested_type(kind: DataType, inner_path: Path) -> DataType:
    """Return the type at a path of `element`, `key` and `value` inside a type."""
    for part in inner_path:
        match kind, part:
            case ArrayType(element), "element":
                kind = element
            case MapType(key), "key":
                kind = key
            case MapType(_, value), "value":
                kind = value
            case _:
                raise ColumnNotFoundError(
                    f": {kind} has no {part}", "", format_path(inner_path), ()
                )
    return kind


def with_nested_type(kind: DataType, inner_path: Path, new: DataType) -> DataType:
    """Return the type with the one at a path inside it replaced."""
    if not inner_path:
        return new
    match kind, inner_path[0]:
        case ArrayType(element, nulls), "element":
            return ArrayType(with_nested_type(element, inner_path[1:], new), nulls)
        case MapType(key, value, nulls), "key":
            return MapType(with_nested_type(key, inner_path[1:], new), value, nulls)
        case MapType(key, value, nulls), _:
            return MapType(key, with_nested_type(value, inner_path[1:], new), nulls)
    return kind


def _within_struct(
    schema: StructType, path: Path, change: Callable[[StructType], StructType]
) -> StructType:
    """Return the schema with the parent struct of a path changed."""
    changed = _within(schema, path, 0, change)
    if not isinstance(changed, StructType):
        raise TypeError(f"a schema must be a struct, not {changed}")
    return changed


def _within(
    kind: DataType, path: Path, depth: int, change: Callable[[StructType], StructType]
) -> DataType:
    last = depth == len(path) - 1
    match kind:
        case StructType() if last:
            return change(kind)
        case StructType():
            item = _get(kind, path[: depth + 1])
            inner = replace(item, type=_within(item.type, path, depth + 1, change))
            return StructType(tuple(inner if f is item else f for f in kind))
        case ArrayType(element, contains_null) if path[depth] == "element" and not last:
            return ArrayType(_within(element, path, depth + 1, change), contains_null)
        case MapType(key, value, contains_null) if path[depth] == "key" and not last:
            return MapType(_within(key, path, depth + 1, change), value, contains_null)
        case MapType(key, value, contains_null) if path[depth] == "value" and not last:
            return MapType(key, _within(value, path, depth + 1, change), contains_null)
    raise _no_such_path(kind, path, depth)


def _get(struct: StructType, path: Path) -> StructField:
    return struct.find(path[-1:], prefix=path[:-1])[0]


def _no_such_path(kind: DataType, path: Path, depth: int) -> ColumnNotFoundError:
    parent = path[:depth]
    parts: tuple[str, ...] = ()
    if isinstance(kind, ArrayType):
        parts = ("element",)
    elif isinstance(kind, MapType):
        parts = ("key", "value")
    candidates = tuple(f"{format_path((*parent, part))}.<field>" for part in parts)
    reason = f": {format_path(parent)} is {kind}"
    return ColumnNotFoundError(reason, "", format_path(path), candidates)


def _check_unused(others: Sequence[StructField], name: str, path: Path) -> None:
    existing = next((f.name for f in others if f.name.lower() == name.lower()), None)
    if existing is not None:
        column = format_path((*path[:-1], existing))
        raise SchemaError(f"column {column} already exists (names are case-insensitive)")
