"""Columns decoded by the compiled decoder, if it is installed: texts and bytes come as views.

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

__all__ = ["VIEWED_CODECS", "viewed_batches"]

_log = logging.getLogger(__name__)

VIEWED_CODECS = frozenset({"UNCOMPRESSED", "SNAPPY", "ZSTD"})
"""What the decoder was built with: what Delta writers use."""
_VIEWS = {pa.string(): pa.string_view(), pa.binary(): pa.binary_view()}


@cache
def _decoder() -> Any | None:
    try:
        import lazydelta_decoder
    except ModuleNotFoundError:
        return None
    except ImportError as error:
        _log.warning("the compiled decoder is installed but does not load: %s", error)
        return None
    return lazydelta_decoder


def viewed_batches(
    path: str,
    fields: Sequence[pa.Field],
    leaves: Sequence[int],
    row_groups: Sequence[int],
    rows: int,
) -> pa.RecordBatchReader | None:
    """Return columns of a file whose texts and bytes are views; None if pyarrow has to decode them.

    Args:
        path: The file, on this machine.
        fields: The columns, as pyarrow would decode them.
        leaves: Their places in the file.
        row_groups: Which rows.
        rows: Most of them at a time.
    """
    decoder = _decoder()
    if decoder is None or len(fields) != len(leaves) or any(pt.is_nested(f.type) for f in fields):
        return None
    try:
        batches = decoder.read(path, list(leaves), list(row_groups), rows)
        reader = pa.RecordBatchReader.from_stream(batches)
    except (OSError, ValueError):  # it is stricter than need be: pyarrow has opened this file
        return None
    wanted = [(field.name, _VIEWS.get(field.type, field.type)) for field in fields]
    # Where the two decoders see different types, as in old timestamps, pyarrow's are right.
    return reader if [(f.name, f.type) for f in reader.schema] == wanted else None
