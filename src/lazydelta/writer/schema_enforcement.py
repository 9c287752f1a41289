"""Rows as they come, brought to the columns, order and types of a table, and no value changed.

Columns meet by name at every level: the exact name, else the only one that differs in case. What
the types alone decide is decided once (`differences`); what depends on the values (does each of
these int64 fit in an int32?) is seen batch by batch (`conform`). Rules are checked elsewhere.
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

__all__ = ["conform", "differences", "fits", "match_fields"]

_INTEGERS = ("byte", "short", "integer", "long")
_EMPTY = build_scalar(0, PrimitiveType("integer"))
_VARIANT = StructType(
    (
        StructField("metadata", PrimitiveType("binary"), nullable=False),
        StructField("value", PrimitiveType("binary"), nullable=False),
    )
)
_WHOLE = pa.decimal128(20, 0)
_VIEWS = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
_MOST_ELEMENTS = 2**31 - 1


# --- what the types decide -----------------------------------------------------------------------


def match_fields(given: Iterable[pa.Field], wanted: StructType) -> dict[str, int]:
    """Return where the given columns have the wanted ones, by the table's names."""
    names = [part.name for part in given]
    exact = {name: at for at, name in enumerate(names)}
    folded: dict[str, list[int]] = {}
    for at, name in enumerate(names):
        folded.setdefault(name.lower(), []).append(at)
    found = {}
    for part in wanted:
        alike = folded.get(part.name.lower(), [])
        if part.name in exact:
            found[part.name] = exact[part.name]
        elif len(alike) == 1:
            found[part.name] = alike[0]
    return found


def differences(
    given: Iterable[pa.Field],
    wanted: StructType,
    *,
    above: str = "",
    filled: frozenset[str] = frozenset(),
) -> Iterator[str]:
    """Yield what keeps rows with the given columns out of a table, a line for each column.

    Args:
        given: The columns of the rows.
        wanted: Those of the table.
        above: The path of the struct that they are parts of, with its dot.
        filled: Top-level columns that may be missing because their values are computed.
    """
    columns = list(given)
    found = match_fields(columns, wanted)
    for part in wanted:
        at = found.get(part.name)
        if at is not None:
            yield from _type_differences(columns[at].type, part.type, f"{above}{part.name}")
        elif not part.nullable and part.name not in filled:
            yield f"column {above + part.name!r}: missing, and the table takes no nulls in it"
    taken = set(found.values())
    for at, extra in enumerate(columns):
        if at not in taken:
            yield f"column {above + extra.name!r}: not in the table, given {extra.type}"


def _type_differences(given: pa.DataType, wanted: DataType, path: str) -> Iterator[str]:
    given = unencoded_type(given)
    match wanted:
        case StructType() if pt.is_struct(given):
            yield from differences(given, wanted, above=f"{path}.")
        case ArrayType(element) if _is_list(given):
            yield from _type_differences(given.value_type, element, f"{path}.element")
        case MapType(key, value) if pt.is_map(given):
            yield from _type_differences(given.key_type, key, f"{path}.key")
            yield from _type_differences(given.item_type, value, f"{path}.value")
        case _ if not fits(given, wanted):
            yield f"column {path!r}: wanted {wanted}, given {given}{_hint(given, wanted)}"


def fits(given: pa.DataType, wanted: DataType) -> bool:  # noqa: PLR0911 - one per family
    """Whether values of an Arrow type may be ones of a Delta type without a nested part.

    Whole numbers may, of any size: each value is seen to fit. So may decimals. Text is never read
    as something else, a double never rounded to a float, and no zone is ever guessed.
    """
    if pt.is_null(given):
        return True
    name = str(wanted)
    if isinstance(wanted, DecimalType):
        return pt.is_integer(given) or pt.is_decimal(given)
    if name in _INTEGERS:
        return pt.is_integer(given)
    if name in ("float", "double"):
        widest = 64 if name == "double" else 32
        return pt.is_integer(given) or (pt.is_floating(given) and given.bit_width <= widest)
    if name == "variant":
        return pt.is_struct(given) and not list(differences(given, _VARIANT))
    try:
        same = str(from_arrow_type(given))
    except ValueError:
        return False
    return same == name or (same == "string" and _is_text(name))


