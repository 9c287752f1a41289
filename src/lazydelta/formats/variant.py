"""Variants: unshred the columns that a writer shredded them into.

A shredded variant stores values of an expected type in a Parquet column of their own
(`typed_value`), and only the others in the binary `value`. Unshredding encodes both as one binary
again, row by row; `metadata`, the dictionary of field names, is complete as it is.

The encoding is that of Parquet's Variant specification; nothing here knows tables.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

__all__ = ["BadVariantError", "check_shredding", "unshred"]

Names = Mapping[str, int]
"""Ids by field name of one metadata dictionary."""

_NULL = b"\x00"
_OBJECT, _ARRAY, _SHORT_STRING = 2, 3, 1
_SHORT = 64
_DECIMALS = ((9, 8, 4), (18, 9, 8), (38, 10, 16))  # digits, type, bytes


class BadVariantError(ValueError):
    """Bytes or a Parquet layout that are not a variant."""


def check_shredding(group: pa.DataType) -> None:
    """Raise `BadVariantError` if a column is not a (shredded) variant that can be unshredded."""
    if not pt.is_struct(group):
        raise BadVariantError(f"a variant is a struct, not {group}")
    names = {part.name for part in group}
    if not names <= {"metadata", "value", "typed_value"} or not names & {"value", "typed_value"}:
        raise BadVariantError(f"a variant cannot have the fields {', '.join(sorted(names))}")
    if "typed_value" in names:
        _check_typed(group.field("typed_value").type)


def _check_typed(kind: pa.DataType) -> None:
    if pt.is_struct(kind):
        for part in kind:
            check_shredding(part.type)
    elif pt.is_list(kind) or pt.is_large_list(kind):
        check_shredding(kind.value_type)
    else:
        _encoder(kind)


def unshred(group: pa.StructArray) -> list[bytes]:
    """Return the `value` of every variant of a column; undefined for null ones."""
    dictionaries: dict[bytes | None, Names] = {None: {}}
    names = []
    # A null variant has no metadata, even where the file declares it as required.
    metadata_of_rows = group.flatten()[group.type.get_field_index("metadata")].to_pylist()
    for metadata in metadata_of_rows:
        if metadata not in dictionaries:
            dictionaries[metadata] = _parsed_names(metadata)
        names.append(dictionaries[metadata])
    return [_NULL if value is None else value for value in _group(group, names)]


def _group(group: pa.StructArray, names: Sequence[Names]) -> list[bytes | None]:
    """Return the values of a group with `value` and `typed_value`; None where both are missing."""
    parts = dict(zip((part.name for part in group.type), group.flatten(), strict=True))
    plain: list[bytes | None] = [None] * len(group)
    if "value" in parts:
        plain = parts["value"].to_pylist()
    typed = parts.get("typed_value")
    if typed is None:
        return plain
    if pt.is_struct(typed.type):
        return _objects(typed, plain, names)
    encoded = _lists(typed, names) if pt.is_nested(typed.type) else _scalars(typed)
    return [b if a is None else a for a, b in zip(plain, encoded, strict=True)]


def _objects(
    typed: pa.StructArray, plain: Sequence[bytes | None], names: Sequence[Names]
) -> list[bytes | None]:
    keys = [part.name for part in typed.type]
    columns = [_group(part, names) for part in typed.flatten()]
    rows = zip(*columns, strict=True) if columns else iter([()] * len(typed))
    encoded: list[bytes | None] = []
    valid = typed.is_valid().to_pylist()
    for is_object, rest, values, ids in zip(valid, plain, rows, names, strict=True):
        if not is_object:
            encoded.append(rest)
            continue
        fields = {} if rest is None else _object_fields(rest)
        try:
            fields |= {ids[k]: v for k, v in zip(keys, values, strict=True) if v is not None}
        except KeyError as error:
            raise BadVariantError(f"its metadata lacks the field name {error}") from None
        encoded.append(_object(fields, ids))
    return encoded


def _lists(typed: pa.Array, names: Sequence[Names]) -> list[bytes | None]:
    lengths = typed.value_lengths().to_pylist()
    pairs = zip(names, lengths, strict=True)
    inner_names = [ids for ids, count in pairs for _ in range(count or 0)]
    values = [_NULL if v is None else v for v in _group(typed.flatten(), inner_names)]
    encoded: list[bytes | None] = []
    at = 0
    for count in lengths:
        encoded.append(None if count is None else _array(values[at : at + count]))
        at += count or 0
    return encoded


def _scalars(typed: pa.Array) -> list[bytes | None]:
    encode, values = _encoder(typed.type), _as_storage(typed).to_pylist()
    return [None if value is None else encode(value) for value in values]


# --- the binary encoding ------------------------------------------------------------------------


def _parsed_names(metadata: bytes) -> Names:
    """Return the ids of the names in a metadata dictionary."""
    try:
        version, width = metadata[0] & 0x0F, (metadata[0] >> 6) + 1
        count = _number(metadata, 1, width)
        ends = [_number(metadata, 1 + width * (at + 1), width) for at in range(count + 1)]
        start = 1 + width * (count + 2)
        names = [metadata[start + a : start + b].decode() for a, b in pairwise(ends)]
    except (IndexError, ValueError) as error:
        raise BadVariantError(f"its metadata is damaged ({error})") from None
    if version != 1 or len(metadata) < start + (ends[-1] if ends else 0):
        raise BadVariantError("its metadata is damaged, or has an unknown version")
    return {name: at for at, name in enumerate(names)}


def _number(data: bytes, at: int, width: int) -> int:
    raw = data[at : at + width]
    if len(raw) != width:
        raise IndexError("too short")
    return int.from_bytes(raw, "little")


def _object_fields(value: bytes) -> dict[int, bytes]:
    """Return the fields of an encoded object by the ids of their names."""
    try:
        kind, header = value[0] & 3, value[0] >> 2
        if kind != _OBJECT:
            raise BadVariantError("the value of a shredded object is not an object")
        offset_width, id_width = (header & 3) + 1, (header >> 2 & 3) + 1
        count_width = 4 if header >> 4 & 1 else 1
        count = _number(value, 1, count_width)
        ids_at = 1 + count_width
        offsets_at = ids_at + count * id_width
        data_at = offsets_at + (count + 1) * offset_width
        ids = [_number(value, ids_at + at * id_width, id_width) for at in range(count)]
        offsets = [
            _number(value, offsets_at + at * offset_width, offset_width) for at in range(count + 1)
        ]
    except IndexError as error:
        raise BadVariantError(f"its value is damaged ({error})") from None
    following = dict(pairwise(sorted(offsets)))  # values may be in another order than names
    fields = {
        name: value[data_at + start : data_at + following.get(start, start)]
        for name, start in zip(ids, offsets[:-1], strict=True)
    }
    if not all(fields.values()):
        raise BadVariantError("its value is damaged (a field has no bytes)")
    return fields


def _object(fields: Mapping[int, bytes], names: Names) -> bytes:
    """Encode an object; its fields are in the order of their names' bytes."""
    by_id = {at: name.encode() for name, at in names.items() if at in fields}
    ids = sorted(fields, key=lambda at: by_id.get(at, b""))
    id_width = _width(max(ids, default=0))
    return _container(_OBJECT, [fields[at] for at in ids], b"".join(
        at.to_bytes(id_width, "little") for at in ids
    ), id_width)  # fmt: skip


