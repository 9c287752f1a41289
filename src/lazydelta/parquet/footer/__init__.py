"""Footers of Parquet files: reading, validation, leaf columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta._lazy import lazy_exports

if TYPE_CHECKING:
    from lazydelta.parquet.footer.file_footer import read_footer
    from lazydelta.parquet.footer.leaf_index import int96_leaves, leaf_columns

__all__ = [
    "int96_leaves",
    "leaf_columns",
    "read_footer",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "file_footer": ("read_footer",),
        "leaf_index": ("int96_leaves", "leaf_columns"),
    },
)