def _is_text(name: str) -> bool:
    return name.startswith(("char(", "varchar(", "string collate"))


def _is_list(kind: pa.DataType) -> bool:
    return bool(pt.is_nested(kind)) and not (
        pt.is_struct(kind) or pt.is_map(kind) or pt.is_union(kind)
    )


def _hint(given: pa.DataType, wanted: DataType) -> str:
    if not pt.is_timestamp(given) or not str(wanted).startswith("timestamp"):
        return ""
    if given.tz is None:
        return " (which has no zone: say which one with pyarrow.compute.assume_timezone)"
    return " (which has a zone: drop it with pyarrow.compute.local_timestamp)"


# --- what the values decide ----------------------------------------------------------------------


def conform(values: pa.Array, kind: DataType) -> pa.Array:
    """Return the values as a column of a table's type.

    Args:
        values: Of a type in which `differences` found none.
        kind: The table's type.

    Raises:
        pa.ArrowInvalid: A value has no place in the type.
    """
    target = to_arrow_type(kind)
    if values.type == target:
        return values
    values = _decoded(values)
    if pt.is_null(values.type):
        return pa.nulls(len(values), target)
    match _VARIANT if str(kind) == "variant" else kind:
        case StructType() as struct:
            return _struct(values, struct)
        case ArrayType(element):
            return _list(values, element, target)
        case MapType() as entries:
            return _map(values, entries, target)
        case _:
            return _leaf(values, target)


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
    """Return values that Arrow can take from and repeat, which it cannot do with views."""
    plain = _VIEWS.get(values.type)
    return values if plain is None else values.cast(plain)


def _leaf(values: pa.Array, target: pa.DataType) -> pa.Array:
    if pt.is_integer(values.type) and pt.is_decimal(target):
        values = values.cast(_WHOLE)  # Arrow asks for room for all values of the type at once
    return values.cast(target)


def _struct(values: pa.StructArray, kind: StructType) -> pa.StructArray:
    at = match_fields(values.type, kind)
    # Flattened, a part is null where the struct is: what lies under a null is no value.
    parts = values.flatten()
    children = [
        conform(parts[at[part.name]], part.type)
        if part.name in at
        else pa.nulls(len(values), to_arrow_type(part.type))
        for part in kind
    ]
    mask = values.is_null() if values.null_count else None
    fields = list(to_arrow_type(kind))
    return pa.StructArray.from_arrays(children, fields=fields, mask=mask)


def _list(values: Any, element: DataType, target: pa.DataType) -> pa.ListArray:
    lengths = pc.coalesce(pc.list_value_length(values).cast(pa.int32()), _EMPTY)
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum(to_numpy(lengths), out=offsets[1:])
    if offsets[-1] > _MOST_ELEMENTS:
        raise pa.ArrowInvalid("a batch has more than 2^31 elements in one list; give smaller ones")
    mask = values.is_null() if values.null_count else None
    inner = conform(values.flatten(), element)
    places = from_numpy(offsets.astype(np.int32))
    return pa.ListArray.from_arrays(places, inner, type=target, mask=mask)


def _map(values: pa.MapArray, kind: MapType, target: pa.DataType) -> pa.MapArray:
    places = to_numpy(values.offsets)
    first, last = (int(places[0]), int(places[-1])) if len(values) else (0, 0)
    keys = conform(values.keys.slice(first, last - first), kind.key)
    items = conform(values.items.slice(first, last - first), kind.value)
    mask = values.is_null() if values.null_count else None
    shifted = from_numpy((places - first).astype(np.int32))
    return pa.MapArray.from_arrays(shifted, keys, items, type=target, mask=mask)
