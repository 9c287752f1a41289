"""Local files of rows (Parquet, CSV, JSON lines) as Arrow streams. Knows nothing of tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa

from lazydelta.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

__all__ = ["RowFiles"]

_KINDS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "tsv",
    ".json": "json",
    ".ndjson": "json",
    ".jsonl": "json",
}


_GUESSED_ROWS = 10_000
"""Rows of JSON that types are guessed from; CSV goes by its first megabyte."""


class RowFiles:
    """Files to take rows from, one after the other.

    Args:
        files: Where they are.
        kind: What they are; None goes by their names.
        known: Columns whose types are known; those of other columns are guessed, and what is
            guessed from the first file holds for the others.
    """

    def __init__(self, files: Sequence[Path], kind: str | None, known: pa.Schema | None) -> None:
        self._files = [(file, kind or _kind(file)) for file in files]
        self._known = known
        self.count = 0
        """Rows taken so far."""

    def readers(self) -> Iterator[pa.RecordBatchReader]:
        """Yield the rows of each file."""
        known = pa.schema([]) if self._known is None else self._known
        for file, kind in self._files:
            try:
                schema, batches = _OPENERS[kind](file, known)
                known = pa.unify_schemas([known, schema]) if kind != "parquet" else known
            except (pa.ArrowException, OSError) as error:
                raise ConfigError(str(file), f"cannot be read as {kind}: {error}") from None
            yield pa.RecordBatchReader.from_batches(schema, self._counted(batches, file, kind))

    def _counted(self, batches: Any, file: Path, kind: str) -> Iterator[pa.RecordBatch]:
        try:
            for batch in batches:
                self.count += batch.num_rows
                yield batch
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
    opened = pq.ParquetFile(file)
    return opened.schema_arrow, opened.iter_batches()


def _csv(file: Path, known: pa.Schema, delimiter: str = ",") -> tuple[pa.Schema, Any]:
    from pyarrow import csv

    types = {field.name: field.type for field in known if not pa.types.is_nested(field.type)}
    reader = csv.open_csv(
        file,
        parse_options=csv.ParseOptions(delimiter=delimiter),
        convert_options=csv.ConvertOptions(
            column_types=types, strings_can_be_null=True, quoted_strings_can_be_null=False
        ),
    )
    return reader.schema, reader


def _tsv(file: Path, known: pa.Schema) -> tuple[pa.Schema, Any]:
    return _csv(file, known, "\t")


def _json(file: Path, known: pa.Schema) -> tuple[pa.Schema, Any]:
    import arro3.io

    with file.open("rb") as opened:
        first = opened.readline()
        opened.seek(0)
        try:
            guessed = pa.schema(arro3.io.infer_json_schema(opened, max_records=_GUESSED_ROWS))
            order = list(orjson.loads(first))
        except Exception as error:  # noqa: BLE001 - its errors have no type of their own
            raise pa.ArrowInvalid(str(error)) from None
    types = {field.name: field for field in [*guessed, *known]}
    names = sorted(
        guessed.names, key=lambda name: order.index(name) if name in order else len(order)
    )
    schema = pa.schema([types[name] for name in names])
    reader = pa.RecordBatchReader.from_stream(arro3.io.read_json(str(file), schema))
    return reader.schema, reader


_OPENERS = {"parquet": _parquet, "csv": _csv, "tsv": _tsv, "json": _json}
