"""Climbs the ladder by hand: writes the data files and the log of every rung.

Statistics are worked out from the rows as Python sees them, apart from any code under test.
"""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from lazydelta.testing import TableBuilder, add, remove
from tests.schema_evolution.steps import RUNGS
from tests.unit.scan.read.tables import inline

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.schema_evolution.parts import File, Rung

__all__ = ["build", "expected_rows", "live_files"]


def build(directory, *, checkpoint_at: int | None = None, upto: int = len(RUNGS)) -> TableBuilder:
    """Write the table, one version for each rung.

    Args:
        directory: Where.
        checkpoint_at: Also write a checkpoint of this version.
        upto: How many rungs to climb.
    """
    table = TableBuilder(directory)
    for version, rung in enumerate(RUNGS[:upto]):
        for file in rung.files:
            data = pa.Table.from_pylist(file.stored, schema=file.schema)
            pq.write_table(data, directory / file.name)
        table.commit(*_actions(rung, directory), create=False)
        if version == checkpoint_at:
            table.checkpoint(row_group_rows=4)
    return table


def expected_rows(version: int) -> list[dict]:
    """Return the rows of a version, deleted ones left out."""
    rows: dict[str, list[dict]] = {}
    for rung in RUNGS[: version + 1]:
        rows = {name: [rung.seen_from_here(row) for row in found] for name, found in rows.items()}
        for name in rung.replaced:
            del rows[name]
        for file in rung.files:
            rows[file.name] = [r for at, r in enumerate(file.rows) if at not in file.deleted]
    return [row for found in rows.values() for row in found]


def live_files(version: int) -> set[str]:
    """Return the names of the live files of a version."""
    live: set[str] = set()
    for rung in RUNGS[: version + 1]:
        live = live - set(rung.replaced) | {file.name for file in rung.files}
    return live


def _actions(rung: Rung, directory) -> Iterator[dict]:
    yield {"protocol": rung.protocol}
    yield {
        "metaData": {
            "id": "1adde700-0000-0000-0000-000000000000",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": rung.fields}),
            "partitionColumns": [rung.fields[-1]["name"]],
            "configuration": rung.configuration,
        }
    }
    for name in rung.replaced:
        yield remove(name)
    for file in rung.files:
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
    found = {"minValues": _told(lows), "maxValues": _told(highs), "nullCount": nulls}
    return {"numRecords": len(file.stored), **found, **tight}


def _bounds(values: list, kind: pa.DataType) -> tuple | None:
    """Return least, greatest and number of nulls; of a struct, those of its parts."""
    if pa.types.is_list(kind):
        return None
    if pa.types.is_struct(kind):
        parts = {f.name: _bounds([v and v[f.name] for v in values], f.type) for f in kind}
        return tuple({name: found[at] for name, found in parts.items()} for at in range(3))
    known = [value for value in values if value is not None]
    return min(known, default=None), max(known, default=None), len(values) - len(known)


def _told(bounds: dict) -> dict:
    """Return bounds as JSON has them; what has no bound is left out."""
    told = {}
    for name, value in bounds.items():
        if isinstance(value, dict):
            told[name] = _told(value)
        elif isinstance(value, datetime):
            told[name] = value.isoformat(timespec="milliseconds")
        elif isinstance(value, date):
            told[name] = value.isoformat()
        elif isinstance(value, Decimal):
            told[name] = float(value)
        elif value is not None:
            told[name] = value
    return told
