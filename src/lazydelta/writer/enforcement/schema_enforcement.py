"""Cast rows to the columns, order and types of a table without changing a value.

Columns match by name at every level: by the exact name, else by the only one that differs in
case. `schema_differences` checks the types once per write; `cast_values` checks the values of each
batch (does every int64 fit in an int32?). Constraints are checked elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lazydelta._arrow import from_numpy, to_numpy, unencoded_type
from lazydelta.schema import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    from_arrow_type,
    to_arrow_type,
)
from lazydelta.schema.values import build_scalar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["can_cast", "cast_values", "match_fields", "schema_differences"]

_INTEGERS = ("byte", "short", "integer", "long")
_ZERO = build_scalar(0, PrimitiveType("integer"))
_VARIANT = StructType(
    (
        StructField("metadata", PrimitiveType("binary"), nullable=False),
        StructField("value", PrimitiveType("binary"), nullable=False),
    )
)
_INT64_DECIMAL = pa.decimal128(20, 0)
_VIEWS = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
_MAX_ELEMENTS = 2**31 - 1


# --- types ---------------------------------------------------------------------------------------


def match_fields(incoming: Iterable[pa.Field], schema: StructType) -> dict[str, int]:
    """Return the index of the input column for each column of the table that has one."""
    names = [part.name for part in incoming]
    exact = {name: index for index, name in enumerate(names)}
    folded: dict[str, list[int]] = {}
    for index, name in enumerate(names):
        folded.setdefault(name.lower(), []).append(index)
    matches = {}
    for part in schema:
        candidates = folded.get(part.name.lower(), [])
        if part.name in exact:
            matches[part.name] = exact[part.name]
        elif len(candidates) == 1:
            matches[part.name] = candidates[0]
    return matches


def schema_differences(
    incoming: Iterable[pa.Field],
    schema: StructType,
    *,
    prefix: str = "",
    computed: frozenset[str] = frozenset(),
) -> Iterator[str]:
    """Yield a line for each column that keeps rows out of a table.

    Args:
        incoming: The columns of the rows.
        schema: The columns of the table.
        prefix: The path of their parent struct, with its dot.
        computed: Top-level columns that may be missing because their values are computed.
    """
    columns = list(incoming)
    matches = match_fields(columns, schema)
    for part in schema:
        index = matches.get(part.name)
        if index is not None:
            yield from _type_differences(columns[index].type, part.type, f"{prefix}{part.name}")
        elif not part.nullable and part.name not in computed:
            yield f"column {prefix + part.name!r}: missing, and the column is NOT NULL"
    matched = set(matches.values())
    for index, extra in enumerate(columns):
        if index not in matched:
            yield f"column {prefix + extra.name!r}: not in the table, the rows have {extra.type}"


def _type_differences(source: pa.DataType, target: DataType, path: str) -> Iterator[str]:
    source = unencoded_type(source)
    match target:
        case StructType() if pt.is_struct(source):
            yield from schema_differences(source, target, prefix=f"{path}.")
        case ArrayType(element) if _is_list(source):
            yield from _type_differences(source.value_type, element, f"{path}.element")
        case MapType(key, value) if pt.is_map(source):
            yield from _type_differences(source.key_type, key, f"{path}.key")
            yield from _type_differences(source.item_type, value, f"{path}.value")
        case _ if not can_cast(source, target):
            hint = _timezone_hint(source, target)
            yield f"column {path!r}: the table has {target}, the rows have {source}{hint}"


def can_cast(source: pa.DataType, target: DataType) -> bool:  # noqa: PLR0911 - one per family
    """Whether an Arrow type can be cast to a primitive Delta type without losing information.

    Integers of any width can, and so can decimals: the cast checks each value. Strings are never
    parsed, doubles never rounded to floats, and time zones never assumed.
    """
    if pt.is_null(source):
        return True
    name = str(target)
    if isinstance(target, DecimalType):
        return pt.is_integer(source) or pt.is_decimal(source)
    if name in _INTEGERS:
        return pt.is_integer(source)
    if name in ("float", "double"):
        widest = 64 if name == "double" else 32
        return pt.is_integer(source) or (pt.is_floating(source) and source.bit_width <= widest)
    if name == "variant":
        return pt.is_struct(source) and not list(schema_differences(source, _VARIANT))
    try:
        delta_type = str(from_arrow_type(source))
    except ValueError:
        return False
    return delta_type == name or (delta_type == "string" and _is_string(name))


def _is_string(name: str) -> bool:
    return name.startswith(("char(", "varchar(", "string collate"))


def _is_list(kind: pa.DataType) -> bool:
    return bool(pt.is_nested(kind)) and not (
        pt.is_struct(kind) or pt.is_map(kind) or pt.is_union(kind)
    )


def _timezone_hint(source: pa.DataType, target: DataType) -> str:
    if not pt.is_timestamp(source) or not str(target).startswith("timestamp"):
        return ""
    if source.tz is None:
        return " (without a time zone: set one with pyarrow.compute.assume_timezone)"
    return " (with a time zone: remove it with pyarrow.compute.local_timestamp)"


# --- values --------------------------------------------------------------------------------------


def cast_values(values: pa.Array, kind: DataType) -> pa.Array:
    """Cast values to the Arrow type of a Delta type.

    Args:
        values: Of a type for which `schema_differences` yields nothing.
        kind: The Delta type of the column.

    Raises:
        pa.ArrowInvalid: A value does not fit in the type.
    """
    target = to_arrow_type(kind)
    if values.type == target:
        return values
    values = _decoded(values)
    if pt.is_null(values.type):
        return pa.nulls(len(values), target)
    match _VARIANT if str(kind) == "variant" else kind:
        case StructType() as struct:
            return _cast_struct(values, struct)
        case ArrayType(element):
            return _cast_list(values, element, target)
        case MapType() as entries:
            return _cast_map(values, entries, target)
        case _:
            return _cast_primitive(values, target)


def _decoded(values: pa.Array) -> pa.Array:
    while values.type != (plain := unencoded_type(values.type)):
        if pt.is_dictionary(values.type):
            values = _without_views(values.dictionary).take(values.indices)
        elif pt.is_run_end_encoded(values.type):
            values = _run_end_decoded(values)
        elif isinstance(values, pa.ExtensionArray):
            values = values.storage
        else:
            values = values.cast(plain)
    return values


def _run_end_decoded(values: pa.RunEndEncodedArray) -> pa.Array:
    ends, plain = values.run_ends, _without_views(values.values)
    kind = pa.run_end_encoded(ends.type, plain.type)
    same = pa.Array.from_buffers(kind, len(values), [None], -1, values.offset, [ends, plain])
    return pc.run_end_decode(same)


def _without_views(values: pa.Array) -> pa.Array:
    """Cast string views and binary views: Arrow can neither take from them nor repeat them."""
    plain = _VIEWS.get(values.type)
    return values if plain is None else values.cast(plain)


def _cast_primitive(values: pa.Array, target: pa.DataType) -> pa.Array:
    if pt.is_integer(values.type) and pt.is_decimal(target):
        values = values.cast(
            _INT64_DECIMAL
        )  # Arrow refuses a target too narrow for the widest integer
    return values.cast(target)


def _cast_struct(values: pa.StructArray, kind: StructType) -> pa.StructArray:
    index = match_fields(values.type, kind)
    # Flattened, a field is null where the struct is: values under a null are undefined.
    parts = values.flatten()
    children = [
        cast_values(parts[index[part.name]], part.type)
        if part.name in index
        else pa.nulls(len(values), to_arrow_type(part.type))
        for part in kind
    ]
    mask = values.is_null() if values.null_count else None
    fields = list(to_arrow_type(kind))
    return pa.StructArray.from_arrays(children, fields=fields, mask=mask)


def _cast_list(values: Any, element: DataType, target: pa.DataType) -> pa.ListArray:
    lengths = pc.coalesce(pc.list_value_length(values).cast(pa.int32()), _ZERO)
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum(to_numpy(lengths), out=offsets[1:])
    if offsets[-1] > _MAX_ELEMENTS:
        raise pa.ArrowInvalid("a batch has more than 2^31 list elements; write smaller batches")
    mask = values.is_null() if values.null_count else None
    inner = cast_values(values.flatten(), element)
    narrowed = from_numpy(offsets.astype(np.int32))
    return pa.ListArray.from_arrays(narrowed, inner, type=target, mask=mask)


def _cast_map(values: pa.MapArray, kind: MapType, target: pa.DataType) -> pa.MapArray:
    offsets = to_numpy(values.offsets)
    first, last = (int(offsets[0]), int(offsets[-1])) if len(values) else (0, 0)
    keys = cast_values(values.keys.slice(first, last - first), kind.key)
    items = cast_values(values.items.slice(first, last - first), kind.value)
    mask = values.is_null() if values.null_count else None
    shifted = from_numpy((offsets - first).astype(np.int32))
    return pa.MapArray.from_arrays(shifted, keys, items, type=target, mask=mask)
