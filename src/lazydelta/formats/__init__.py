"""The other encodings of a table: JSON lines, statistics JSON, deletion vectors, variants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta._lazy import lazy_exports

if TYPE_CHECKING:
    from lazydelta.formats.deletion_vector_encoding import DeletionVectorFile
    from lazydelta.formats.deletion_vectors import DeletedRows, DeletionVectorGroup
    from lazydelta.formats.json_lines import (
        BadLineError,
        JsonLimits,
        decode_lines,
        join_surrogates,
        normalized_lines,
        object_mask,
        parse_object,
        split_lines,
    )
    from lazydelta.formats.stats_json import num_records, parse_stats
    from lazydelta.formats.variant import BadVariantError, check_shredding, unshred

__all__ = [
    "BadLineError",
    "BadVariantError",
    "DeletedRows",
    "DeletionVectorFile",
    "DeletionVectorGroup",
    "JsonLimits",
    "check_shredding",
    "decode_lines",
    "join_surrogates",
    "normalized_lines",
    "num_records",
    "object_mask",
    "parse_object",
    "parse_stats",
    "split_lines",
    "unshred",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "deletion_vector_encoding": ("DeletionVectorFile",),
        "deletion_vectors": ("DeletedRows", "DeletionVectorGroup"),
        "json_lines": (
            "BadLineError",
            "JsonLimits",
            "decode_lines",
            "join_surrogates",
            "normalized_lines",
            "object_mask",
            "parse_object",
            "split_lines",
        ),
        "stats_json": ("num_records", "parse_stats"),
        "variant": ("BadVariantError", "check_shredding", "unshred"),
    },
)
