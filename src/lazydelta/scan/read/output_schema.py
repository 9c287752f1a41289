"""How rows are shown: the columns and types that a caller asked for, and how they are encoded.

Works in two steps, since other engines filter between them: first the values (`to_plain`: the
caller's schema, without views and dictionaries, over which pyarrow cannot filter), then their
encoding (`to_shown`). Knows nothing of tables; both steps are free where nothing is asked for.
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

_CODES = pa.uint16()
_WRAPPED = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())


def columns_to_read(
    wanted: pa.Schema | None, columns: Sequence[str] | None, existing: Sequence[str]
) -> Sequence[str] | None:
    """Return the columns of a source to read; None is all.

    Args:
        wanted: The schema that rows are to be shown in.
        columns: The columns that were asked for by name.
        existing: The columns that there are.

    Raises:
        ConfigError: The schema has not what was asked for by name.
    """
    if wanted is None:
        return columns
    names = set(wanted.names)
    for name in columns or ():
        if name not in names:
            raise ConfigError("schema", f"has no column {name!r}, which is asked for by name")
    shown = set(existing if columns is None else columns)
    return [name for name in wanted.names if name in shown]


class OutputSchema:
    """The shape of rows on their way out.

    Args:
        rows: The schema of the rows as they are read.
        options: What is asked for.
        existing: The columns of the source; a column of `options.schema` that is none of them is
            null, and one that is, but was not read, is not shown.
        repeated: The columns that have one value in a file.
        where: The table, for errors.
        views: Whether the consumer can take views.
        encoded: Whether rows are encoded at all.

    Raises:
        SchemaError: A column cannot be shown in the type asked for.
        ConfigError: The schema has not a column that other options ask for.
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
        """What filters see."""
        wanted = rows
        if options.schema is not None:
            wanted = _restricted(options.schema, rows, existing)
            self.plain = with_types(wanted, [plain_type(field.type) for field in wanted])
            self._check()
        self.schema: pa.Schema = self.plain
        """What comes out."""
        if encoded and _wants_encoding(options):
            kinds = _encodings(wanted, options, {*repeated, options.file_column_name})
            if not views:
                kinds = [plain_type(kind) if is_view(kind) else kind for kind in kinds]
            self.schema = with_types(wanted, kinds)

    def unchanged(self) -> frozenset[str]:
        """Return the columns whose values filters see as they are read."""
        if self.plain is self._rows:
            return frozenset(self._rows.names)
        kinds = dict(zip(self._rows.names, self._rows.types, strict=True))
        return frozenset(field.name for field in self.plain if kinds.get(field.name) == field.type)

    def batches(self, rows: Iterator[pa.RecordBatch]) -> Generator[pa.RecordBatch]:
        """Yield rows as they are shown."""
        if self.schema == self._rows:
            yield from rows
            return
        with Stream(rows) as batches:
            for batch in batches:
                yield self.to_shown(self.to_plain(batch))

    def to_plain(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows, as they were read, with the columns and values asked for."""
        return batch if self.plain == self._rows else self.converted(batch, self.plain)

    def to_shown(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows with plain values in the encoding asked for."""
        return batch if self.schema == self.plain else self.converted(batch, self.schema)

    def converted(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        """Return rows in a schema; columns that they have not are null.

        Raises:
            SchemaError: A time does not fit its unit, there are more values than a dictionary has
                codes, or this version of pyarrow does not know the cast.
        """
        try:
            return batch if batch.schema == schema else _converted(batch, schema)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise SchemaError(" ".join(str(error).split()), self._where) from error

    def _check(self) -> None:
        for field in self.plain:
            at = self._rows.get_field_index(field.name)
            if at < 0:
                if not field.nullable:
                    reason = f"the table has no column {field.name!r}, so it cannot be NOT NULL"
                    raise SchemaError(reason, self._where)
                continue
            have = self._rows.field(at)
            if not holds(field.type, have.type):
                reason = f"column {field.name!r} is {have.type}: {field.type} cannot hold it"
                raise SchemaError(reason, self._where)
            if have.nullable and not field.nullable:
                reason = f"column {field.name!r} may be null, so it cannot be shown as NOT NULL"
                raise SchemaError(reason, self._where)


def _restricted(wanted: pa.Schema, rows: pa.Schema, existing: Collection[str]) -> pa.Schema:
    """Return the schema without the columns that exist and were not read."""
    names, read, existing = set(wanted.names), set(rows.names), set(existing)
    for name in rows.names:
        if name not in names:
            raise ConfigError("schema", f"has no column {name!r}, which is asked for by name")
    shown = [f for f in wanted if f.name in read or f.name not in existing]
    return pa.schema(shown, wanted.metadata)


def _wants_encoding(options: ReadOptions) -> bool:
    """Whether anything may be shown as a view or a dictionary."""
    wraps = options.wrap_partition_values or options.schema_force_view_types
    return wraps or options.schema is not None


def _encodings(
    wanted: pa.Schema, options: ReadOptions, repeated: Collection[str | None]
) -> list[pa.DataType]:
    kinds = [field.type for field in wanted]
    if options.wrap_partition_values:
        kinds = [_wrapped(field) if field.name in repeated else field.type for field in wanted]
    return [view_type(kind) for kind in kinds] if options.schema_force_view_types else kinds


def _wrapped(field: pa.Field) -> pa.DataType:
    """Return a dictionary of text or bytes; of smaller values it would save nothing."""
    return pa.dictionary(_CODES, field.type) if field.type in _WRAPPED else field.type


def _converted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    if not len(schema):  # rows without columns still count
        return batch.select([])
    have = {name: at for at, name in enumerate(batch.schema.names)}
    arrays = [
        _array(batch.column(have[field.name]), field.type)
        if field.name in have
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
    codes = values.indices.cast(kind.index_type)
    return pa.DictionaryArray.from_arrays(codes, values.dictionary, ordered=kind.ordered)
