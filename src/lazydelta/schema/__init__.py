"""Table schemas: data types, and their JSON, SQL DDL and Arrow forms. No I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta._lazy import lazy_exports

if TYPE_CHECKING:
    from lazydelta.schema.ddl import parse_column_type, parse_columns
    from lazydelta.schema.from_arrow import from_arrow_schema, from_arrow_type
    from lazydelta.schema.schema_json import parse_schema, schema_to_json
    from lazydelta.schema.types import (
        ArrayType,
        DataType,
        DecimalType,
        MapType,
        PrimitiveType,
        StructField,
        StructType,
        format_path,
        to_arrow_schema,
        to_arrow_type,
    )

__all__ = [
    "ArrayType",
    "DataType",
    "DecimalType",
    "MapType",
    "PrimitiveType",
    "StructField",
    "StructType",
    "format_path",
    "from_arrow_schema",
    "from_arrow_type",
    "parse_column_type",
    "parse_columns",
    "parse_schema",
    "schema_to_json",
    "to_arrow_schema",
    "to_arrow_type",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "ddl": ("parse_column_type", "parse_columns"),
        "from_arrow": ("from_arrow_schema", "from_arrow_type"),
        "schema_json": ("parse_schema", "schema_to_json"),
        "types": (
            "ArrayType",
            "DataType",
            "DecimalType",
            "MapType",
            "PrimitiveType",
            "StructField",
            "StructType",
            "format_path",
            "to_arrow_schema",
            "to_arrow_type",
        ),
    },
)
