"""What a server says about a table, beside its files and rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from lazydelta.table import Table

__all__ = ["describe", "history"]


def describe(name: str, table: Table) -> dict[str, Any]:
    """Return version and schema of the newest version; numbers are None if they are unknown."""
    snapshot = table.snapshot()
    checksum = snapshot.checksum
    current = checksum if checksum is not None and checksum.version == snapshot.version else None
    return {
        "name": name,
        "version": snapshot.version,
        "table_id": snapshot.metadata.id,
        "description": snapshot.metadata.description,
        "schema": orjson.loads(snapshot.metadata.schema_string),
        "partition_columns": list(snapshot.partition_columns),
        "reader_features": sorted(snapshot.protocol.reader_features or ()),
        "min_reader_version": snapshot.protocol.min_reader_version,
        "column_mapping": snapshot.column_mapping_mode,
        "files": None if current is None else current.num_files,
        "bytes": None if current is None else current.table_size_bytes,
        "estimated_files": snapshot.estimated_files(),
    }


def history(table: Table, limit: int) -> list[dict[str, Any]]:
    """Return the newest commits: version, time, operation and its metrics; no user data."""
    return [
        {
            "version": entry.version,
            "timestamp": entry.timestamp,
            "operation": entry.operation,
            "metrics": _metrics(entry.raw.get("operationMetrics")),
        }
        for entry in table.history(limit)
    ]


def _metrics(value: Any) -> dict[str, str]:
    """Return the operation metrics of a commit; another writer may have written anything."""
    if not isinstance(value, dict):
        return {}
    return {str(key): str(item) for key, item in value.items()}
