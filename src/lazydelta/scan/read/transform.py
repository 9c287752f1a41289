"""Match a file's columns with the table's fields: names, types and structure.

Pure: Arrow in, Arrow out. Computed once per distinct schema; a batch then usually needs no work,
since values of the right type are returned as they are. Whether a column can be read is decided by
its type, never by its values. Only conversions that keep every value are supported, and those that
can fail for some value raise.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lazydelta._arrow import validity_buffer
from lazydelta.errors import DataFileError
from lazydelta.parquet import LegacyCalendar, LegacyTimestampError
from lazydelta.scan.read.variant_columns import variant_converter
from lazydelta.schema import (
    ArrayType,
    DataType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    to_arrow_type,
)
from lazydelta.schema.mapping import physical_name

__all__ = [
    "ColumnMatches",
    "FileSchemaError",
    "Source",
    "data_file_error",
    "decoded",
    "match_columns",
]

Convert = Callable[[pa.Array], pa.Array]
"""Converts an array of a file to the table's type."""

_FIELD_ID = b"PARQUET:field_id"
_MAPPING_ID = "delta.columnMapping.id"
_POOL = pa.system_memory_pool()


class FileSchemaError(ValueError):
    """A file whose columns do not have the table's types; the caller adds the file.

    Args:
        reason: What is wrong.
        cure: What to do about it; None restores the file.
    """

    def __init__(self, reason: str, cure: str | None = None) -> None:
        super().__init__(reason)
        self.cure = cure


def data_file_error(table: str, path: str, error: Exception) -> DataFileError:
    """Return the error of a file whose columns could not be converted."""
    reason = " ".join(str(error).split())
    cure = getattr(error, "cure", None)
    if cure is None:
        return DataFileError(table, path, reason)
    return DataFileError(table, path, reason, cure)


@dataclass(frozen=True, slots=True)
class Source:
    """The column of a file that holds one field."""

    name: str
    convert: Convert | None
    """Converts its values; None if they have the table's type."""
    columns: tuple[str, ...]
    """What to read of it: paths of leaves, or of groups that contain them."""


@dataclass(frozen=True, slots=True)
class ColumnMatches:
    """The table's fields in files of one schema."""

    sources: tuple[Source | None, ...]
    """For each field; None if the file has no column for it."""
    leaves: Mapping[tuple[str, ...], str] = field(default_factory=dict)
    """Path in the file by logical path, for leaves that are not inside a list or map."""


def match_columns(
    schema: pa.Schema,
    fields: Sequence[StructField],
    mode: str,
    calendar: LegacyCalendar | None = None,
) -> ColumnMatches:
    """Match the table's fields with a file's columns.

    Args:
        schema: The file's schema; extra columns are ignored.
        fields: Logical fields of the table, without partition columns.
        mode: The column mapping mode: `none`, `name` or `id`.
        calendar: Which columns are in the legacy calendar; None if none are.

    Raises:
        FileSchemaError: A column cannot be read as the table's type, or ids are needed and missing.
    """
    if mode == "id" and len(schema) and not any(_field_id(column) for column in schema):
        raise FileSchemaError("the column mapping mode is id, but the file has no field ids")
    matcher = _Matcher(mode, calendar)
    level = _Level(schema, mode)
    sources: list[Source | None] = []
    for item in fields:
        index = level.find(item)
        if index is None:
            sources.append(None)
            continue
        column = schema.field(index)
        columns = matcher.paths(item, column, (), ())
        convert = matcher.converter(column.type, item.type, item.name)
        sources.append(Source(column.name, convert, tuple(columns)))
    return ColumnMatches(tuple(sources), matcher.leaves)


