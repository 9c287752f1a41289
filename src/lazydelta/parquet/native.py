"""Columns decoded by the compiled decoder, if it is installed.

Knows what it may be asked for and what has to come out. It is an option (`native/`, ADR 0029):
whoever asks must be ready to hear that pyarrow has to do it.
"""

from __future__ import annotations

import logging
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pt

from lazydelta.parquet.row_batches import rows_that_fit

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

__all__ = [
    "COMPILED_CODECS",
    "AlikeFile",
    "AlikeFiles",
    "NestedFile",
    "SortedRun",
    "compiled_alike",
    "compiled_batches",
    "has_native_decoder",
    "is_sound",
]

_log = logging.getLogger(__name__)

COMPILED_CODECS = frozenset({"UNCOMPRESSED", "SNAPPY", "ZSTD"})
"""What the decoder was built with: what Delta writers use."""
_VIEWS = {pa.string(): pa.string_view(), pa.binary(): pa.binary_view()}
_INTERFACE = 7
"""Of the decoder that is asked here; one of another number has other arguments."""


@cache
def _decoder() -> Any | None:
    try:
        import lazydelta_decoder
    except ModuleNotFoundError:
        return None
    except ImportError as error:
        _log.warning("the compiled decoder is installed but does not load: %s", error)
        return None
    if getattr(lazydelta_decoder, "INTERFACE", None) != _INTERFACE:
        _log.warning("the compiled decoder is not used: it is of another version than lazydelta")
        return None
    return lazydelta_decoder


def has_native_decoder() -> bool:
    """Whether the compiled decoder is installed."""
    return _decoder() is not None


def is_sound(footer: bytes) -> bool:
    """Whether the decoder says at once that a footer makes sense to all of its readers."""
    decoder = _decoder()
    return decoder is not None and decoder.is_sound(footer)


def compiled_batches(
    path: str,
    fields: Sequence[pa.Field],
    leaves: Sequence[int],
    row_groups: Sequence[int],
    rows: int,
    *,
    span: tuple[int, int] | None,
    kept: bytes | None,
    text_bytes: int | None,
) -> pa.RecordBatchReader | None:
    """Return columns of a file; None if pyarrow has to decode them.

    Args:
        path: The file, on this machine.
        fields: The columns, as pyarrow would decode them.
        leaves: Their places in the file.
        row_groups: Which rows.
        rows: Most of them at a time.
        span: Where to begin and end, counted from their first row; None reads all.
        kept: A bit for each row in between: whether it comes; None takes all.
        text_bytes: Most bytes that texts of a column may take in a batch, beyond which it fails;
            None leaves texts and bytes as views.
    """
    decoder = _decoder()
    if decoder is None or not _is_flat(fields, leaves):
        return None
    try:
        batches = decoder.read(
            path, list(leaves), list(row_groups), rows,
            span=span, kept=kept, text_bytes=text_bytes,
        )  # fmt: skip
        reader = pa.RecordBatchReader.from_stream(batches)
    except (OSError, ValueError):  # it is stricter than need be: pyarrow has opened this file
        return None
    return reader if _as_pyarrow(reader.schema, fields, views=text_bytes is None) else None


