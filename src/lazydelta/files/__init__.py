"""Bytes <-> Arrow: JSON lines, statistics, data files, deletion vectors, variants.

Knows no log, no versions, no tables.
"""

from __future__ import annotations

from lazydelta.files.calendar import OldCalendar, first_certain, old_calendar
from lazydelta.files.chosen import chosen_alike, chosen_rows
from lazydelta.files.collect import StatisticsPlan
from lazydelta.files.compiled import (
    AlikeFile,
    AlikeFiles,
    NestedFile,
    SortedRun,
    has_decoder,
)
from lazydelta.files.encode import Encoding, ParquetEncoder, dictionary_columns
from lazydelta.files.footer import (
    ColumnBounds,
    int96_leaves,
    leaf_columns,
    matching_row_groups,
)
from lazydelta.files.joined import JoinedFile, write_gently
from lazydelta.files.json_lines import (
    BadLineError,
    JsonLimits,
    are_objects,
    decode_lines,
    parse_object,
    plain_pairs,
    split_lines,
    tidy_lines,
)
from lazydelta.files.parquet import DataFile
from lazydelta.files.pieces import Piece
from lazydelta.files.rows import Rows
from lazydelta.files.shape import FileShape
from lazydelta.files.stats import num_records, parse_stats
from lazydelta.files.tail import THRIFT_LIMIT, read_footer
from lazydelta.files.texts import with_texts
from lazydelta.files.variant import BadVariantError, check_shredding, unshredded
from lazydelta.files.vectors import DeletedRows, VectorGroup
from lazydelta.files.zones import UnknownZoneError

__all__ = [
    "THRIFT_LIMIT",
    "AlikeFile",
    "AlikeFiles",
    "BadLineError",
    "BadVariantError",
    "ColumnBounds",
    "DataFile",
    "DeletedRows",
    "Encoding",
    "FileShape",
    "JoinedFile",
    "JsonLimits",
    "NestedFile",
    "OldCalendar",
    "ParquetEncoder",
    "Piece",
    "Rows",
    "SortedRun",
    "StatisticsPlan",
    "UnknownZoneError",
    "VectorGroup",
    "are_objects",
    "check_shredding",
    "chosen_alike",
    "chosen_rows",
    "decode_lines",
    "dictionary_columns",
    "first_certain",
    "has_decoder",
    "int96_leaves",
    "leaf_columns",
    "matching_row_groups",
    "num_records",
    "old_calendar",
    "parse_object",
    "parse_stats",
    "plain_pairs",
    "read_footer",
    "split_lines",
    "tidy_lines",
    "unshredded",
    "with_texts",
    "write_gently",
]
