"""What a table's rows are made of: types, their JSON and Arrow forms, names and text values.

Pure: no files, no log, no expressions.
"""

from __future__ import annotations

from lazydelta.schema.arrow import to_arrow_schema, to_arrow_type
from lazydelta.schema.build import build_array, build_scalar
from lazydelta.schema.json import parse_schema, schema_to_json
from lazydelta.schema.mapping import physical_name, physical_path, to_physical
from lazydelta.schema.partition import (
    format_partition_value,
    parse_partition_values,
    unreadable_partition_values,
)
from lazydelta.schema.types import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
)
from lazydelta.schema.values import (
    INTEGER_RANGES,
    date_text,
    parse_value,
    timestamp_text,
    to_days,
    to_micros,
)

__all__ = [
    "INTEGER_RANGES",
    "ArrayType",
    "DataType",
    "DecimalType",
    "MapType",
    "PrimitiveType",
    "StructField",
    "StructType",
    "build_array",
    "build_scalar",
    "date_text",
    "format_partition_value",
    "parse_partition_values",
    "parse_schema",
    "parse_value",
    "physical_name",
    "physical_path",
    "schema_to_json",
    "timestamp_text",
    "to_arrow_schema",
    "to_arrow_type",
    "to_days",
    "to_micros",
    "to_physical",
    "unreadable_partition_values",
]
