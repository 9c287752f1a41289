"""Rows -> Parquet files: schema, encoding, statistics."""

from __future__ import annotations

from lazydelta.parquet.write.file_schema import FileSchema
from lazydelta.parquet.write.file_writer import Encoding, ParquetEncoder, dictionary_columns
from lazydelta.parquet.write.statistics import Statistics, StatisticsPlan

__all__ = [
    "Encoding",
    "FileSchema",
    "ParquetEncoder",
    "Statistics",
    "StatisticsPlan",
    "dictionary_columns",
]