def _array(values: Sequence[bytes]) -> bytes:
    return _container(_ARRAY, values, b"", 0)


def _container(kind: int, values: Sequence[bytes], ids: bytes, id_width: int) -> bytes:
    sizes = [0]
    for value in values:
        sizes.append(sizes[-1] + len(value))
    width = _width(sizes[-1])
    is_large = len(values) > 255
    header = width - 1
    if kind == _OBJECT:
        header |= (id_width - 1) << 2 | is_large << 4
    else:
        header |= is_large << 2
    count = len(values).to_bytes(4 if is_large else 1, "little")
    offsets = b"".join(size.to_bytes(width, "little") for size in sizes)
    return bytes([header << 2 | kind]) + count + ids + offsets + b"".join(values)


def _width(number: int) -> int:
    return max(1, (number.bit_length() + 7) // 8)


def _string(value: str) -> bytes:
    raw = value.encode()
    if len(raw) < _SHORT:
        return bytes([len(raw) << 2 | _SHORT_STRING]) + raw
    return _sized(16, raw)


def _sized(kind: int, raw: bytes) -> bytes:
    return bytes([kind << 2]) + struct.pack("<I", len(raw)) + raw


def _packed(kind: int, layout: str) -> Callable[[Any], bytes]:
    head = bytes([kind << 2])
    return lambda value: head + struct.pack(layout, value)


def _decimal(kind: pa.DataType) -> Callable[[Any], bytes]:
    code, width = next((c, w) for digits, c, w in _DECIMALS if kind.precision <= digits)
    head = bytes([code << 2, kind.scale])

    def encode(value: Any) -> bytes:
        sign, digits, _ = value.as_tuple()  # arithmetic would round to 28 digits
        unscaled = int("".join(map(str, digits)))
        return head + (-unscaled if sign else unscaled).to_bytes(width, "little", signed=True)

    return encode


def _encoder(kind: pa.DataType) -> Callable[[Any], bytes]:
    """Return the encoder of a type that variants may be shredded into.

    Arrow's writers store extension types (UUID) and views in the schema; the values are the same.
    """
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if pt.is_decimal(kind) and kind.precision <= 38:
        return _decimal(kind)
    if pt.is_timestamp(kind) and kind.unit in ("us", "ns"):
        code = {("us", True): 12, ("us", False): 13, ("ns", True): 18, ("ns", False): 19}
        return _packed(code[kind.unit, kind.tz is not None], "<q")
    if pt.is_fixed_size_binary(kind) and kind.byte_width == 16:
        return lambda value: bytes([20 << 2]) + value
    encoder = _ENCODERS.get(str(kind))
    if encoder is None:
        raise BadVariantError(f"variants shredded into {kind} cannot be read")
    return encoder


_ENCODERS: dict[str, Callable[[Any], bytes]] = {
    "bool": lambda value: b"\x04" if value else b"\x08",
    "int8": _packed(3, "<b"),
    "int16": _packed(4, "<h"),
    "int32": _packed(5, "<i"),
    "int64": _packed(6, "<q"),
    "double": _packed(7, "<d"),
    "date32[day]": _packed(11, "<i"),
    "float": _packed(14, "<f"),
    "binary": lambda value: _sized(15, value),
    "large_binary": lambda value: _sized(15, value),
    "binary_view": lambda value: _sized(15, value),
    "string": _string,
    "large_string": _string,
    "string_view": _string,
    "time64[us]": _packed(17, "<q"),
}


def _as_storage(typed: pa.Array) -> pa.Array:
    """Return dates and timestamps as integers, and extension arrays as their storage."""
    if isinstance(typed, pa.ExtensionArray):
        return typed.storage
    if pt.is_timestamp(typed.type) or pt.is_time64(typed.type):
        return typed.view(pa.int64())
    return typed.view(pa.int32()) if pt.is_date32(typed.type) else typed
