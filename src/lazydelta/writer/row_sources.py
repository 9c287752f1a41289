"""Any rows -> a schema and Arrow batches: whatever a caller has at hand can be written.

Streams stay streams. Packages are recognised by what objects offer, and none is imported here but
the one that the object itself came from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pt

from lazydelta.errors import ConfigError, SchemaMismatchError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Source", "as_source"]

_BATCH_ROWS = 1 << 18
"""Larger batches are cut: to slice costs nothing, to wait for a whole table memory."""
_HELD_BYTES = 64 << 20
"""Bytes of items that are held until every column has a type."""


@dataclass(frozen=True, slots=True)
class Source:
    """Rows to write; they can be taken once."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


def as_source(data: Any) -> Source:
    """Return rows of any kind as a stream of Arrow batches.

    Args:
        data: Anything that speaks the Arrow C interface (pyarrow, Polars, DuckDB, arro3, a `Scan`
            of ours), a pandas frame, a Polars lazy frame, a pyarrow dataset, a dict of columns, or
            an iterable of such things that have one schema.

    Raises:
        ConfigError: Nothing that rows can be taken from.
    """
    schema, batches = _opened(data)
    return Source(schema.remove_metadata(), _pieces(batches))


def _opened(data: Any) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    for is_it, opened in _KINDS:
        if is_it(data):
            return opened(data)
    raise ConfigError(
        "data",
        f"cannot take rows from {type(data).__name__}; give Arrow data, a pandas or Polars frame, "
        "a DuckDB relation, a dict of columns, or an iterable of those",
    )


def _is_of(package: str, name: str) -> Callable[[Any], bool]:
    """Return a test for a class of a package that need not be installed."""
    return lambda data: any(
        kind.__name__ == name and kind.__module__.partition(".")[0] == package
        for kind in type(data).__mro__
    )


def _pandas(data: Any) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    """Take a frame; an index that has a name is a column, row numbers are not."""
    named = [name for name in data.index.names if name is not None]
    try:
        data = data.reset_index(level=named) if named else data
        return _table(pa.Table.from_pandas(data, preserve_index=False))
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise _unfit("the frame", error) from None


def _polars(data: Any) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    _refuse_objects(data.schema)
    return _stream(data)


def _lazy_polars(data: Any) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    """Run a lazy frame as its batches are asked for; older ones only run as a whole."""
    planned = data.collect_schema()
    _refuse_objects(planned)
    if not hasattr(data, "collect_batches"):
        return _table(data.collect(engine="streaming").to_arrow())
    try:
        schema = planned.to_frame().to_arrow().schema
    except pa.ArrowException as error:
        raise _unfit("the frame", error) from None
    frames = data.collect_batches(maintain_order=True)
    return schema, (batch for frame in frames for batch in frame.to_arrow().to_batches())


def _refuse_objects(schema: Mapping[str, Any]) -> None:
    """Refuse Python objects, which Polars would hand over as the bytes of their addresses."""
    for name, kind in schema.items():
        if kind.is_object():
            raise ConfigError("data", f"column {name!r} holds Python objects; give it a type")


def _unfit(what: str, error: Exception) -> ConfigError:
    # pandas adds the column as a second argument; those of a lone surrogate hold it as it is, and
    # then the error itself could not be printed.
    whole = isinstance(error, UnicodeError)
    reason = str(error) if whole else "; ".join(map(str, error.args))
    return ConfigError("data", f"{what} cannot become Arrow columns: {reason}")


def _table(data: pa.Table) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    return data.schema, data.to_batches()


def _stream(data: Any) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    try:
        reader = pa.RecordBatchReader.from_stream(data)
    except pa.ArrowException as error:
        raise _unfit(type(data).__name__, error) from None
    return reader.schema, reader


def _reader(data: pa.RecordBatchReader) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    """Take a reader as it is: by way of the C interface its errors would lose their types."""
    return data.schema, data


def _array(data: Any) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    try:
        batch = pa.record_batch(data)
    except pa.ArrowException as error:
        raise _unfit(type(data).__name__, error) from None
    return batch.schema, [batch]


def _dataset(data: Any) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    reader = (data.scanner() if hasattr(data, "scanner") else data).to_reader()
    return reader.schema, reader


def _columns(data: Mapping[str, Any]) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    try:
        return _table(pa.table(dict(data)))
    except (pa.ArrowException, TypeError, ValueError) as error:
        cure = "rows that are dicts can be given as pyarrow.Table.from_pylist(rows)"
        raise ConfigError("data", f"the dict is not one of columns: {error}; {cure}") from None


