"""Parquet files <-> Arrow: footers, row groups, pages, statistics. Knows no log and no table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta._lazy import lazy_exports

if TYPE_CHECKING:
    from lazydelta.parquet.data_file import DataFile
    from lazydelta.parquet.datetime_rebase import (
        LegacyCalendar,
        LegacyTimestampError,
        first_unambiguous,
        legacy_calendar,
    )
    from lazydelta.parquet.native import FileTemplate, NestedFile, TemplateFile, has_native_decoder
    from lazydelta.parquet.reader import read_with_fallback
    from lazydelta.parquet.row_batches import RowBatch
    from lazydelta.parquet.row_group_filter import ColumnBounds, matching_row_groups
    from lazydelta.parquet.string_types import with_string_types
    from lazydelta.parquet.tuning import THRIFT_LIMIT

__all__ = [
    "THRIFT_LIMIT",
    "ColumnBounds",
    "DataFile",
    "FileTemplate",
    "LegacyCalendar",
    "LegacyTimestampError",
    "NestedFile",
    "RowBatch",
    "TemplateFile",
    "first_unambiguous",
    "has_native_decoder",
    "legacy_calendar",
    "matching_row_groups",
    "read_with_fallback",
    "with_string_types",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "data_file": ("DataFile",),
        "datetime_rebase": (
            "LegacyCalendar",
            "LegacyTimestampError",
            "first_unambiguous",
            "legacy_calendar",
        ),
        "native": ("FileTemplate", "NestedFile", "TemplateFile", "has_native_decoder"),
        "reader": ("read_with_fallback",),
        "row_batches": ("RowBatch",),
        "row_group_filter": ("ColumnBounds", "matching_row_groups"),
        "string_types": ("with_string_types",),
        "tuning": ("THRIFT_LIMIT",),
    },
)