class _Level:
    """Columns of one level of a file: the top level, or the fields of a struct."""

    def __init__(self, columns: Iterable[pa.Field], mode: str) -> None:
        self._mode = mode
        columns = list(columns)
        keys = map(_field_id, columns) if mode == "id" else (column.name for column in columns)
        self._indices: dict[str | None, list[int]] = defaultdict(list)
        self._folded: dict[str, list[int]] = defaultdict(list)
        for index, key in enumerate(keys):
            self._indices[key].append(index)
            if mode == "none" and key is not None:
                self._folded[key.lower()].append(index)

    def find(self, item: StructField) -> int | None:
        """Return the index of a field's column; without mapping, the case of names matters last."""
        if self._mode == "id":
            indices = self._indices.get(str(item.metadata.get(_MAPPING_ID)), [])
        else:
            name = physical_name(item, self._mode)
            indices = self._indices.get(name) or self._folded.get(name.lower(), [])
        if len(indices) > 1:
            raise FileSchemaError(f"the file has more than one column {item.name!r}")
        return indices[0] if indices else None


class _Matcher:
    """Matches fields of the table with columns of one file schema."""

    def __init__(self, mode: str, calendar: LegacyCalendar | None) -> None:
        self.mode = mode
        self.calendar = calendar
        self.leaves: dict[tuple[str, ...], str] = {}

    def paths(
        self, item: StructField, column: pa.Field, parent: tuple[str, ...], path: tuple[str, ...]
    ) -> list[str]:
        """Return the paths to read for a field, and record its leaves.

        Of a struct, only the fields that the table has.
        """
        physical, logical = (*parent, column.name), (*path, item.name)
        if isinstance(item.type, StructType) and pt.is_struct(column.type):
            level = _Level(column.type, self.mode)
            parts = [(part, level.find(part)) for part in item.type]
            stored = [(part, column.type.field(n)) for part, n in parts if n is not None]
            paths = [self.paths(part, inner, physical, logical) for part, inner in stored]
            if paths:
                return [name for names in paths for name in names]
        self.leaves[logical] = ".".join(physical)
        return [".".join(physical)]

    def converter(  # noqa: PLR0911 - one return for each shape
        self, source: pa.DataType, kind: DataType, where: str
    ) -> Convert | None:
        """Return the converter of a file's values to the table's type; None if they have it.

        Raises:
            FileSchemaError: No conversion keeps every value.
        """
        if isinstance(source, pa.BaseExtensionType):
            return _then(lambda a: a.storage, self.converter(source.storage_type, kind, where))
        if pt.is_dictionary(source):
            inner = self.converter(source.value_type, kind, where)
            return _then(decoded, inner)
        if pt.is_null(source):
            target = to_arrow_type(kind)
            return lambda a: pa.nulls(len(a), target)
        match kind:
            case StructType() if pt.is_struct(source):
                return self.struct(source, kind, where)
            case ArrayType() if _is_list(source):
                return self.list(source, kind, where)
            case MapType() if pt.is_map(source) or _is_entries(source):
                return self.map(source, kind, where)
            case PrimitiveType("variant") if pt.is_struct(source):
                return self.variant(source, where)
            case StructType() | ArrayType() | MapType() | PrimitiveType("variant"):
                raise FileSchemaError(
                    f"column {where!r} is {source} in the file, {kind} in the table"
                )
        convert = _primitive(source, kind, where)
        if self.calendar is None:
            return convert
        return _rebased(source, kind, convert, self.calendar, where)

    def variant(self, source: pa.StructType, where: str) -> Convert | None:
        convert, calendar = variant_converter(source), self.calendar
        if calendar is None:
            return convert
        # Shredded values are columns like others; there are no INT96 timestamps among them.
        return _then(_rebase(lambda array: calendar.rebase(array, "", ()), where), convert)

    def struct(self, source: pa.StructType, kind: StructType, where: str) -> Convert | None:
        target = to_arrow_type(kind)
        parts: list[tuple[int | None, Convert | None]] = []
        level = _Level(source, self.mode)
        for item in kind:
            index = level.find(item)
            inner = None
            if index is not None:
                inner = self.converter(source.field(index).type, item.type, f"{where}.{item.name}")
            parts.append((index, inner))
        plain = [(index, None) for index in range(source.num_fields)]
        if parts == plain and source == target:
            return None
        # Only some fields of a struct are read, so they are matched by name, not by index.
        names = [None if index is None else source.field(index).name for index, _ in parts]
        return lambda array: _rebuilt_struct(array, target, names, [inner for _, inner in parts])

    def list(self, source: pa.DataType, kind: ArrayType, where: str) -> Convert | None:
        target = to_arrow_type(kind)
        inner = self.converter(source.value_type, kind.element, f"{where}.element")
        if inner is None and source == target:
            return None
        return lambda array: _rebuilt_list(array, target, lambda values: _applied(inner, values))

    def map(self, source: pa.DataType, kind: MapType, where: str) -> Convert | None:
        target = to_arrow_type(kind)
        entries = _entries_type(source)
        key = self.converter(entries.field(0).type, kind.key, f"{where}.key")
        value = self.converter(entries.field(1).type, kind.value, f"{where}.value")
        if key is None and value is None and source == target:
            return None
        inner_type = pa.struct([target.key_field, target.item_field])

        def convert(values: pa.StructArray) -> pa.StructArray:
            children = [_applied(key, values.field(0)), _applied(value, values.field(1))]
            return pa.StructArray.from_arrays(children, fields=list(inner_type))

        return lambda array: _rebuilt_list(array, target, convert)


