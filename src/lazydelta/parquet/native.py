"""Adapter of the native decoder, if it is installed.

The decoder is optional (`native/`, ADR 0029). Where it is missing or cannot read something, the
functions return None and the caller uses pyarrow.
"""

from __future__ import annotations

import logging
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pt

from lazydelta.parquet.row_batches import batch_size
from lazydelta.parquet.row_selection import selection_bitmap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lazydelta.parquet.row_selection import RowSelection

__all__ = [
    "NATIVE_CODECS",
    "FileTemplate",
    "NestedFile",
    "TemplateFile",
    "decode_row_groups",
    "file_template",
    "has_native_decoder",
    "is_valid_footer",
]

_log = logging.getLogger(__name__)

NATIVE_CODECS = frozenset({"UNCOMPRESSED", "SNAPPY", "ZSTD"})
"""Codecs that the decoder is built with: those of Delta writers."""
_VIEWS = {pa.string(): pa.string_view(), pa.binary(): pa.binary_view()}
_INTERFACE = 8
"""Version of the decoder's interface that is called here."""


@cache
def _decoder() -> Any | None:
    try:
        import lazydelta_decoder
    except ModuleNotFoundError:
        return None
    except ImportError as error:
        _log.warning("the native decoder is installed but does not load: %s", error)
        return None
    if getattr(lazydelta_decoder, "INTERFACE", None) != _INTERFACE:
        _log.warning("the native decoder is not used: its version does not match lazydelta's")
        return None
    return lazydelta_decoder


def has_native_decoder() -> bool:
    """Whether the native decoder is installed."""
    return _decoder() is not None


def is_valid_footer(footer: bytes) -> bool:
    """Whether the decoder finds a footer valid; False also without a decoder."""
    decoder = _decoder()
    return decoder is not None and decoder.is_valid_footer(footer)


def decode_row_groups(
    path: str,
    fields: Sequence[pa.Field],
    leaves: Sequence[int],
    row_groups: Sequence[int],
    rows: int,
    *,
    row_range: tuple[int, int] | None,
    keep: bytes | None,
    max_string_bytes: int | None,
) -> pa.RecordBatchReader | None:
    """Return columns of a file; None if pyarrow has to decode them.

    Args:
        path: Of the local file.
        fields: The columns, as pyarrow decodes them.
        leaves: Their leaf indices in the file.
        row_groups: The row groups to decode.
        rows: Most rows of a batch.
        row_range: Rows to decode, counted from the first of the row groups; None decodes all.
        keep: Bitmap over that range: rows whose bit is not set are dropped; None keeps all.
        max_string_bytes: Most bytes of the strings of a column in a batch, else reading fails; None
            decodes strings and binaries as views.
    """
    decoder = _decoder()
    if decoder is None or not _is_flat(fields, leaves):
        return None
    try:
        batches = decoder.read(
            path, list(leaves), list(row_groups), rows,
            span=row_range, kept=keep, max_string_bytes=max_string_bytes,
        )  # fmt: skip
        reader = pa.RecordBatchReader.from_stream(batches)
    except (OSError, ValueError):  # the decoder is stricter than pyarrow, which opened the file
        return None
    return (
        reader if _is_like_pyarrow(reader.schema, fields, views=max_string_bytes is None) else None
    )


class NestedFile:
    """A local file whose leaf columns are decoded into nested columns.

    Args:
        decoder: The decoder's object.
        schema: All columns, as pyarrow decodes them.
    """

    def __init__(self, decoder: Any, schema: pa.Schema) -> None:
        self._decoder = decoder
        self._whole = pa.struct(list(schema))

    @classmethod
    def open(cls, path: str, schema: pa.Schema) -> NestedFile | None:
        """Return the file; None if pyarrow has to decode it."""
        decoder = _decoder()
        if decoder is None:
            return None
        try:
            return cls(decoder.NestedFile(path), schema)
        except (OSError, ValueError):  # the decoder is stricter than pyarrow, which opened the file
            return None

    def batches(
        self, leaves: Sequence[int], row_groups: Sequence[int], rows: int
    ) -> pa.RecordBatchReader | None:
        """Return leaf columns in batches; None if pyarrow has to decode them.

        Args:
            leaves: Their indices.
            row_groups: The row groups to decode.
            rows: Rows of a batch.
        """
        try:
            batches = self._decoder.read(list(leaves), list(row_groups), rows)
            reader = pa.RecordBatchReader.from_stream(batches)
        except (OSError, ValueError):
            return None
        return reader if _is_part(pa.struct(list(reader.schema)), self._whole) else None


