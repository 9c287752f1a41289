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

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["COMPILED_CODECS", "AlikeFiles", "compiled_alike", "compiled_batches", "has_decoder"]

_log = logging.getLogger(__name__)

COMPILED_CODECS = frozenset({"UNCOMPRESSED", "SNAPPY", "ZSTD"})
"""What the decoder was built with: what Delta writers use."""
_VIEWS = {pa.string(): pa.string_view(), pa.binary(): pa.binary_view()}
_INTERFACE = 3
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


def has_decoder() -> bool:
    """Whether the compiled decoder is installed."""
    return _decoder() is not None


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


class AlikeFiles:
    """Small files with the same columns, decoded in one go.

    Args:
        decoder: The decoder's own, for some of the columns.
        text_bytes: As for `compiled_batches`.
    """

    def __init__(self, decoder: Any, text_bytes: int | None) -> None:
        self._decoder = decoder
        self._text_bytes = text_bytes

    def read(self, paths: Sequence[str]) -> tuple[pa.RecordBatch | None, int]:
        """Return the rows of files, in their order, and how many files it was.

        It ends before the first that is not like the others, not small, damaged or missing: that
        one has to be read by itself, and says what is wrong.
        """
        try:
            batches, count = self._decoder.read(list(paths), text_bytes=self._text_bytes)
            (batch,) = pa.RecordBatchReader.from_stream(batches)
        except (pa.ArrowException, ValueError):  # together they are too large, say
            return None, 0
        return batch, count


def compiled_alike(
    path: str, fields: Sequence[pa.Field], leaves: Sequence[int], *, text_bytes: int | None
) -> AlikeFiles | None:
    """Return what reads files that are like one; None if pyarrow has to decode them.

    Args:
        path: The one, on this machine.
        fields: The columns to read, as pyarrow would decode them.
        leaves: Their places in the file.
        text_bytes: As for `compiled_batches`.
    """
    decoder = _decoder()
    if decoder is None or not leaves or not _is_flat(fields, leaves):
        return None
    try:
        alike = AlikeFiles(decoder.Alike(path, list(leaves)), text_bytes)
    except ValueError:
        return None
    batch, _ = alike.read([path])
    if batch is None or not _as_pyarrow(batch.schema, fields, views=text_bytes is None):
        return None
    return alike


def _is_flat(fields: Sequence[pa.Field], leaves: Sequence[int]) -> bool:
    return len(fields) == len(leaves) and not any(pt.is_nested(field.type) for field in fields)


def _as_pyarrow(schema: pa.Schema, fields: Sequence[pa.Field], *, views: bool) -> bool:
    """Whether the decoder sees what pyarrow sees; where not, as in old times, pyarrow is right."""
    replaced = _VIEWS if views else {}
    wanted = [(field.name, replaced.get(field.type, field.type)) for field in fields]
    return [(field.name, field.type) for field in schema] == wanted
