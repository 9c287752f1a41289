"""Builds the table of the schema evolution: data files and log of every step.

Statistics are computed from Python values, without the code under test.
"""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from tests.builders import TableBuilder, add, remove
from tests.schema_evolution.steps import STEPS
from tests.unit.scan.read.tables import inline

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.schema_evolution.parts import File, Step

__all__ = ["build", "expected_rows", "live_files"]


def build(directory, *, checkpoint_at: int | None = None, count: int = len(STEPS)) -> TableBuilder:
    """Write the table, one version per step.

    Args:
        directory: Root of the table.
        checkpoint_at: Also write a checkpoint of this version.
        count: Number of steps.
    """
    table = TableBuilder(directory)
    for version, step in enumerate(STEPS[:count]):
        for file in step.files:
            data = pa.Table.from_pylist(file.stored, schema=file.schema)
            pq.write_table(data, directory / file.name)
        table.commit(*_actions(step, directory), create=False)
        if version == checkpoint_at:
            table.checkpoint(row_group_rows=4)
    return table


def expected_rows(version: int) -> list[dict]:
    """Return the rows of a version, without deleted ones."""
    rows: dict[str, list[dict]] = {}
    for step in STEPS[: version + 1]:
        rows = {name: [step.evolve_row(row) for row in found] for name, found in rows.items()}
        for name in step.replaced:
            del rows[name]
        for file in step.files:
            rows[file.name] = [r for at, r in enumerate(file.rows) if at not in file.deleted]
    return [row for found in rows.values() for row in found]


def live_files(version: int) -> set[str]:
    """Return the names of the live files of a version."""
    live: set[str] = set()
    for step in STEPS[: version + 1]:
        live = live - set(step.replaced) | {file.name for file in step.files}
    return live


def _actions(step: Step, directory) -> Iterator[dict]:
    yield {"protocol": step.protocol}
    yield {
        "metaData": {
            "id": "1adde700-0000-0000-0000-000000000000",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": step.fields}),
            "partitionColumns": [step.fields[-1]["name"]],
            "configuration": step.configuration,
        }
    }
    for name in step.replaced:
        yield remove(name)
    for file in step.files:
        yield add(
            file.name,
            partition_values=file.partition,
            stats=_stats(file),
            vector=inline(list(file.deleted)) if file.deleted else None,
            size=(directory / file.name).stat().st_size,
        )


def _stats(file: File) -> dict:
    lows, highs, nulls = {}, {}, {}
    for column in file.schema:
        values = [row[column.name] for row in file.stored]
        bounds = _bounds(values, column.type)
        if bounds is not None:
            lows[column.name], highs[column.name], nulls[column.name] = bounds
    tight = {"tightBounds": False} if file.deleted else {}
    found = {"minValues": _serialized(lows), "maxValues": _serialized(highs), "nullCount": nulls}
    return {"numRecords": len(file.stored), **found, **tight}


def _bounds(values: list, kind: pa.DataType) -> tuple | None:
    """Return minimum, maximum and null count; for a struct, those of its fields."""
    if pa.types.is_list(kind):
        return None
    if pa.types.is_struct(kind):
        parts = {f.name: _bounds([v and v[f.name] for v in values], f.type) for f in kind}
        return tuple({name: found[at] for name, found in parts.items()} for at in range(3))
    known = [value for value in values if value is not None]
    return min(known, default=None), max(known, default=None), len(values) - len(known)


def _serialized(bounds: dict) -> dict:
    """Return bounds as JSON values, without nulls."""
    serialized = {}
    for name, value in bounds.items():
        if isinstance(value, dict):
            serialized[name] = _serialized(value)
        elif isinstance(value, datetime):
            serialized[name] = value.isoformat(timespec="milliseconds")
        elif isinstance(value, date):
            serialized[name] = value.isoformat()
        elif isinstance(value, Decimal):
            serialized[name] = float(value)
        elif value is not None:
            serialized[name] = value
    return serialized
