"""Changes of a schema, one field at a time: schema in, schema out. Pure.

A path is a tuple of names; `element`, `key` and `value` lead into lists and maps, as in Spark.
Whether a table allows a change is not asked here, only whether the schema can have it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lazydelta.errors import ColumnNotFoundError, SchemaError
from lazydelta.schema import ArrayType, MapType, StructField, StructType
from lazydelta.writer import shown_path

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lazydelta.schema import DataType

    Change = Callable[[StructField], StructField | None]

__all__ = [
    "add_field",
    "change_field",
    "find_field",
    "move_field",
    "nearest_field",
    "type_inside",
    "with_metadata",
    "with_type_inside",
]

Path = tuple[str, ...]

_WAYS_IN = ("element", "key", "value")


def find_field(schema: StructType, path: Path) -> StructField:
    """Return the field at a path.

    Raises:
        ColumnNotFoundError: There is none.
    """
    found: list[StructField] = []

    def note(item: StructField) -> StructField:
        found.append(item)
        return item

    change_field(schema, path, note)
    return found[0]


def change_field(schema: StructType, path: Path, change: Change) -> StructType:
    """Return the schema with one field changed, or left out if `change` gives None.

    Raises:
        ColumnNotFoundError: There is no field at this path.
        SchemaError: The new name is taken, or a struct would be left without fields.
    """

    def changed(struct: StructType) -> StructType:
        item = _get(struct, path)
        new = change(item)
        others = tuple(f for f in struct if f is not item)
        if new is None:
            if not others:
                raise SchemaError(f"{shown_path(path)} is the last field there; keep one")
            return StructType(others)
        _check_free(others, new.name, path)
        return StructType(tuple(new if f is item else f for f in struct))

    return _within_struct(schema, path, changed)


def add_field(schema: StructType, path: Path, item: StructField) -> StructType:
    """Return the schema with a new field, last in the struct that the path leads to.

    Args:
        schema: Where to add it.
        path: Of the new field; its last part is the field's name.
        item: The field.

    Raises:
        ColumnNotFoundError: The struct does not exist.
        SchemaError: The name is taken; case is ignored.
    """

    def added(struct: StructType) -> StructType:
        _check_free(struct.fields, item.name, path)
        return StructType((*struct.fields, item))

    return _within_struct(schema, path, added)


def move_field(schema: StructType, path: Path, *, after: str | None) -> StructType:
    """Return the schema with a field moved behind another one of its struct; None: first."""

    def moved(struct: StructType) -> StructType:
        item = _get(struct, path)
        others = [f for f in struct if f is not item]
        at = 0
        if after is not None:
            neighbour = _get(struct, (*path[:-1], after))
            if neighbour is item:
                raise SchemaError(f"{shown_path(path)} cannot stand behind itself")
            at = others.index(neighbour) + 1
        return StructType((*others[:at], item, *others[at:]))

    return _within_struct(schema, path, moved)


def with_metadata(item: StructField, key: str, value: Any) -> StructField:
    """Return the field with one entry of its metadata set, or taken away if None."""
    kept = {name: text for name, text in item.metadata.items() if name != key}
    return replace(item, metadata=kept if value is None else {**kept, key: value})


def nearest_field(schema: StructType, path: Path) -> tuple[Path, Path]:
    """Split a path into that of a field of a struct, and the way from there to a type."""
    for end in range(len(path), 0, -1):
        if any(part not in _WAYS_IN for part in path[end:]):
            break
        try:
            kind = find_field(schema, path[:end]).type
        except ColumnNotFoundError:
            continue
        type_inside(kind, path[end:])
        return path[:end], path[end:]
    return path, ()


def type_inside(kind: DataType, way: Path) -> DataType:
    """Return the type that a way through lists and maps leads to."""
    for part in way:
        match kind, part:
            case ArrayType(element), "element":
                kind = element
            case MapType(key), "key":
                kind = key
            case MapType(_, value), "value":
                kind = value
            case _:
                raise ColumnNotFoundError(f": {kind} has no {part}", "", shown_path(way), ())
    return kind


def with_type_inside(kind: DataType, way: Path, new: DataType) -> DataType:
    """Return the type with the one that a way leads to replaced."""
    if not way:
        return new
    match kind, way[0]:
        case ArrayType(element, nulls), "element":
            return ArrayType(with_type_inside(element, way[1:], new), nulls)
        case MapType(key, value, nulls), "key":
            return MapType(with_type_inside(key, way[1:], new), value, nulls)
        case MapType(key, value, nulls), _:
            return MapType(key, with_type_inside(value, way[1:], new), nulls)
    return kind


def _within_struct(
    schema: StructType, path: Path, change: Callable[[StructType], StructType]
) -> StructType:
    """Return the schema with the struct that holds the path's last part replaced."""
    changed = _within(schema, path, 0, change)
    if not isinstance(changed, StructType):
        raise TypeError(f"a schema became {changed}")
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
    raise _misled(kind, path, depth)


def _get(struct: StructType, path: Path) -> StructField:
    item = struct.get(path[-1])
    if item is None:
        shown = tuple(shown_path((*path[:-1], name)) for name in struct.names)
        raise ColumnNotFoundError("", "", shown_path(path), shown)
    return item


def _misled(kind: DataType, path: Path, depth: int) -> ColumnNotFoundError:
    parent = path[:depth]
    ways: tuple[str, ...] = ()
    if isinstance(kind, ArrayType):
        ways = ("element",)
    elif isinstance(kind, MapType):
        ways = ("key", "value")
    inside = tuple(f"{shown_path((*parent, way))}.<field>" for way in ways)
    reason = f": {shown_path(parent)} is {kind}"
    return ColumnNotFoundError(reason, "", shown_path(path), inside)


def _check_free(others: Sequence[StructField], name: str, path: Path) -> None:
    taken = next((f.name for f in others if f.name.lower() == name.lower()), None)
    if taken is not None:
        shown = shown_path((*path[:-1], taken))
        raise SchemaError(f"there is a column {shown} already (case is ignored)")
