"""Footers of Parquet files: reading, validation, leaf columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta._lazy import lazy_exports

if TYPE_CHECKING:
    from lazydelta.parquet.footer.file_footer import footer_range, read_footer
    from lazydelta.parquet.footer.leaf_index import chunk_ranges, int96_leaves, leaf_columns

__all__ = [
    "chunk_ranges",
    "footer_range",
    "int96_leaves",
    "leaf_columns",
    "read_footer",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "file_footer": ("footer_range", "read_footer"),
        "leaf_index": ("chunk_ranges", "int96_leaves", "leaf_columns"),
    },
)