class FileTemplate:
    """Reads columns of files with one schema, by options that were derived from one of them.

    Args:
        decoder: The decoder's object.
        limit: Most bytes of the strings of a column in a batch, and of a decompressed column of a
            row group that is small in the file.
        views: Whether strings and binaries are decoded as views.
        has_output_schema: Whether the rows of opened files have the schema of the output.
    """

    def __init__(self, decoder: Any, limit: int, *, views: bool, has_output_schema: bool) -> None:
        self._decoder = decoder
        self._limit = limit
        self._max_string_bytes = None if views else limit
        self.has_output_schema = has_output_schema

    def read(self, paths: Sequence[str]) -> tuple[pa.RecordBatch | None, int]:
        """Return the rows of small files, in their order, and the number of files.

        Stops before the first file that does not match, is not small, damaged or missing. The
        caller reads that one alone, which reports what is wrong.
        """
        try:
            batches, count = self._decoder.read(
                list(paths), max_string_bytes=self._max_string_bytes
            )
            (batch,) = pa.RecordBatchReader.from_stream(batches)
        except (pa.ArrowException, ValueError):  # for example too large in total
            return None, 0
        return batch, count

    def open(self, path: str) -> TemplateFile | None:
        """Return a file of any size; None if the caller has to read it alone."""
        try:
            return TemplateFile(self._decoder.open(path, self._limit), self._max_string_bytes)
        except (OSError, ValueError):
            return None


class TemplateFile:
    """A file that matches a template.

    Args:
        decoder: The decoder's object.
        max_string_bytes: As for `decode_row_groups`.
    """

    def __init__(self, decoder: Any, max_string_bytes: int | None) -> None:
        self._decoder = decoder
        self._max_string_bytes = max_string_bytes
        self.num_rows: int = decoder.num_rows

    def batches(self, batch_rows: int, keep: RowSelection | None = None) -> pa.RecordBatchReader:
        """Return its rows in batches.

        Args:
            batch_rows: Maximum rows of a batch; fewer where they are large.
            keep: The rows to keep; the others are dropped. None keeps all.

        Raises:
            ValueError: It is damaged.
        """
        rows = batch_size(self.num_rows, self._decoder.size, batch_rows)
        bitmap = None if keep is None else selection_bitmap(keep, 0, self.num_rows)
        batches = self._decoder.read(rows, kept=bitmap, max_string_bytes=self._max_string_bytes)
        return pa.RecordBatchReader.from_stream(batches)


def file_template(
    path: str,
    fields: Sequence[pa.Field],
    leaves: Sequence[int],
    limit: int,
    *,
    views: bool,
    output_schema: pa.Schema | None = None,
) -> FileTemplate | None:
    """Return the template of a file; None if pyarrow has to decode such files.

    Args:
        path: Of the local file.
        fields: The columns to read, as pyarrow decodes them.
        leaves: Their leaf indices in the file.
        limit: As for `FileTemplate`.
        views: As for `FileTemplate`.
        output_schema: Schema of the rows of opened files; ignored if the types differ.
    """
    decoder = _decoder()
    if decoder is None or not leaves or not _is_flat(fields, leaves):
        return None
    if output_schema is not None and output_schema.types != _decoded_types(fields, views=views):
        output_schema = None
    try:
        template = decoder.FileTemplate(path, list(leaves), shown=output_schema)
        is_like_pyarrow = _is_like_pyarrow(pa.schema(template), fields, views=True)
    except (pa.ArrowException, ValueError):
        return None
    if not is_like_pyarrow:
        return None
    has_output_schema = output_schema is not None
    return FileTemplate(template, limit, views=views, has_output_schema=has_output_schema)


def _is_flat(fields: Sequence[pa.Field], leaves: Sequence[int]) -> bool:
    return len(fields) == len(leaves) and not any(pt.is_nested(field.type) for field in fields)


def _is_part(decoded: pa.DataType, whole: pa.DataType) -> bool:
    """Whether a type is part of another one, which may have more struct fields."""
    if not (pt.is_struct(decoded) and pt.is_struct(whole)):
        return bool(decoded == whole)
    pairs = [(field.type, whole.get_field_index(field.name)) for field in decoded]
    return all(index >= 0 and _is_part(kind, whole.field(index).type) for kind, index in pairs)


def _is_like_pyarrow(schema: pa.Schema, fields: Sequence[pa.Field], *, views: bool) -> bool:
    """Whether the decoder returns the names and types of pyarrow; INT96 timestamps differ."""
    names = [field.name for field in fields]
    return schema.names == names and schema.types == _decoded_types(fields, views=views)


def _decoded_types(fields: Sequence[pa.Field], *, views: bool) -> list[pa.DataType]:
    replaced = _VIEWS if views else {}
    return [replaced.get(field.type, field.type) for field in fields]
