"""Convert a caller's rows into a schema and a stream of Arrow batches.

Streams stay streams. Objects are recognized by their interface or class name, so that no optional
package is imported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pt

from lazydelta.errors import ConfigError, SchemaMismatchError
from lazydelta.writer import tuning

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["RowSource", "as_source"]


@dataclass(frozen=True, slots=True)
class RowSource:
    """Rows to write; `batches` can be consumed once."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


def as_source(data: Any) -> RowSource:
    """Return rows of any kind as a stream of Arrow batches.

    Args:
        data: An object with the Arrow C interface (pyarrow, Polars, DuckDB, arro3, a `Scan`), a
            pandas DataFrame, a Polars LazyFrame, a pyarrow dataset, a dict of columns, or an
            iterable of these with one schema.

    Raises:
        ConfigError: The object has no rows to read.
    """
    schema, batches = _open(data)
    return RowSource(schema.remove_metadata(), _slices(batches))


def _open(data: Any) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    for matches, opener in _OPENERS:
        if matches(data):
            return opener(data)
    raise ConfigError(
        "data",
        f"cannot read rows from {type(data).__name__}; use Arrow data, a pandas or Polars frame, "
        "a DuckDB relation, a dict of columns, or an iterable of those",
    )


def _is_instance(package: str, name: str) -> Callable[[Any], bool]:
    """Return an `isinstance` test for a class of a package that may not be installed."""
    return lambda data: any(
        kind.__name__ == name and kind.__module__.partition(".")[0] == package
        for kind in type(data).__mro__
    )


def _pandas(data: Any) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    """Open a DataFrame; index levels with a name become columns, others are dropped."""
    levels = [name for name in data.index.names if name is not None]
    try:
        data = data.reset_index(level=levels) if levels else data
        return _table(pa.Table.from_pandas(data, preserve_index=False))
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise _conversion_error("the frame", error) from None


def _polars(data: Any) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    _refuse_objects(data.schema)
    return _stream(data)


def _lazy_polars(data: Any) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    """Open a LazyFrame as a stream; Polars without `collect_batches` collects it first."""
    planned = data.collect_schema()
    _refuse_objects(planned)
    if not hasattr(data, "collect_batches"):
        return _table(data.collect(engine="streaming").to_arrow())
    try:
        schema = planned.to_frame().to_arrow().schema
    except pa.ArrowException as error:
        raise _conversion_error("the frame", error) from None
    frames = data.collect_batches(maintain_order=True)
    return schema, (batch for frame in frames for batch in frame.to_arrow().to_batches())


def _refuse_objects(schema: Mapping[str, Any]) -> None:
    """Refuse Python objects, which Polars would export as the bytes of their addresses."""
    for name, kind in schema.items():
        if kind.is_object():
            raise ConfigError("data", f"column {name!r} has Python objects; cast it to a type")


def _conversion_error(what: str, error: Exception) -> ConfigError:
    # pandas adds the column as a second argument. The arguments of a UnicodeError contain the
    # lone surrogate itself, and a message with it could not be printed.
    is_unicode = isinstance(error, UnicodeError)
    reason = str(error) if is_unicode else "; ".join(map(str, error.args))
    return ConfigError("data", f"cannot convert {what} to Arrow: {reason}")


def _table(data: pa.Table) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    return data.schema, data.to_batches()


def _stream(data: Any) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    try:
        reader = pa.RecordBatchReader.from_stream(data)
    except pa.ArrowException as error:
        raise _conversion_error(type(data).__name__, error) from None
    return reader.schema, reader


def _reader(data: pa.RecordBatchReader) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    """Use a reader directly: its errors would lose their types in the C interface."""
    return data.schema, data


def _array(data: Any) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    try:
        batch = pa.record_batch(data)
    except pa.ArrowException as error:
        raise _conversion_error(type(data).__name__, error) from None
    return batch.schema, [batch]


def _dataset(data: Any) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    reader = (data.scanner() if hasattr(data, "scanner") else data).to_reader()
    return reader.schema, reader


def _columns(data: Mapping[str, Any]) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    try:
        return _table(pa.table(dict(data)))
    except (pa.ArrowException, TypeError, ValueError) as error:
        cure = "for rows as dicts use pyarrow.Table.from_pylist(rows)"
        raise ConfigError("data", f"the dict is not a dict of columns: {error}; {cure}") from None


