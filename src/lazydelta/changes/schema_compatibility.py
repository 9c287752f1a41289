"""Read compatibility of schemas: can rows of one schema be read in a later one?

Added columns and widened types are compatible. Dropped, renamed or narrowed columns and new NOT
NULL constraints are not: the feed would silently lose or change values.
"""

from __future__ import annotations

from lazydelta.schema import ArrayType, DataType, MapType, StructField, StructType
from lazydelta.schema.evolution import can_read_as
from lazydelta.schema.mapping import physical_name

__all__ = ["schema_incompatibility"]


def schema_incompatibility(older: tuple[StructType, str], newer: tuple[StructType, str]) -> str:
    """Return why rows of the older schema do not fit the newer one; an empty string if they do.

    >>> from lazydelta.schema import PrimitiveType
    >>> long, string = (StructField("x", PrimitiveType(name)) for name in ("long", "string"))
    >>> schema_incompatibility((StructType((long,)), "none"), (StructType((string,)), "none"))
    "column 'x' was long and is string"

    Args:
        older: A schema and its column mapping mode.
        newer: The schema to read the rows in, and its column mapping mode.
    """
    return _struct_incompatibility(older, newer, "")


def _struct_incompatibility(
    older: tuple[StructType, str], newer: tuple[StructType, str], at: str
) -> str:
    (old, old_mode), (new, new_mode) = older, newer
    by_name = {physical_name(part, new_mode): part for part in new}
    for part in old:
        name = f"{at}{part.name}"
        now = by_name.pop(physical_name(part, old_mode), None)
        if now is None:
            return f"column {name!r} was dropped"
        if now.name != part.name:
            return f"column {name!r} was renamed to {f'{at}{now.name}'!r}"
        if part.nullable and not now.nullable:
            return f"column {name!r} became NOT NULL"
        reason = _type_incompatibility((part.type, old_mode), (now.type, new_mode), name)
        if reason:
            return reason
    return _added_incompatibility(list(by_name.values()), at)


def _added_incompatibility(added: list[StructField], at: str) -> str:
    for part in added:
        if not part.nullable:
            return f"column {f'{at}{part.name}'!r} was added as NOT NULL"
    return ""


def _type_incompatibility(older: tuple[DataType, str], newer: tuple[DataType, str], at: str) -> str:
    (old, old_mode), (new, new_mode) = older, newer
    match old, new:
        case StructType(), StructType():
            return _struct_incompatibility((old, old_mode), (new, new_mode), f"{at}.")
        case ArrayType(), ArrayType():
            inner = (old.element, old_mode), (new.element, new_mode)
            return _type_incompatibility(*inner, f"{at}.element")
        case MapType(), MapType():
            key = _type_incompatibility((old.key, old_mode), (new.key, new_mode), f"{at}.key")
            return key or _type_incompatibility(
                (old.value, old_mode), (new.value, new_mode), f"{at}.value"
            )
    return "" if can_read_as(old, new) else f"column {at!r} was {old} and is {new}"