def decoded(array: pa.Array) -> pa.Array:
    """Return an array without dictionary encoding, allocated in the pool of rows (ADR 0020)."""
    if not isinstance(array, pa.DictionaryArray):
        return array
    return pc.take(array.dictionary, array.indices, memory_pool=_POOL)


def _applied(convert: Convert | None, array: pa.Array) -> pa.Array:
    return array if convert is None else convert(array)


def _then(first: Convert, second: Convert | None) -> Convert:
    return first if second is None else lambda array: second(first(array))


def _field_id(column: pa.Field) -> str | None:
    field_id = (column.metadata or {}).get(_FIELD_ID)
    return None if field_id is None else field_id.decode()


def _is_list(source: pa.DataType) -> bool:
    return (
        pt.is_list(source) or pt.is_large_list(source) or pt.is_fixed_size_list(source)
    ) and not pt.is_map(source)


def _is_entries(source: pa.DataType) -> bool:
    """Whether a list is a map that its writer did not annotate as one."""
    inner = source.value_type if _is_list(source) else None
    return inner is not None and pt.is_struct(inner) and inner.num_fields == 2


def _entries_type(source: pa.DataType) -> pa.StructType:
    if pt.is_map(source):
        return pa.struct([source.key_field, source.item_field])
    return source.value_type


# --- arrays, rebuilt around converted parts ---------------------------------------------------


def _rebuilt_struct(
    array: pa.StructArray,
    target: pa.StructType,
    names: Sequence[str | None],
    inner: Sequence[Convert | None],
) -> pa.StructArray:
    indices = {array.type.field(index).name: index for index in range(array.type.num_fields)}
    children = []
    for name, convert, part in zip(names, inner, target, strict=True):
        if name is None or name not in indices:
            children.append(pa.nulls(len(array), part.type))
        else:
            children.append(_applied(convert, array.field(indices[name])))
    return pa.Array.from_buffers(
        target, len(array), [validity_buffer(array)], array.null_count, children=children
    )


def _rebuilt_list(array: pa.Array, target: pa.DataType, convert: Convert) -> pa.Array:
    """Return a list or map with its values converted; offsets of a slice start at 0."""
    count = len(array)
    if pt.is_fixed_size_list(array.type):
        array = array.cast(pa.list_(array.type.value_type))
    wide = pt.is_large_list(array.type)
    raw = np.frombuffer(array.buffers()[1], np.int64 if wide else np.int32) if count else None
    if raw is None:
        return pa.nulls(0, target)
    offsets = raw[array.offset : array.offset + count + 1]
    first, last = int(offsets[0]), int(offsets[-1])
    if last - first > np.iinfo(np.int32).max:
        raise FileSchemaError(
            f"a batch has {last - first} list values, more than Arrow's offsets can address"
        )
    values = array.values.slice(first, last - first)
    rebased = pa.py_buffer(np.ascontiguousarray(offsets - first, dtype=np.int32))
    return pa.Array.from_buffers(
        target,
        count,
        [validity_buffer(array), rebased],
        array.null_count,
        children=[convert(values)],
    )