def _iterable(data: Iterable[Any]) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    """Take items one after the other; they have one schema.

    A column that is null in a whole item has no type there, and gets that of the other items.
    Until every column has a type, items are held in memory, up to a limit.
    """
    items = map(_opened, data)
    held: list[tuple[pa.Schema, Iterable[pa.RecordBatch]]] = []
    schema: pa.Schema | None = None
    size = 0
    for found, batches in items:
        schema = found if schema is None else _unified(schema, found, len(held))
        held.append((found, batches))
        size += sum(batch.nbytes for batch in batches) if isinstance(batches, list) else 0
        if size >= _HELD_BYTES or not any(_has_null_type(field.type) for field in schema):
            break
    if schema is None:
        reason = "has nothing in it, not even a schema; give an empty table instead"
        raise ConfigError("data", reason)
    return schema, _in_schema(schema, chain(held, items))


def _in_schema(
    schema: pa.Schema, items: Iterable[tuple[pa.Schema, Iterable[pa.RecordBatch]]]
) -> Iterator[pa.RecordBatch]:
    for number, (found, batches) in enumerate(items):
        if not _unified(schema, found, number).equals(schema):
            raise _unlike(schema, found, number)
        same = found.equals(schema)
        yield from batches if same else (batch.cast(schema) for batch in batches)


def _unified(schema: pa.Schema, found: pa.Schema, number: int) -> pa.Schema:
    """Return the schema with the types of another where it has none itself."""
    if schema.equals(found):
        return schema
    if [(f.name, f.nullable) for f in schema] != [(f.name, f.nullable) for f in found]:
        raise _unlike(schema, found, number)
    kinds = [_unified_type(f.type, g.type) for f, g in zip(schema, found, strict=True)]
    if any(kind is None for kind in kinds):
        raise _unlike(schema, found, number)
    fields = [field.with_type(kind) for field, kind in zip(schema, kinds, strict=True)]
    return pa.schema(fields, schema.metadata)


def _unified_type(known: pa.DataType, found: pa.DataType) -> pa.DataType | None:
    """Return the type of both, in which the nulls of one have the type of the other, if any."""
    if known.equals(found) or pt.is_null(found):
        return known
    if pt.is_null(known):
        return found
    if pt.is_list(known) and pt.is_list(found):
        inner = _unified_type(known.value_type, found.value_type)
        return None if inner is None else pa.list_(known.value_field.with_type(inner))
    if pt.is_struct(known) and pt.is_struct(found) and _names(known) == _names(found):
        kinds = [_unified_type(f.type, g.type) for f, g in zip(known, found, strict=True)]
        if all(kind is not None for kind in kinds):
            return pa.struct([f.with_type(kind) for f, kind in zip(known, kinds, strict=True)])
    return None


def _names(kind: pa.StructType) -> list[str]:
    return [field.name for field in kind]


def _has_null_type(kind: pa.DataType) -> bool:
    if pt.is_nested(kind):
        return any(_has_null_type(kind.field(at).type) for at in range(kind.num_fields))
    return bool(pt.is_null(kind))


def _unlike(schema: pa.Schema, found: pa.Schema, number: int) -> SchemaMismatchError:
    return SchemaMismatchError(
        "the rows given",
        (f"item {number} has the columns {_shown(found)}, not {_shown(schema)}",),
        "Give all parts in one schema; nothing was committed.",
    )


def _shown(schema: pa.Schema) -> str:
    return ", ".join(
        f"{field.name}: {field.type}{'' if field.nullable else ' not null'}" for field in schema
    )


_KINDS: tuple[tuple[Callable[[Any], bool], Callable[[Any], Any]], ...] = (
    (lambda data: isinstance(data, pa.Table), _table),
    (lambda data: isinstance(data, pa.RecordBatchReader), _reader),
    (_is_of("pandas", "DataFrame"), _pandas),
    (_is_of("polars", "DataFrame"), _polars),
    (_is_of("polars", "LazyFrame"), _lazy_polars),
    (lambda data: hasattr(data, "__arrow_c_stream__"), _stream),
    (lambda data: hasattr(data, "__arrow_c_array__"), _array),
    (_is_of("pyarrow", "Dataset"), _dataset),
    (_is_of("pyarrow", "Scanner"), _dataset),
    (lambda data: isinstance(data, Mapping), _columns),
    (lambda data: isinstance(data, Iterable) and not isinstance(data, (str, bytes)), _iterable),
)


def _pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        plain = batch.replace_schema_metadata(None) if batch.schema.metadata else batch
        for start in range(0, plain.num_rows, _BATCH_ROWS):
            yield plain.slice(start, _BATCH_ROWS)
