"""Names and schemas of the DataFrames that the verbs exchange with their tasks."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import types as t

from lazydelta.protocol.schemas import ADD
from lazydelta.spark.arrow_reader import FILE_FIELDS

__all__ = ["CLAUSE", "FILE", "INDEX", "NUMBERED_FILES", "POSITIONS", "ROW", "SOURCE_ROW"]

FILE = "__lazydelta_file"
"""Number of the data file of a row: its place in a list, or a hash of its path."""
ROW = "__lazydelta_row"
"""Position of a row in its data file, from 0 on."""
CLAUSE = "__lazydelta_clause"
"""Number of the clause that applies to a row."""
SOURCE_ROW = "__lazydelta_source_row"
"""Number of a row of the source of a MERGE."""
INDEX = pa.field("index", pa.int64())
NUMBERED_FILES = pa.schema(
    [INDEX, *FILE_FIELDS, ADD.field("baseRowId"), ADD.field("defaultRowCommitVersion")]
)
"""What tasks need of the files, row tracking included."""
POSITIONS = t.StructType([
    t.StructField("file", t.LongType()),
    t.StructField("clause", t.IntegerType()),
    t.StructField("count", t.LongType()),
    t.StructField("repeated", t.LongType()),
    t.StructField("rows", t.BinaryType()),
])  # fmt: skip
"""Rows of a file that a clause changes: a serialized 64-bit bitmap of positions, null for all rows,
and their number. `repeated` counts the repeated rows of all clauses of the file."""