# --- primitive values -------------------------------------------------------------------------


def _primitive(source: pa.DataType, kind: DataType, where: str) -> Convert | None:
    target = to_arrow_type(kind)
    if source == target:
        return None
    if pt.is_null(target):
        return lambda array: pa.nulls(len(array))
    if pt.is_timestamp(target) and pt.is_timestamp(source):
        return _timestamp(source, target)
    if not _keeps_values(source, target):
        raise FileSchemaError(f"column {where!r} is {source} in the file, {kind} in the table")
    if pt.is_fixed_size_binary(source) and pt.is_string(target):
        return lambda array: array.cast(pa.binary()).cast(target)
    return lambda array: array.cast(target)


def _rebased(
    source: pa.DataType,
    kind: DataType,
    convert: Convert | None,
    calendar: LegacyCalendar,
    where: str,
) -> Convert | None:
    """Return the converter for a file in the legacy calendar; timestamp_ntz is never in it."""
    if pt.is_date32(source) and calendar.datetimes:
        return _then(calendar.rebase_dates, convert)
    is_time = pt.is_timestamp(source) and kind == PrimitiveType("timestamp")
    # A timestamp without a zone is INT96.
    if not is_time or not (calendar.int96 if source.tz is None else calendar.datetimes):
        return convert
    return _rebase(lambda array: calendar.rebase_timestamps(_applied(convert, array)), where)


def _rebase(rebase: Convert, where: str) -> Convert:
    def rebased(array: pa.Array) -> pa.Array:
        try:
            return rebase(array)
        except LegacyTimestampError as error:
            raise FileSchemaError(f"column {where!r} has {error}", error.cure) from None

    return rebased


def _keeps_values(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether a cast keeps every value, or fails where it cannot: the protocol's type widening."""
    if pt.is_integer(target):
        return pt.is_integer(source)
    if pt.is_floating(target):
        is_exact = pt.is_integer(source) and source.bit_width <= 32 and target.bit_width == 64
        return is_exact or (pt.is_floating(source) and source.bit_width <= target.bit_width)
    if pt.is_decimal(target):
        return pt.is_integer(source) or pt.is_decimal(source)
    if pt.is_string(target) or pt.is_binary(target):
        return _is_bytes(source)
    if pt.is_date32(target):
        return pt.is_date(source)
    return pt.is_timestamp(target) and target.tz is None and pt.is_date(source)


def _is_bytes(source: pa.DataType) -> bool:
    return (
        pt.is_string(source)
        or pt.is_large_string(source)
        or pt.is_string_view(source)
        or pt.is_binary(source)
        or pt.is_large_binary(source)
        or pt.is_binary_view(source)
        or pt.is_fixed_size_binary(source)
    )


def _timestamp(source: pa.TimestampType, target: pa.TimestampType) -> Convert:
    """Convert a timestamp to the unit. One without a zone is UTC; other zones keep the instant."""
    if source.unit == target.unit:
        return lambda array: array.view(target)
    if source.unit == "ns":
        return lambda array: _floored(array, target)
    same_unit = pa.timestamp(target.unit, source.tz)
    return lambda array: array.cast(same_unit).view(target)


def _floored(array: pa.Array, target: pa.TimestampType) -> pa.Array:
    """Truncate nanoseconds downwards; a cast would round timestamps before 1970 up."""
    nanos = np.frombuffer(array.buffers()[1], np.int64)[array.offset : array.offset + len(array)]
    micros = pa.py_buffer(np.floor_divide(nanos, 1000))
    return pa.Array.from_buffers(
        target, len(array), [validity_buffer(array), micros], array.null_count
    )
