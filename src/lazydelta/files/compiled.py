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

__all__ = ["COMPILED_CODECS", "compiled_batches", "has_decoder"]

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
    if decoder is None or len(fields) != len(leaves) or any(pt.is_nested(f.type) for f in fields):
        return None
    try:
        batches = decoder.read(
            path, list(leaves), list(row_groups), rows,
            span=span, kept=kept, text_bytes=text_bytes,
        )  # fmt: skip
        reader = pa.RecordBatchReader.from_stream(batches)
    except (OSError, ValueError):  # it is stricter than need be: pyarrow has opened this file
        return None
    views = _VIEWS if text_bytes is None else {}
    wanted = [(field.name, views.get(field.type, field.type)) for field in fields]
    # Where the two decoders see different types, as in old timestamps, pyarrow's are right.
    return reader if [(f.name, f.type) for f in reader.schema] == wanted else None
