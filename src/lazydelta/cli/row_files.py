"""Local files of rows (Parquet, CSV, JSON lines) as Arrow streams."""

from __future__ import annotations

import io
from typing import IO, TYPE_CHECKING, Any, cast

import orjson
import pyarrow as pa

from lazydelta.errors import ConfigError
from lazydelta.formats import join_surrogates
from lazydelta.parquet import LegacyTimestampError, legacy_calendar
from lazydelta.parquet.footer import int96_leaves, read_footer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

__all__ = ["RowFiles"]

_BLOCK_BYTES = 1 << 20
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
        known: Columns with known types. Types of other columns are inferred, from all rows of
            JSON and the first megabyte of CSV, and apply to the files that follow.
    """

    def __init__(self, files: Sequence[Path], kind: str | None, known: pa.Schema | None) -> None:
        self._files = [(file, kind or _kind(file)) for file in files]
        self._known = known
        self.count = 0
        """Rows read so far."""

    def readers(self) -> Iterator[pa.RecordBatchReader]:
        """Yield a reader for each file."""
        known = pa.schema([]) if self._known is None else self._known
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


def _kind(file: Path) -> str:
    kind = _KINDS.get(file.suffix.lower())
    if kind is None:
        raise ConfigError(str(file), f"its name ends in none of {', '.join(_KINDS)}; use --format")
    return kind


def _parquet(file: Path, known: pa.Schema) -> tuple[pa.Schema, Any]:
    import pyarrow.parquet as pq

    del known
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


def _csv(file: Path, known: pa.Schema, delimiter: str = ",") -> tuple[pa.Schema, Any]:
    from pyarrow import csv

    types = {field.name: field.type for field in known if not pa.types.is_nested(field.type)}
    reader = csv.open_csv(
        file,
        parse_options=csv.ParseOptions(delimiter=delimiter),
        convert_options=csv.ConvertOptions(
            column_types=types,
            strings_can_be_null=True,
            quoted_strings_can_be_null=_is_one_column(file, delimiter),
        ),
    )
    for field in reader.schema:
        if pa.types.is_binary(field.type) and field.name not in types:
            raise pa.ArrowInvalid(f"column {field.name!r} has strings that are not UTF-8")
    return reader.schema, reader


def _is_one_column(file: Path, delimiter: str) -> bool:
    """Whether a line has one field: a null must then be quoted, because blank lines are skipped."""
    if not file.is_file():
        return False  # a pipe can be read only once
    with file.open("rb") as opened:
        return delimiter.encode() not in opened.readline()


def _tsv(file: Path, known: pa.Schema) -> tuple[pa.Schema, Any]:
    return _csv(file, known, "\t")


def _json(file: Path, known: pa.Schema) -> tuple[pa.Schema, Any]:
    """Read the file twice: the first pass finds all columns and their types."""
    import arro3.io

    with file.open("rb") as opened:
        first = next((line for line in opened if line.strip()), None)
        if first is None:
            raise pa.ArrowInvalid("it has no rows")
        opened.seek(0)
        try:
            guessed = pa.schema(arro3.io.infer_json_schema(_plain_text(opened)))
            order = list(orjson.loads(first))
        except Exception as error:  # noqa: BLE001 - its errors have no type of their own
            raise pa.ArrowInvalid(str(error)) from None
    names = sorted(
        guessed.names, key=lambda name: order.index(name) if name in order else len(order)
    )
    kinds = {field.name: field.type for field in guessed}
    kinds |= {field.name: _completed(field.type, kinds.get(field.name)) for field in known}
    schema = pa.schema([pa.field(name, kinds[name]) for name in names])
    return schema, _json_rows(file, schema)


def _json_rows(file: Path, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    import arro3.io

    with file.open("rb") as opened:
        rows = arro3.io.read_json(_plain_text(opened), schema)
        yield from pa.RecordBatchReader.from_stream(rows)


def _plain_text(file: IO[bytes]) -> IO[bytes]:
    return cast("IO[bytes]", _PlainText(file))


class _PlainText(io.RawIOBase):
    """A file of JSON lines in the form that arro3 parses correctly (`join_surrogates`), in blocks."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._text = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        """Fill a buffer; 0 at the end."""
        if not self._text:
            lines = self._file.read(_BLOCK_BYTES) + self._file.readline()
            self._text = memoryview(join_surrogates(lines))
        count = min(len(into), len(self._text))
        into[:count] = self._text[:count]
        self._text = self._text[count:]
        return count


def _completed(known: pa.DataType | None, found: pa.DataType | None) -> pa.DataType:
    """Return a known type, with the nested fields that only the rows have.

    Without them the parser would drop unknown fields; whether to accept them is decided by the
    table's schema.
    """
    if known is None or found is None:
        return found if known is None else known
    if pa.types.is_struct(known) and pa.types.is_struct(found):
        kinds = {part.name: part.type for part in found}
        parts = [part.with_type(_completed(part.type, kinds.get(part.name))) for part in known]
        names = {part.name for part in known}
        return pa.struct([*parts, *(part for part in found if part.name not in names)])
    if pa.types.is_list(known) and pa.types.is_list(found):
        inner = known.value_field
        return pa.list_(inner.with_type(_completed(inner.type, found.value_type)))
    if pa.types.is_map(known) and pa.types.is_struct(found):
        values = known.item_type
        for entry in found:
            values = _completed(values, entry.type)
        return pa.map_(known.key_field, known.item_field.with_type(values))
    return known


_OPENERS = {"parquet": _parquet, "csv": _csv, "tsv": _tsv, "json": _json}
