"""Footers of Parquet files: reading, validation, leaf columns."""

from __future__ import annotations

from lazydelta.parquet.footer.file_footer import footer_range, read_footer
from lazydelta.parquet.footer.leaf_index import chunk_ranges, int96_leaves, leaf_columns

__all__ = [
    "chunk_ranges",
    "footer_range",
    "int96_leaves",
    "leaf_columns",
    "read_footer",
]
