"""Tables without files, for the tests of enforcement."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from lazydelta.protocol import TableMetadata, TableProtocol
from lazydelta.schema import StructType, from_arrow_schema, parse_columns, schema_to_json
from lazydelta.writer.enforcement.enforcement import Enforcement, plan_enforcement

__all__ = ["OLD", "batch", "planned", "schema_of", "with_metadata"]

OLD = TableProtocol(min_reader_version=1, min_writer_version=2)


def schema_of(columns: Any) -> StructType:
    """Return a schema from a SQL string or an Arrow schema."""
    if isinstance(columns, StructType):
        return columns
    return parse_columns(columns) if isinstance(columns, str) else from_arrow_schema(columns)


def with_metadata(schema: Any, name: str, metadata: dict[str, Any]) -> StructType:
    """Return the schema with metadata of one column."""
    fields = [
        replace(part, metadata={**part.metadata, **metadata}) if part.name == name else part
        for part in schema_of(schema)
    ]
    return StructType(tuple(fields))


def planned(
    columns: Any,
    incoming: pa.Schema,
    *,
    schema_mode: Any = None,
    partition_columns: tuple[str, ...] = (),
    protocol: TableProtocol = OLD,
    **properties: str,
) -> Enforcement:
    """Plan the enforcement of a table; properties are given with `__` for each dot."""
    schema = schema_of(columns)
    metadata = TableMetadata(
        id="table",
        schema_string=schema_to_json(schema),
        partition_columns=partition_columns,
        configuration={key.replace("__", "."): value for key, value in properties.items()},
    )
    return plan_enforcement(
        table="memory://t",
        protocol=protocol,
        metadata=metadata,
        schema=schema,
        incoming=incoming,
        schema_mode=schema_mode,
    )


def batch(schema: Any, *rows: Any) -> pa.RecordBatch:
    """Return rows, given as tuples, in a schema given as Arrow's or as (name, type) pairs."""
    schema = schema if isinstance(schema, pa.Schema) else pa.schema(schema)
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    arrays = [pa.array(list(c), f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
