"""Print rows as a table on a terminal, as tab-separated lines, NDJSON, CSV or Parquet.

Batches are written as they arrive and none is kept, so memory does not grow with the result.
"""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click
import orjson
import pyarrow as pa
import pyarrow.types as pt

from lazydelta._arrow import string_scalar
from lazydelta.cli import tuning
from lazydelta.cli.column_formats import join_lines, printable, to_json, to_string
from lazydelta.cli.output import Output, visible
from lazydelta.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lazydelta.cli.common_options import State

__all__ = ["row_options", "show_rows"]

F = TypeVar("F", bound=Callable[..., Any])

_TAB, _CLOSE = map(string_scalar, "\t}")
_BLANK = re.compile(rb"(\r\n)(?=\r\n)")


def row_options(function: F) -> F:
    """Add `--csv` and `--parquet` to a command; every command has `--json`."""
    for option in (
        click.option(
            "--parquet",
            metavar="OUT",
            type=click.Path(dir_okay=False),
            help="Write the rows to a new Parquet file.",
        ),
        click.option("--csv", "as_csv", is_flag=True, help="Print CSV with a header."),
    ):
        function = option(function)
    return function


def show_rows(
    state: State, rows: pa.RecordBatchReader, *, as_csv: bool, parquet: str | None
) -> None:
    """Write rows in the requested format, or in the one that suits standard output.

    Args:
        state: The common options.
        rows: The rows; the reader is closed.
        as_csv: Whether to print CSV.
        parquet: The Parquet file to write instead.
    """
    with rows:
        if sum((as_csv, state.json, parquet is not None)) > 1:
            raise click.UsageError("--csv, --json and --parquet exclude each other")
        if parquet is not None:
            count = _write_parquet(rows, parquet)
            if not state.quiet:
                click.echo(f"{count:,} row{'' if count == 1 else 's'} in {parquet}", err=True)
            return
        is_terminal = sys.stdout.isatty() and not as_csv and not state.json
        printer: _Printer = (
            _Table(rows.schema)
            if is_terminal
            else _Lines(rows.schema, "json" if state.json else "csv" if as_csv else "tsv")
        )
        for batch in rows:
            if batch.num_rows:
                printer.show(batch)
        printer.finish()


class _Printer(Protocol):
    """Prints batches, and completes the output at the end."""

    def show(self, batch: pa.RecordBatch) -> None:
        """Print a batch that is not empty."""

    def finish(self) -> None:
        """Complete the output."""


class _Lines:
    """One line per row, each batch as it arrives."""

    def __init__(self, schema: pa.Schema, style: str) -> None:
        self._format = {"json": _ndjson, "csv": _csv, "tsv": _tsv}[style]
        self._stream = sys.stdout.buffer
        if style == "csv":
            self._stream.write(_csv_header(schema))

    def show(self, batch: pa.RecordBatch) -> None:
        self._stream.write(self._format(batch))
        self._stream.flush()

    def finish(self) -> None:
        self._stream.flush()


