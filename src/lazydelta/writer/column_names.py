"""Which names and which partition columns a table may have. Pure.

Parquet writers of other engines choke on some characters, so the protocol's engines allow them
only under column mapping, where files have names of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta.errors import SchemaError
from lazydelta.protocol.schemas import CHANGE_COLUMNS
from lazydelta.schema import ArrayType, MapType, StructType
from lazydelta.writer.identity import is_identity
from lazydelta.writer.property_validation import CHANGE_FEED, is_on, row_tracking_columns
from lazydelta.writer.required_protocol import all_fields

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lazydelta.schema import DataType, StructField

__all__ = ["check_names", "check_partition_columns", "shown_path"]

_ILLEGAL = " ,;{}()\n\t="
_TEXTS = ("comment", "CURRENT_DEFAULT", "delta.generationExpression", "delta.invariants")
_NO_PARTITIONS = ("variant", "void")


def shown_path(path: Sequence[str]) -> str:
    """Return a path as SQL writes it: odd names in backticks.

    >>> shown_path(("a", "b c"))
    'a.`b c`'
    """
    return ".".join(p if p.isidentifier() else f"`{p.replace('`', '``')}`" for p in path)


def check_names(
    schema: StructType, configuration: Mapping[str, str], *, mapped: bool, table: str
) -> None:
    """Refuse names that collide or that files cannot have, and fields that no engine could read.

    Args:
        schema: The table's logical schema.
        configuration: Its properties: the change feed and row ids have columns of their own.
        mapped: Whether column mapping is on, which allows every character.
        table: Named in errors.

    Raises:
        SchemaError: With the name, and what to do.
    """
    if len(schema) == 0:
        raise SchemaError("a table needs a column", table)
    _check_collisions(schema, (), table)
    for path, item in all_fields(schema):
        odd = [] if mapped else sorted(set(item.name) & set(_ILLEGAL))
        if odd:
            cure = "rename it, or turn on column mapping (delta.columnMapping.mode = name)"
            raise SchemaError(f"column {item.name!r} has {odd[0]!r} in its name: {cure}", table)
        if not item.name:
            raise SchemaError("a column has no name", table)
        _check_words(path, item, table)
    for item in schema:
        _check_reserved(item.name, configuration, mapped, table)


def _check_reserved(name: str, configuration: Mapping[str, str], mapped: bool, table: str) -> None:
    """Refuse the names of columns that files, or readers, have beside those of the table."""
    if is_on(configuration, CHANGE_FEED) and name.lower() in CHANGE_COLUMNS:
        cure = "rename it, or leave delta.enableChangeDataFeed off"
        raise SchemaError(f"the change feed has a column {name!r} itself: {cure}", table)
    if not mapped and name in row_tracking_columns(configuration).values():
        raise SchemaError(f"row tracking has a column {name!r} in files itself: rename it", table)


def _check_words(path: Sequence[str], item: StructField, table: str) -> None:
    """Refuse what JSON could hold, and engines would not read: a comment that is a number, say."""
    if not isinstance(item.nullable, bool):
        reason = f"column {shown_path(path)}: nullable is true or false, not {item.nullable!r}"
        raise SchemaError(reason, table)
    for key in _TEXTS:
        if not isinstance(item.metadata.get(key, ""), str):
            reason = f"column {shown_path(path)}: {key} must be a text"
            raise SchemaError(f"{reason}, not {item.metadata[key]!r}", table)


def check_partition_columns(
    schema: StructType, partition_by: Sequence[str], *, table: str
) -> tuple[str, ...]:
    """Return the partition columns as the schema spells them.

    Raises:
        ColumnNotFoundError: The schema has no such column.
        SchemaError: Nested, repeated, of a type that has no text, or all columns of the table.
    """
    found: list[str] = []
    for name in partition_by:
        if "." in name and not schema.get(name) and schema.get(name.partition(".")[0]):
            raise SchemaError(f"{name!r} is nested: only whole columns can be partitions", table)
        item = schema.find((name,))[0]
        if item.name in found:
            raise SchemaError(f"column {item.name!r} is twice in the partitioning", table)
        if isinstance(item.type, StructType | ArrayType | MapType) or (
            str(item.type) in _NO_PARTITIONS
        ):
            raise SchemaError(f"column {item.name!r} of type {item.type} cannot partition", table)
        if is_identity(item):
            reason = "each row has a number of its own"
            raise SchemaError(f"column {item.name!r} cannot partition: {reason}", table)
        found.append(item.name)
    if found and len(found) == len(schema):
        reason = "all columns are partition columns: files would have none"
        raise SchemaError(f"{reason}. Leave at least one out", table)
    return tuple(found)


def _check_collisions(kind: DataType, path: tuple[str, ...], table: str) -> None:
    match kind:
        case StructType():
            names: dict[str, str] = {}
            for item in kind:
                folded = item.name.lower()
                if (other := names.get(folded)) is not None:
                    at = f" in {shown_path(path)}" if path else ""
                    both = f"columns {other!r} and {item.name!r}{at} collide"
                    raise SchemaError(f"{both}: names are told apart without their case", table)
                names[folded] = item.name
                _check_collisions(item.type, (*path, item.name), table)
        case ArrayType(element):
            _check_collisions(element, (*path, "element"), table)
        case MapType(key, value):
            _check_collisions(key, (*path, "key"), table)
            _check_collisions(value, (*path, "value"), table)