class NestedFile:
    """A file on this machine, whose columns are decoded nested as they are in it.

    Args:
        decoder: The decoder's own.
        schema: All columns, as pyarrow sees them.
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
        except (OSError, ValueError):  # it is stricter than need be: pyarrow has opened this file
            return None

    def batches(
        self, leaves: Sequence[int], row_groups: Sequence[int], rows: int
    ) -> pa.RecordBatchReader | None:
        """Return leaf columns, so many rows at a time; None if pyarrow has to decode them.

        Args:
            leaves: Their places.
            row_groups: Which rows.
            rows: So many of them at a time.
        """
        try:
            batches = self._decoder.read(list(leaves), list(row_groups), rows)
            reader = pa.RecordBatchReader.from_stream(batches)
        except (OSError, ValueError):
            return None
        return reader if _is_part(pa.struct(list(reader.schema)), self._whole) else None


class AlikeFiles:
    """Files with the same columns: what it takes to read them was found out from one.

    Args:
        decoder: The decoder's own, for some of the columns.
        limit: Bytes that texts of a column may take in a batch, and that a column of a row group
            may decompress to, if it is small in the file.
        views: Whether texts and bytes come as views, which take no memory of their own.
        are_renamed: Whether the columns of opened files have the names that were asked for.
    """

    def __init__(self, decoder: Any, limit: int, *, views: bool, are_renamed: bool) -> None:
        self._decoder = decoder
        self._limit = limit
        self._text_bytes = None if views else limit
        self.are_renamed = are_renamed

    def read(self, paths: Sequence[str]) -> tuple[pa.RecordBatch | None, int]:
        """Return the rows of small files, in their order, and how many files it was.

        It ends before the first that is not like the others, not small, damaged or missing: that
        one has to be read by itself, and says what is wrong.
        """
        try:
            batches, count = self._decoder.read(list(paths), text_bytes=self._text_bytes)
            (batch,) = pa.RecordBatchReader.from_stream(batches)
        except (pa.ArrowException, ValueError):  # together they are too large, say
            return None, 0
        return batch, count

    def open(self, path: str) -> AlikeFile | None:
        """Return a file of any size; None if it has to be read by itself, for the same reasons."""
        try:
            return AlikeFile(self._decoder.open(path, self._limit), self._text_bytes)
        except (OSError, ValueError):
            return None


class AlikeFile:
    """A file that is like others.

    Args:
        decoder: The decoder's own.
        text_bytes: As for `compiled_batches`.
    """

    def __init__(self, decoder: Any, text_bytes: int | None) -> None:
        self._decoder = decoder
        self._text_bytes = text_bytes
        self.num_rows: int = decoder.num_rows

    def batches(self, most: int, kept: bytes | None) -> pa.RecordBatchReader:
        """Return its rows. What is wrong with them is found out on the way.

        Args:
            most: Rows at a time; fewer where they are large.
            kept: A bit for each row: whether it comes; None takes all.

        Raises:
            ValueError: It is damaged.
        """
        rows = rows_that_fit(self.num_rows, self._decoder.size, most)
        batches = self._decoder.read(rows, kept=kept, text_bytes=self._text_bytes)
        return pa.RecordBatchReader.from_stream(batches)


class SortedRun:
    """Rows in a temporary file, in an order; only where there is a decoder.

    Args:
        run: The decoder's own.
    """

    def __init__(self, run: Any) -> None:
        self._run = run

    @classmethod
    def written(
        cls, path: str, parts: Sequence[pa.RecordBatch], order: np.ndarray, *, block_rows: int
    ) -> SortedRun:
        """Write rows to a file.

        Args:
            path: Of the file.
            parts: Where the rows are; all with the same columns.
            order: Which rows, by their places if the parts were one after the other; 32-bit.
            block_rows: How many of them are held at a time when they are taken.
        """
        rows = pa.RecordBatchReader.from_batches(parts[0].schema, parts)
        decoder: Any = _decoder()
        return cls(decoder.SortedRun(path, rows, order.astype("i4", copy=False), block_rows))

    @staticmethod
    def taken(
        runs: Sequence[SortedRun], counts: Sequence[int], order: np.ndarray
    ) -> pa.RecordBatch:
        """Return the next rows of runs; where a run lacks a column of others, it is null.

        Args:
            runs: Each of them once.
            counts: How many rows of each.
            order: Their places if those of the first run came first, and so on; 32-bit.
        """
        decoder: Any = _decoder()
        theirs = [run._run for run in runs]  # noqa: SLF001 - of this very class
        rows = decoder.take_sorted(theirs, list(counts), order.astype("i4", copy=False))
        (batch,) = pa.RecordBatchReader.from_stream(rows)
        return batch


def compiled_alike(
    path: str,
    fields: Sequence[pa.Field],
    leaves: Sequence[int],
    limit: int,
    *,
    views: bool,
    shown: pa.Schema | None = None,
) -> AlikeFiles | None:
    """Return what reads files that are like one; None if pyarrow has to decode them.

    Args:
        path: The one, on this machine.
        fields: The columns to read, as pyarrow would decode them.
        leaves: Their places in the file.
        limit: As for `AlikeFiles`.
        views: As for `AlikeFiles`.
        shown: The columns of opened files as they are to be called, of the types that they have;
            others are left as in the file.
    """
    decoder = _decoder()
    if decoder is None or not leaves or not _is_flat(fields, leaves):
        return None
    if shown is not None and shown.types != _decoded_types(fields, views=views):
        shown = None
    try:
        alike = decoder.Alike(path, list(leaves), shown=shown)
        as_pyarrow = _as_pyarrow(pa.schema(alike), fields, views=True)
    except (pa.ArrowException, ValueError):
        return None
    renamed = shown is not None
    return AlikeFiles(alike, limit, views=views, are_renamed=renamed) if as_pyarrow else None


def _is_flat(fields: Sequence[pa.Field], leaves: Sequence[int]) -> bool:
    return len(fields) == len(leaves) and not any(pt.is_nested(field.type) for field in fields)


def _is_part(found: pa.DataType, whole: pa.DataType) -> bool:
    """Whether everything of a type is the same in another one, which may have more fields."""
    if not (pt.is_struct(found) and pt.is_struct(whole)):
        return bool(found == whole)
    pairs = [(field.type, whole.get_field_index(field.name)) for field in found]
    return all(at >= 0 and _is_part(kind, whole.field(at).type) for kind, at in pairs)


def _as_pyarrow(schema: pa.Schema, fields: Sequence[pa.Field], *, views: bool) -> bool:
    """Whether the decoder sees what pyarrow sees; where not, as in old times, pyarrow is right."""
    names = [field.name for field in fields]
    return schema.names == names and schema.types == _decoded_types(fields, views=views)


def _decoded_types(fields: Sequence[pa.Field], *, views: bool) -> list[pa.DataType]:
    replaced = _VIEWS if views else {}
    return [replaced.get(field.type, field.type) for field in fields]
