"""Whether rows written under one schema can be shown under a later one. Pure.

Columns may be added and types widened; what is dropped, renamed, narrowed or made NOT NULL in
between would be lost or wrong, and silence about it worse than an error.
"""

from __future__ import annotations

from lazydelta.schema import ArrayType, DataType, MapType, StructField, StructType
from lazydelta.schema.evolution import can_read_as
from lazydelta.schema.mapping import physical_name

__all__ = ["schema_break"]


def schema_break(older: tuple[StructType, str], newer: tuple[StructType, str]) -> str:
    """Return why rows of the older schema do not fit the newer one; empty if they do.

    >>> from lazydelta.schema import PrimitiveType
    >>> long, text = (StructField("x", PrimitiveType(name)) for name in ("long", "string"))
    >>> schema_break((StructType((long,)), "none"), (StructType((text,)), "none"))
    "column 'x' was long and is string"

    Args:
        older: A schema and its column mapping mode.
        newer: The schema that rows are to be shown in, and its mode.
    """
    return _struct_break(older, newer, "")


def _struct_break(older: tuple[StructType, str], newer: tuple[StructType, str], at: str) -> str:
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
        reason = _type_break((part.type, old_mode), (now.type, new_mode), name)
        if reason:
            return reason
    return _added_break(list(by_name.values()), at)


def _added_break(added: list[StructField], at: str) -> str:
    for part in added:
        if not part.nullable:
            return f"column {f'{at}{part.name}'!r} was added as NOT NULL"
    return ""


def _type_break(older: tuple[DataType, str], newer: tuple[DataType, str], at: str) -> str:
    (old, old_mode), (new, new_mode) = older, newer
    match old, new:
        case StructType(), StructType():
            return _struct_break((old, old_mode), (new, new_mode), f"{at}.")
        case ArrayType(), ArrayType():
            inner = (old.element, old_mode), (new.element, new_mode)
            return _type_break(*inner, f"{at}.element")
        case MapType(), MapType():
            key = _type_break((old.key, old_mode), (new.key, new_mode), f"{at}.key")
            return key or _type_break((old.value, old_mode), (new.value, new_mode), f"{at}.value")
    return "" if can_read_as(old, new) else f"column {at!r} was {old} and is {new}"
