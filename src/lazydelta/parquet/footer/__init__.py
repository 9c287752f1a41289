"""Footers of Parquet files: reading, validation, leaf columns."""

from __future__ import annotations

from lazydelta.parquet.footer.file_footer import read_footer
from lazydelta.parquet.footer.leaf_index import int96_leaves, leaf_columns

__all__ = [
    "int96_leaves",
    "leaf_columns",
    "read_footer",
]
