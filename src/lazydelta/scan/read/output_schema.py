"""Output schema of rows: the requested columns and types, and their encodings.

Works in two steps, since other engines filter between them: first the values (`to_plain`: the
requested schema without views and dictionaries, which pyarrow cannot filter), then the encodings
(`to_output`). Knows nothing of tables; both steps are free where nothing is requested.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as pt

from lazydelta._stream import Stream
from lazydelta.errors import ConfigError, SchemaError
from lazydelta.scan.read.arrow_casts import holds, is_view, plain_type, view_type, with_types

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterator, Sequence

    from lazydelta.config import ReadOptions

__all__ = ["OutputSchema", "columns_to_read"]

_INDEX_TYPE = pa.uint16()
_WRAPPED = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())


def columns_to_read(
    schema: pa.Schema | None, columns: Sequence[str] | None, existing: Sequence[str]
) -> Sequence[str] | None:
    """Return the columns to read; None is all.

    Args:
        schema: The output schema (`ReadOptions.schema`); None is the table's.
        columns: The columns requested by name; None is all.
        existing: The columns of the table.

    Raises:
        ConfigError: A column requested by name is not in the schema.
    """
    if schema is None:
        return columns
    names = set(schema.names)
    for name in columns or ():
        if name not in names:
            raise ConfigError("schema", f"has no column {name!r}, which is requested by name")
    requested = set(existing if columns is None else columns)
    return [name for name in schema.names if name in requested]


class OutputSchema:
    """The output schema of rows.

    Args:
        rows: The schema of the rows as read.
        options: Requested schema and encodings.
        existing: The columns of the table. A column of `options.schema` that is not one of them is
            null; one that was not read is omitted.
        repeated: The columns that have one value in a file.
        where: The table, for errors.
        views: Whether the consumer supports views.
        encoded: Whether rows are encoded at all.

    Raises:
        SchemaError: A column cannot be converted to the requested type.
        ConfigError: The schema lacks a column that other options request.
    """

    def __init__(
        self,
        rows: pa.Schema,
        options: ReadOptions,
        *,
        existing: Collection[str],
        repeated: Collection[str],
        where: str,
        views: bool = True,
        encoded: bool = True,
    ) -> None:
        self._rows = rows
        self._where = where
        self.plain: pa.Schema = rows
        """The schema that filters see."""
        output = rows
        if options.schema is not None:
            output = _restricted(options.schema, rows, existing)
            self.plain = with_types(output, [plain_type(field.type) for field in output])
            self._check()
        self.schema: pa.Schema = self.plain
        """The schema of the output."""
        if encoded and _has_encoding(options):
            kinds = _encodings(output, options, {*repeated, options.file_column_name})
            if not views:
                kinds = [plain_type(kind) if is_view(kind) else kind for kind in kinds]
            self.schema = with_types(output, kinds)

    def unchanged(self) -> frozenset[str]:
        """Return the columns whose values filters see as read."""
        if self.plain is self._rows:
            return frozenset(self._rows.names)
        kinds = dict(zip(self._rows.names, self._rows.types, strict=True))
        return frozenset(field.name for field in self.plain if kinds.get(field.name) == field.type)

    def batches(self, rows: Iterator[pa.RecordBatch]) -> Generator[pa.RecordBatch]:
        """Yield rows in the output schema."""
        if self.schema == self._rows:
            yield from rows
            return
        with Stream(rows) as batches:
            for batch in batches:
                yield self.to_output(self.to_plain(batch))

    def to_plain(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows with the requested columns and types, without encodings."""
        return batch if self.plain == self._rows else self.converted(batch, self.plain)

    def to_output(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return plain rows in the requested encodings."""
        return batch if self.schema == self.plain else self.converted(batch, self.schema)

    def converted(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        """Return rows in a schema; missing columns are null.

        Raises:
            SchemaError: A timestamp does not fit its unit, there are more distinct values than
                dictionary indices, or this version of pyarrow does not support the cast.
        """
        try:
            return batch if batch.schema == schema else _converted(batch, schema)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise SchemaError(" ".join(str(error).split()), self._where) from error

    def _check(self) -> None:
        for field in self.plain:
            index = self._rows.get_field_index(field.name)
            if index < 0:
                if not field.nullable:
                    reason = f"the table has no column {field.name!r}, so it cannot be NOT NULL"
                    raise SchemaError(reason, self._where)
                continue
            source = self._rows.field(index)
            if not holds(field.type, source.type):
                reason = f"column {field.name!r} is {source.type}: {field.type} cannot hold it"
                raise SchemaError(reason, self._where)
            if source.nullable and not field.nullable:
                reason = f"column {field.name!r} is nullable, so it cannot be read as NOT NULL"
                raise SchemaError(reason, self._where)


def _restricted(schema: pa.Schema, rows: pa.Schema, existing: Collection[str]) -> pa.Schema:
    """Return the schema without the columns that exist and were not read."""
    names, read, existing = set(schema.names), set(rows.names), set(existing)
    for name in rows.names:
        if name not in names:
            raise ConfigError("schema", f"has no column {name!r}, which is requested by name")
    fields = [f for f in schema if f.name in read or f.name not in existing]
    return pa.schema(fields, schema.metadata)


def _has_encoding(options: ReadOptions) -> bool:
    """Whether a column may be a view or dictionary-encoded."""
    is_encoded = options.wrap_partition_values or options.schema_force_view_types
    return is_encoded or options.schema is not None


def _encodings(
    schema: pa.Schema, options: ReadOptions, repeated: Collection[str | None]
) -> list[pa.DataType]:
    kinds = [field.type for field in schema]
    if options.wrap_partition_values:
        kinds = [_wrapped(field) if field.name in repeated else field.type for field in schema]
    return [view_type(kind) for kind in kinds] if options.schema_force_view_types else kinds


def _wrapped(field: pa.Field) -> pa.DataType:
    """Return the dictionary type of strings and binaries; smaller values gain nothing."""
    return pa.dictionary(_INDEX_TYPE, field.type) if field.type in _WRAPPED else field.type


def _converted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    if not len(schema):  # rows without columns still count
        return batch.select([])
    indices = {name: index for index, name in enumerate(batch.schema.names)}
    arrays = [
        _array(batch.column(indices[field.name]), field.type)
        if field.name in indices
        else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if array.type == kind:
        return array
    if not pt.is_dictionary(kind):
        return array.cast(kind)
    values = array.cast(kind.value_type).dictionary_encode()
    indices = values.indices.cast(kind.index_type)
    return pa.DictionaryArray.from_arrays(indices, values.dictionary, ordered=kind.ordered)
