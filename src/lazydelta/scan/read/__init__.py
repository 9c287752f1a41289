"""Reading: from planned files to Arrow batches in the table's logical schema."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta._lazy import lazy_exports

if TYPE_CHECKING:
    from lazydelta.scan.read.chosen_rows import ChosenRows
    from lazydelta.scan.read.file_stores import FileStores
    from lazydelta.scan.read.output_schema import OutputSchema, columns_to_read
    from lazydelta.scan.read.pipeline import read_ahead, threads_for
    from lazydelta.scan.read.reading import Reading, Resumption, read_files
    from lazydelta.scan.read.row_placement import PlacedRows, placed_rows
    from lazydelta.scan.read.row_projection import FileProjection, RowProjection
    from lazydelta.scan.read.transform import FileSchemaError, data_file_error

__all__ = [
    "ChosenRows",
    "FileProjection",
    "FileSchemaError",
    "FileStores",
    "OutputSchema",
    "PlacedRows",
    "Reading",
    "Resumption",
    "RowProjection",
    "columns_to_read",
    "data_file_error",
    "placed_rows",
    "read_ahead",
    "read_files",
    "threads_for",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "chosen_rows": ("ChosenRows",),
        "file_stores": ("FileStores",),
        "output_schema": ("OutputSchema", "columns_to_read"),
        "pipeline": ("read_ahead", "threads_for"),
        "row_placement": ("PlacedRows", "placed_rows"),
        "reading": ("Reading", "Resumption", "read_files"),
        "row_projection": ("FileProjection", "RowProjection"),
        "transform": ("FileSchemaError", "data_file_error"),
    },
)
