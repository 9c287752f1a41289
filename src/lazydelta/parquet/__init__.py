"""Parquet files <-> Arrow: footers, row groups, pages, statistics. Knows no log and no table."""

from __future__ import annotations

from lazydelta.parquet.datetime_rebase import (
    LegacyCalendar,
    LegacyTimestampError,
    first_certain,
    legacy_calendar,
)
from lazydelta.parquet.file_schema import FileSchema
from lazydelta.parquet.file_writer import Encoding, ParquetEncoder, dictionary_columns
from lazydelta.parquet.footer import THRIFT_LIMIT, read_footer
from lazydelta.parquet.native import FileTemplate, NestedFile, TemplateFile, has_native_decoder
from lazydelta.parquet.reader import DataFile
from lazydelta.parquet.row_batches import Rows
from lazydelta.parquet.row_group_filter import (
    ColumnBounds,
    int96_leaves,
    leaf_columns,
    matching_row_groups,
)
from lazydelta.parquet.row_selection import chosen_template_rows, selected_rows
from lazydelta.parquet.statistics import StatisticsPlan
from lazydelta.parquet.string_types import with_string_types

__all__ = [
    "THRIFT_LIMIT",
    "ColumnBounds",
    "DataFile",
    "Encoding",
    "FileSchema",
    "FileTemplate",
    "LegacyCalendar",
    "LegacyTimestampError",
    "NestedFile",
    "ParquetEncoder",
    "Rows",
    "StatisticsPlan",
    "TemplateFile",
    "chosen_template_rows",
    "dictionary_columns",
    "first_certain",
    "has_native_decoder",
    "int96_leaves",
    "leaf_columns",
    "legacy_calendar",
    "matching_row_groups",
    "read_footer",
    "selected_rows",
    "with_string_types",
]