def _iterable(data: Iterable[Any]) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    """Open an iterable of items with one schema, as a stream.

    A column that is all null in an item may have the null type there, and gets its type from
    another item. Until every column has a type, items are buffered, up to a limit.
    """
    items = map(_open, data)
    buffered: list[tuple[pa.Schema, Iterable[pa.RecordBatch]]] = []
    schema: pa.Schema | None = None
    size = 0
    for item, batches in items:
        schema = item if schema is None else _unified(schema, item, len(buffered))
        buffered.append((item, batches))
        size += sum(batch.nbytes for batch in batches) if isinstance(batches, list) else 0
        if size >= tuning.BUFFERED_BYTES or not any(_has_null_type(field.type) for field in schema):
            break
    if schema is None:
        reason = "is empty and has no schema; use an empty table instead"
        raise ConfigError("data", reason)
    return schema, _cast_items(schema, chain(buffered, items))


def _cast_items(
    schema: pa.Schema, items: Iterable[tuple[pa.Schema, Iterable[pa.RecordBatch]]]
) -> Iterator[pa.RecordBatch]:
    for number, (item, batches) in enumerate(items):
        if not _unified(schema, item, number).equals(schema):
            raise _mismatch(schema, item, number)
        same = item.equals(schema)
        yield from batches if same else (batch.cast(schema) for batch in batches)


def _unified(schema: pa.Schema, item: pa.Schema, number: int) -> pa.Schema:
    """Return the schema with null types replaced by those of another one."""
    if schema.equals(item):
        return schema
    if [(f.name, f.nullable) for f in schema] != [(f.name, f.nullable) for f in item]:
        raise _mismatch(schema, item, number)
    kinds = [_unified_type(f.type, g.type) for f, g in zip(schema, item, strict=True)]
    if any(kind is None for kind in kinds):
        raise _mismatch(schema, item, number)
    fields = [field.with_type(kind) for field, kind in zip(schema, kinds, strict=True)]
    return pa.schema(fields, schema.metadata)


def _unified_type(left: pa.DataType, item: pa.DataType) -> pa.DataType | None:
    """Return the common type, null types replaced by the other's; None if there is none."""
    if left.equals(item) or pt.is_null(item):
        return left
    if pt.is_null(left):
        return item
    if pt.is_list(left) and pt.is_list(item):
        inner = _unified_type(left.value_type, item.value_type)
        return None if inner is None else pa.list_(left.value_field.with_type(inner))
    if pt.is_struct(left) and pt.is_struct(item) and _names(left) == _names(item):
        kinds = [_unified_type(f.type, g.type) for f, g in zip(left, item, strict=True)]
        if all(kind is not None for kind in kinds):
            return pa.struct([f.with_type(kind) for f, kind in zip(left, kinds, strict=True)])
    return None


def _names(kind: pa.StructType) -> list[str]:
    return [field.name for field in kind]


def _has_null_type(kind: pa.DataType) -> bool:
    if pt.is_nested(kind):
        return any(_has_null_type(kind.field(index).type) for index in range(kind.num_fields))
    return bool(pt.is_null(kind))


def _mismatch(schema: pa.Schema, item: pa.Schema, number: int) -> SchemaMismatchError:
    return SchemaMismatchError(
        "the input",
        (f"item {number} has the columns {_format(item)}, not {_format(schema)}",),
        "Write items of one schema; nothing was committed.",
    )


def _format(schema: pa.Schema) -> str:
    return ", ".join(
        f"{field.name}: {field.type}{'' if field.nullable else ' not null'}" for field in schema
    )


_OPENERS: tuple[tuple[Callable[[Any], bool], Callable[[Any], Any]], ...] = (
    (lambda data: isinstance(data, pa.Table), _table),
    (lambda data: isinstance(data, pa.RecordBatchReader), _reader),
    (_is_instance("pandas", "DataFrame"), _pandas),
    (_is_instance("polars", "DataFrame"), _polars),
    (_is_instance("polars", "LazyFrame"), _lazy_polars),
    (lambda data: hasattr(data, "__arrow_c_stream__"), _stream),
    (lambda data: hasattr(data, "__arrow_c_array__"), _array),
    (_is_instance("pyarrow", "Dataset"), _dataset),
    (_is_instance("pyarrow", "Scanner"), _dataset),
    (lambda data: isinstance(data, Mapping), _columns),
    (lambda data: isinstance(data, Iterable) and not isinstance(data, (str, bytes)), _iterable),
)


def _slices(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        plain = batch.replace_schema_metadata(None) if batch.schema.metadata else batch
        for start in range(0, plain.num_rows, tuning.BATCH_ROWS):
            yield plain.slice(start, tuning.BATCH_ROWS)
