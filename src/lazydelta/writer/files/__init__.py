"""Data files and change data files: layout, partitioning, sizing, encoding."""

from __future__ import annotations

from lazydelta.writer.files.change_files import ChangeType, read_added_rows, write_change_files
from lazydelta.writer.files.data_files import write_data_files
from lazydelta.writer.files.deletion_vector_files import DeletionVectorWriter
from lazydelta.writer.files.layout import DataLayout, statistics_columns
from lazydelta.writer.files.partition_router import (
    encode_path,
    escape_name,
    partition_directory,
    partition_values_of,
)

__all__ = [
    "ChangeType",
    "DataLayout",
    "DeletionVectorWriter",
    "encode_path",
    "escape_name",
    "partition_directory",
    "partition_values_of",
    "read_added_rows",
    "statistics_columns",
    "write_change_files",
    "write_data_files",
]
