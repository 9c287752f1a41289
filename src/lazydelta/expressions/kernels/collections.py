"""Kernels of arrays, maps and structs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import from_mask, from_numpy, to_numpy, true_mask
from lazydelta.expressions.evaluation_result import Result
from lazydelta.expressions.kernels.comparisons import compare
from lazydelta.expressions.kernels.numbers import with_nulls
from lazydelta.schema import PrimitiveType, from_arrow_type, to_arrow_type
from lazydelta.schema.values import build_scalar

if TYPE_CHECKING:
    from lazydelta.expressions.kernels.comparisons import Kernel
    from lazydelta.schema import DataType

__all__ = ["COLLECTION_KERNELS"]

_ZERO = build_scalar(0, PrimitiveType("integer"))


def _array(given: list[pa.Array], _: list[Any], kind: DataType) -> Result:
    rows, width = len(given[0]), len(given)
    offsets = np.arange(0, rows * width + 1, width, dtype=np.int32)
    return Result(_as(pa.ListArray.from_arrays(from_numpy(offsets), _interleaved(given)), kind))


def _map(given: list[pa.Array], _: list[Any], kind: DataType) -> Result:
    """Build maps; a null or repeated key fails."""
    keys, items = given[::2], given[1::2]
    rows, width = len(given[0]), len(keys)
    failed = np.zeros(rows, np.bool_)
    for index, key in enumerate(keys):
        failed |= true_mask(key.is_null())
        for other in keys[:index]:
            failed |= true_mask(compare("=", key, other, _delta_type(key)))
    safe = [pc.if_else(from_mask(failed), _any_value(key), key) for key in keys]
    offsets = np.arange(0, rows * width + 1, width, dtype=np.int32)
    made = pa.MapArray.from_arrays(from_numpy(offsets), _interleaved(safe), _interleaved(items))
    return Result(_as(made, kind)).failing(from_mask(failed))


def _any_value(values: pa.Array) -> pa.Scalar:
    """Return a value for rows that fail: keys of Arrow's maps are never null."""
    known = values.drop_null()
    if len(known):
        return known[0]
    raw = pa.py_buffer(bytes(64))
    buffers = [None, raw] if not pa.types.is_string(values.type) else [None, raw, raw]
    return pa.Array.from_buffers(values.type, 1, buffers)[0]


def _named_struct(given: list[pa.Array], _: list[Any], kind: DataType) -> Result:
    target = to_arrow_type(kind)
    return Result(pa.StructArray.from_arrays(given[1::2], fields=list(target)))


def _size(given: list[pa.Array], _: list[Any], __: DataType) -> Result:
    return Result(_as_list(given[0]).value_lengths().cast(pa.int32()))


def _array_contains(given: list[pa.Array], _: list[Any], __: DataType) -> Result:
    """Look for a value; without it, an array with a null has an unknown answer."""
    arrays, sought = given
    parents = to_numpy(pc.list_parent_indices(arrays)).astype(np.int64)
    elements = pc.list_flatten(arrays)
    same = compare("=", elements, sought.take(from_numpy(parents)), _delta_type(elements))
    found = _any_of(parents, true_mask(same), len(arrays))
    unknown = _any_of(parents, true_mask(elements.is_null()), len(arrays)) & ~found
    null = pa.nulls(1, pa.bool_())[0]
    missing = from_mask(unknown | true_mask(arrays.is_null()) | true_mask(sought.is_null()))
    return Result(pc.if_else(missing, null, from_mask(found)))


def _element(*, first: int, checked: bool) -> Kernel:
    """Return an element of an array by its index, or a value of a map by its key.

    `first` is the index of the first element: 0 for `a[i]`, 1 for `element_at`, where negative
    ones count from the end. If checked, an index without an element fails.
    """

    def run(given: list[pa.Array], _: list[Any], kind: DataType) -> Result:
        values, index = given
        if pa.types.is_map(values.type):
            return Result(_map_value(values, index))
        starts, lengths = _extents(values)
        wanted = to_numpy(pc.coalesce(index, _ZERO)).astype(np.int64)
        place = wanted - first
        if first == 1:
            place = np.where(wanted < 0, wanted + lengths, place)
        inside = (place >= 0) & (place < lengths) & (wanted != 0 if first else True)
        present = true_mask(values.is_valid()) & true_mask(index.is_valid())
        rows = with_nulls(np.where(inside, starts + place, 0))
        rows = pc.if_else(from_mask(inside & present), rows, pa.nulls(1, pa.int64())[0])
        result = Result(_as(values.values.take(rows), kind))
        # As in Spark, try_element_at fails for 0, which is never an index.
        lost = ~inside if checked else np.full(len(inside), bool(first)) & (wanted == 0)
        return result.failing(from_mask(lost & present))

    return run


def _map_value(maps: pa.Array, keys: pa.Array) -> pa.Array:
    """Return the value of a key of each row's map; null without it."""
    lists = _as_list(maps)
    parents = to_numpy(pc.list_parent_indices(lists)).astype(np.int64)
    entries = pc.list_flatten(lists)
    known, items = (pc.struct_field(entries, [index]) for index in (0, 1))
    same = compare("=", known, keys.take(from_numpy(parents)), _delta_type(known))
    hits = np.nonzero(true_mask(same))[0]
    rows = np.full(len(maps), -1, np.int64)
    rows[parents[hits[::-1]]] = hits[::-1]  # the first of equal keys
    places = pc.if_else(from_mask(rows >= 0), from_numpy(rows), pa.nulls(1, pa.int64())[0])
    return items.take(places)


def _extents(arrays: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return where the elements of each row start, and how many there are."""
    offsets = to_numpy(arrays.offsets).astype(np.int64)
    return offsets[:-1], np.diff(offsets)


def _as_list(values: pa.Array) -> pa.Array:
    """Return maps as lists of key and value; arrays as they are."""
    if not pa.types.is_map(values.type):
        return values
    entries = pa.struct([values.type.key_field, values.type.item_field])
    return values.cast(pa.list_(pa.field("entries", entries, nullable=False)))


def _any_of(parents: np.ndarray, mask: np.ndarray, rows: int) -> np.ndarray:
    return np.bincount(parents[mask], minlength=rows)[:rows] > 0


def _interleaved(given: list[pa.Array]) -> pa.Array:
    """Return the first values of all arrays, then the second ones, and so on."""
    rows, width = len(given[0]), len(given)
    order = np.arange(rows * width, dtype=np.int64).reshape(width, rows).T.reshape(-1)
    return pa.concat_arrays(given).take(from_numpy(np.ascontiguousarray(order)))


def _as(values: pa.Array, kind: DataType) -> pa.Array:
    target = to_arrow_type(kind)
    return values if values.type == target else values.cast(target)


def _delta_type(values: pa.Array) -> DataType:
    return from_arrow_type(values.type)


COLLECTION_KERNELS: dict[str, Kernel] = {
    "array": _array,
    "map": _map,
    "named_struct": _named_struct,
    "size": _size,
    "array_contains": _array_contains,
    "[]": _element(first=0, checked=True),
    "get": _element(first=0, checked=False),
    "element_at": _element(first=1, checked=True),
    "try_element_at": _element(first=1, checked=False),
}
