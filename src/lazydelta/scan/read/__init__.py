"""Reading: from planned files to Arrow batches in the table's logical schema."""

from __future__ import annotations

from lazydelta.scan.read.file_stores import FileStores
from lazydelta.scan.read.output_schema import columns_to_read
from lazydelta.scan.read.pipeline import read_ahead, threads_for
from lazydelta.scan.read.reading import read_files
from lazydelta.scan.read.row_projection import FileProjection, RowProjection
from lazydelta.scan.read.transform import FileSchemaError, data_file_error

__all__ = [
    "FileProjection",
    "FileSchemaError",
    "FileStores",
    "RowProjection",
    "columns_to_read",
    "data_file_error",
    "read_ahead",
    "read_files",
    "threads_for",
]
