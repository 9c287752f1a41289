"""The other encodings of a table: JSON lines, statistics JSON, deletion vectors, variants."""

from __future__ import annotations

from lazydelta.formats.deletion_vectors import DeletedRows, DeletionVectorGroup
from lazydelta.formats.json_lines import (
    BadLineError,
    JsonLimits,
    are_objects,
    decode_lines,
    normalized_lines,
    parse_object,
    plain_pairs,
    split_lines,
)
from lazydelta.formats.stats_json import num_records, parse_stats
from lazydelta.formats.variant import BadVariantError, check_shredding, unshred

__all__ = [
    "BadLineError",
    "BadVariantError",
    "DeletedRows",
    "DeletionVectorGroup",
    "JsonLimits",
    "are_objects",
    "check_shredding",
    "decode_lines",
    "normalized_lines",
    "num_records",
    "parse_object",
    "parse_stats",
    "plain_pairs",
    "split_lines",
    "unshred",
]
