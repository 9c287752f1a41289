"""Local files of rows (Parquet, CSV, JSON lines) as Arrow streams."""

from __future__ import annotations

import io
from typing import IO, TYPE_CHECKING, Any, cast

import orjson
import pyarrow as pa

from lazydelta.cli import tuning
from lazydelta.errors import ConfigError
from lazydelta.formats import join_surrogates
from lazydelta.parquet import LegacyTimestampError, legacy_calendar
from lazydelta.parquet.footer import int96_leaves, read_footer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

__all__ = ["RowFiles", "row_file_kind"]

_KINDS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "tsv",
    ".json": "json",
    ".ndjson": "json",
    ".jsonl": "json",
}


class RowFiles:
    """Files to read rows from, one after the other.

    Args:
        files: Their paths.
        kind: Their format; None infers it from the names.
        table_schema: Columns with given types. Other types are inferred, from all rows of JSON and
            the first megabyte of CSV, and apply to the files that follow.
    """

    def __init__(
        self, files: Sequence[Path], kind: str | None, table_schema: pa.Schema | None
    ) -> None:
        self._files = [(file, kind or _kind(file)) for file in files]
        self._table_schema = table_schema
        self.count = 0
        """Rows read so far."""

    def readers(self) -> Iterator[pa.RecordBatchReader]:
        """Yield a reader for each file."""
        known = pa.schema([]) if self._table_schema is None else self._table_schema
        for file, kind in self._files:
            try:
                schema, batches = _OPENERS[kind](file, known)
                known = pa.unify_schemas([known, schema]) if kind != "parquet" else known
            except (pa.ArrowException, OSError, ValueError) as error:
                raise ConfigError(str(file), f"cannot be read as {kind}: {error}") from None
            yield pa.RecordBatchReader.from_batches(schema, self._counted(batches, file, kind))

    def _counted(self, batches: Any, file: Path, kind: str) -> Iterator[pa.RecordBatch]:
        try:
            for batch in batches:
                self.count += batch.num_rows
                yield batch
        except LegacyTimestampError as error:
            reason = f"cannot be read as {kind}: it has {error}. {error.cure}"
            raise ConfigError(str(file), reason) from None
        except (pa.ArrowException, OSError) as error:
            raise ConfigError(str(file), f"cannot be read as {kind}: {error}") from None


def row_file_kind(file: Path) -> str | None:
    """Return the format that the name of a file shows; None if it shows none."""
    return _KINDS.get(file.suffix.lower())


def _kind(file: Path) -> str:
    kind = row_file_kind(file)
    if kind is None:
        raise ConfigError(str(file), f"its name ends in none of {', '.join(_KINDS)}; use --format")
    return kind


def _parquet(file: Path, types: pa.Schema) -> tuple[pa.Schema, Any]:
    import pyarrow.parquet as pq

    del types
    source = pa.OSFile(str(file))
    opened = pq.ParquetFile(
        source,
        metadata=read_footer(source).metadata,
        coerce_int96_timestamp_unit="us",  # nanoseconds end in the year 2262
    )
    batches, calendar = opened.iter_batches(), legacy_calendar(opened.metadata)
    if calendar is None:
        return opened.schema_arrow, batches
    int96 = int96_leaves(opened.metadata)
    return opened.schema_arrow, (calendar.rebase_batch(batch, int96) for batch in batches)


def _csv(file: Path, types: pa.Schema, delimiter: str = ",") -> tuple[pa.Schema, Any]:
    from pyarrow import csv

    column_types = {field.name: field.type for field in types if not pa.types.is_nested(field.type)}
    reader = csv.open_csv(
        file,
        parse_options=csv.ParseOptions(delimiter=delimiter),
        convert_options=csv.ConvertOptions(
            column_types=column_types,
            strings_can_be_null=True,
            quoted_strings_can_be_null=_is_one_column(file, delimiter),
        ),
    )
    for field in reader.schema:
        if pa.types.is_binary(field.type) and field.name not in column_types:
            raise pa.ArrowInvalid(f"column {field.name!r} has strings that are not UTF-8")
    return reader.schema, reader


def _is_one_column(file: Path, delimiter: str) -> bool:
    """Whether a line has one field: a null must then be quoted, because blank lines are skipped."""
    if not file.is_file():
        return False  # a pipe can be read only once
    with file.open("rb") as opened:
        return delimiter.encode() not in opened.readline()


def _tsv(file: Path, types: pa.Schema) -> tuple[pa.Schema, Any]:
    return _csv(file, types, "\t")


def _json(file: Path, types: pa.Schema) -> tuple[pa.Schema, Any]:
    """Read the file twice: the first pass finds all columns and their types."""
    import arro3.io

    with file.open("rb") as opened:
        first = next((line for line in opened if line.strip()), None)
        if first is None:
            raise pa.ArrowInvalid("it has no rows")
        opened.seek(0)
        try:
            inferred = pa.schema(arro3.io.infer_json_schema(_normalized(opened)))
            order = list(orjson.loads(first))
        except Exception as error:  # noqa: BLE001 - its errors have no type of their own
            raise pa.ArrowInvalid(str(error)) from None
    names = sorted(
        inferred.names, key=lambda name: order.index(name) if name in order else len(order)
    )
    kinds = {field.name: field.type for field in inferred}
    kinds |= {field.name: _completed(field.type, kinds.get(field.name)) for field in types}
    schema = pa.schema([pa.field(name, kinds[name]) for name in names])
    return schema, _json_rows(file, schema)


def _json_rows(file: Path, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    import arro3.io

    with file.open("rb") as opened:
        rows = arro3.io.read_json(_normalized(opened), schema)
        yield from pa.RecordBatchReader.from_stream(rows)


def _normalized(file: IO[bytes]) -> IO[bytes]:
    return cast("IO[bytes]", _NormalizedLines(file))


class _NormalizedLines(io.RawIOBase):
    """A file of JSON lines, normalized for arro3 by `join_surrogates`, in blocks."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._buffered = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        """Fill a buffer; 0 at the end."""
        if not self._buffered:
            lines = self._file.read(tuning.JSON_BLOCK_BYTES) + self._file.readline()
            self._buffered = memoryview(join_surrogates(lines))
        count = min(len(into), len(self._buffered))
        into[:count] = self._buffered[:count]
        self._buffered = self._buffered[count:]
        return count


def _completed(table_type: pa.DataType | None, inferred: pa.DataType | None) -> pa.DataType:
    """Return the type in the table, with the nested fields that only the rows have.

    Without them the parser would drop unknown fields; whether to accept them is decided by the
    table's schema.
    """
    if table_type is None or inferred is None:
        return inferred if table_type is None else table_type
    if pa.types.is_struct(table_type) and pa.types.is_struct(inferred):
        kinds = {part.name: part.type for part in inferred}
        parts = [part.with_type(_completed(part.type, kinds.get(part.name))) for part in table_type]
        names = {part.name for part in table_type}
        return pa.struct([*parts, *(part for part in inferred if part.name not in names)])
    if pa.types.is_list(table_type) and pa.types.is_list(inferred):
        inner = table_type.value_field
        return pa.list_(inner.with_type(_completed(inner.type, inferred.value_type)))
    if pa.types.is_map(table_type) and pa.types.is_struct(inferred):
        values = table_type.item_type
        for entry in inferred:
            values = _completed(values, entry.type)
        return pa.map_(table_type.key_field, table_type.item_field.with_type(values))
    return table_type


_OPENERS = {"parquet": _parquet, "csv": _csv, "tsv": _tsv, "json": _json}
