"""What a table's rows are made of: types, their JSON and Arrow forms, names and text values.

Pure: no files, no log, no expressions.
"""

from __future__ import annotations

from lazydelta.schema.arrays import build_array, build_scalar
from lazydelta.schema.column_mapping import (
    assign_column_ids,
    check_mapping,
    file_only_column,
    physical_name,
    physical_path,
    to_physical,
    without_column_ids,
    without_metadata,
)
from lazydelta.schema.ddl import parse_column_type, parse_columns
from lazydelta.schema.from_arrow import from_arrow_schema, from_arrow_type, value_type
from lazydelta.schema.literals import (
    INTEGER_RANGES,
    format_date,
    format_timestamp,
    parse_value,
    to_days,
    to_micros,
)
from lazydelta.schema.merge import merge_schemas
from lazydelta.schema.partition_values import (
    format_partition_value,
    parse_partition_values,
    unreadable_partition_values,
)
from lazydelta.schema.schema_json import parse_schema, schema_to_json
from lazydelta.schema.type_widening import (
    TYPE_CHANGES,
    check_type_changes,
    is_wider,
    reads_as,
    with_type_change,
)
from lazydelta.schema.types import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    to_arrow_schema,
    to_arrow_type,
)

__all__ = [
    "INTEGER_RANGES",
    "TYPE_CHANGES",
    "ArrayType",
    "DataType",
    "DecimalType",
    "MapType",
    "PrimitiveType",
    "StructField",
    "StructType",
    "assign_column_ids",
    "build_array",
    "build_scalar",
    "check_mapping",
    "check_type_changes",
    "file_only_column",
    "format_date",
    "format_partition_value",
    "format_timestamp",
    "from_arrow_schema",
    "from_arrow_type",
    "is_wider",
    "merge_schemas",
    "parse_column_type",
    "parse_columns",
    "parse_partition_values",
    "parse_schema",
    "parse_value",
    "physical_name",
    "physical_path",
    "reads_as",
    "schema_to_json",
    "to_arrow_schema",
    "to_arrow_type",
    "to_days",
    "to_micros",
    "to_physical",
    "unreadable_partition_values",
    "value_type",
    "with_type_change",
    "without_column_ids",
    "without_metadata",
]