class _Table:
    """Aligned columns under a header; many rows are printed as several tables.

    If the columns do not fit the terminal, each value has its own line.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._names = [visible(name) for name in schema.names]
        self._pending: list[tuple[Any, ...]] = []
        self._is_empty = True
        self._printed = 0

    def show(self, batch: pa.RecordBatch) -> None:
        self._pending += _cells(batch)
        while len(self._pending) >= tuning.TABLE_ROWS:
            self._print(self._pending[: tuning.TABLE_ROWS])
            del self._pending[: tuning.TABLE_ROWS]

    def finish(self) -> None:
        if self._pending:
            self._print(self._pending)
        if self._is_empty:
            click.echo("no rows")

    def _print(self, rows: list[tuple[Any, ...]]) -> None:
        self._is_empty = False
        if self._fits(rows):
            Output(json=False).table(self._names, [tuple(map(_truncate, row)) for row in rows])
        else:
            self._print_vertical(rows)

    def _fits(self, rows: list[tuple[Any, ...]]) -> bool:
        """Whether all columns fit the width of the terminal."""
        import shutil  # slow to import

        columns = zip(self._names, *rows, strict=True)
        widths = (min(max(map(len, column)), tuning.MAX_CELL_WIDTH) for column in columns)
        return sum(width + 3 for width in widths) <= shutil.get_terminal_size().columns

    def _print_vertical(self, rows: list[tuple[Any, ...]]) -> None:
        """Print one line per value."""
        width = max(map(len, self._names))
        for row in rows:
            self._printed += 1
            click.echo(click.style(f"row {self._printed:,}", bold=True))
            for name, value in zip(self._names, row, strict=True):
                click.echo(f"  {name:<{width}}  {visible(str(value))}")


def _truncate(value: str) -> str:
    width = tuning.MAX_CELL_WIDTH
    return value if len(value) <= width else value[: width - 1] + "…"


def _cells(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    columns = []
    for array in batch.columns:
        values = to_string(array).to_pylist()
        columns.append(["null" if value is None else value for value in values])
    return zip(*columns, strict=True)


def _ndjson(batch: pa.RecordBatch) -> bytes:
    parts: list[pa.Array | pa.Scalar] = []
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        opening = string_scalar(f"{',' if parts else '{'}{orjson.dumps(name).decode()}:")
        parts += [opening, to_json(array)]
    return join_lines([*parts, _CLOSE])


def _tsv(batch: pa.RecordBatch) -> bytes:
    parts = [part for array in batch.columns for part in (_TAB, printable(array))]
    return join_lines(parts[1:])


def _csv(batch: pa.RecordBatch) -> bytes:
    import pyarrow.csv as pa_csv

    arrays = [_csv_field(array) for array in batch.columns]
    sink = io.BytesIO()
    options = pa_csv.WriteOptions(include_header=False, eol="\r\n")
    flat = pa.RecordBatch.from_arrays(arrays, [str(index) for index in range(len(arrays))])
    pa_csv.write_csv(flat, sink, options)
    if len(arrays) == 1 and arrays[0].null_count:
        return _quote_nulls(sink.getvalue())
    return sink.getvalue()


def _quote_nulls(lines: bytes) -> bytes:
    """Return lines of one field with nulls as `""`, because most readers skip blank lines.

    A blank line within a quoted value stays: the number of quotes before it is odd.
    """
    pieces = lines.split(b'"')
    outside = [_BLANK.sub(b'\\1""', piece) for piece in pieces[::2]]
    if lines.startswith(b"\r\n"):
        outside[0] = b'""' + outside[0]
    pieces[::2] = outside
    return b'"'.join(pieces)


def _csv_field(array: pa.Array) -> pa.Array:
    kind = array.type
    is_plain = pt.is_boolean(kind) or pt.is_integer(kind) or pt.is_floating(kind)
    return array if is_plain else to_string(array)


def _csv_header(schema: pa.Schema) -> bytes:
    sink = io.StringIO(newline="")
    csv.writer(sink).writerow(schema.names)
    return sink.getvalue().encode()


def _write_parquet(rows: pa.RecordBatchReader, target: str) -> int:
    """Write all rows to a new file, or none; return their number."""
    from pathlib import Path  # slow to import

    import pyarrow.parquet as pq

    path, count = Path(target), 0
    try:
        sink = path.open("xb")
    except OSError as error:
        reason = "it exists already" if isinstance(error, FileExistsError) else error.strerror
        raise ConfigError("--parquet", f"cannot write {path}: {reason}") from None
    try:
        with sink, pq.ParquetWriter(sink, rows.schema, compression="zstd") as writer:
            for batch in rows:
                writer.write_batch(batch)
                count += batch.num_rows
    except BaseException as error:
        path.unlink(missing_ok=True)
        if isinstance(error, pa.ArrowNotImplementedError):  # such as an interval of SQL
            raise ConfigError("--parquet", f"a column does not fit: {error}; cast it") from None
        raise
    return count
