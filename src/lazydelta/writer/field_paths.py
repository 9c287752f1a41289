"""Paths of fields at any depth of a schema, and their SQL notation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta.schema import ArrayType, MapType, StructType

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lazydelta.schema import DataType, StructField

__all__ = ["all_fields", "format_path"]


def all_fields(
    schema: StructType, prefix: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], StructField]]:
    """Yield every field at any depth with its path, parents first.

    List elements, map keys and map values appear in paths as `element`, `key` and `value`.
    """
    for field in schema:
        path = (*prefix, field.name)
        yield path, field
        yield from _nested_fields(field.type, path)


def format_path(path: Sequence[str]) -> str:
    """Return a path in SQL notation, with names that are no identifiers in backticks.

    >>> format_path(("a", "b c"))
    'a.`b c`'
    """
    return ".".join(p if p.isidentifier() else f"`{p.replace('`', '``')}`" for p in path)


def _nested_fields(
    kind: DataType, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], StructField]]:
    match kind:
        case StructType():
            yield from all_fields(kind, path)
        case ArrayType(element):
            yield from _nested_fields(element, (*path, "element"))
        case MapType(key, value):
            yield from _nested_fields(key, (*path, "key"))
            yield from _nested_fields(value, (*path, "value"))
