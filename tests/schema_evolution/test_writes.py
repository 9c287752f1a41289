"""Writes to every schema evolution step: valid rows are appended, invalid ones leave no trace."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from lazydelta import Table
from lazydelta.errors import ConstraintViolationError, SchemaMismatchError
from lazydelta.schema import parse_schema, to_arrow_schema
from tests.schema_evolution.build import build, expected_rows
from tests.schema_evolution.steps import STEPS

VERSIONS = pytest.mark.parametrize(
    "version", range(len(STEPS)), ids=[f"v{at}-{step.name}" for at, step in enumerate(STEPS)]
)
VIOLATIONS = [
    pytest.param(version, row, id=f"v{version}-{step.name}")
    for version, step in enumerate(STEPS)
    for row in step.violations
]


def table_at(directory, version):
    build(directory, count=version + 1)
    return Table.open(directory)


def good_rows(version):
    """Return rows of the version that satisfy its constraints, some with nulls."""
    own = [row for file in STEPS[version].files for row in file.rows]
    # Rows from before a column was generated have null in it, and cannot be appended again.
    complete = [row for row in own or expected_rows(version) if row.get("year", 0) is not None]
    rows = complete or [r for r in expected_rows(version) if r["year"] is not None]
    return [row | {"id": 1000 + at} for at, row in enumerate(rows[:3])]


def by_id(rows):
    return sorted(rows, key=lambda row: row["id"])


def unchanged(table, version):
    """Return what a failed write must not change."""
    snapshot = table.snapshot()
    assert snapshot.version == version
    files = sorted(file.path for file in snapshot.scan().files())
    return snapshot.protocol, snapshot.metadata, files


@VERSIONS
def test_append_keeps_protocol_and_metadata(tmp_path, version):
    table = table_at(tmp_path, version)
    protocol, metadata, files = unchanged(table, version)
    rows = good_rows(version)
    schema = to_arrow_schema(table.snapshot().schema)
    table.write(pa.Table.from_pylist(rows, schema=schema), mode="append")
    after = table.snapshot()
    assert after.version == version + 1
    assert (after.protocol, after.metadata) == (protocol, metadata)
    assert set(files) < {file.path for file in after.scan().files()}
    scan = after.scan()
    wanted = pa.Table.from_pylist(
        by_id([*expected_rows(version), *rows]), schema=scan.output_schema().schema
    )
    assert by_id(scan.to_arrow().to_pylist()) == wanted.to_pylist()


@pytest.mark.parametrize(("version", "row"), VIOLATIONS)
def test_a_constraint_violation_leaves_no_trace(tmp_path, version, row):
    table = table_at(tmp_path, version)
    before = unchanged(table, version)
    on_disk = sorted(path.name for path in tmp_path.rglob("*.parquet"))
    schema = to_arrow_schema(table.snapshot().schema)
    rows = pa.Table.from_pylist([*good_rows(version), row], schema=schema)
    with pytest.raises(ConstraintViolationError, match=rf"1 of {len(rows)} rows"):
        table.write(rows, mode="append")
    assert unchanged(table, version) == before
    assert sorted(path.name for path in tmp_path.rglob("*.parquet")) == on_disk


def test_violations_cover_every_kind_of_constraint():
    names = {STEPS[case.values[0]].name for case in VIOLATIONS}
    assert names == {"check-constraint", "invariant", "generated-column"}


def test_a_missing_generated_column_is_computed(tmp_path):
    version = next(at for at, step in enumerate(STEPS) if step.name == "generated-column")
    table = table_at(tmp_path, version)
    rows = [{k: v for k, v in row.items() if k != "year"} for row in good_rows(version)]
    schema = to_arrow_schema(table.snapshot().schema)
    given = schema.remove(schema.get_field_index("year"))
    table.write(pa.Table.from_pylist(rows, schema=given), mode="append")
    found = table.scan("id >= 1000").to_arrow().to_pylist()
    assert [row["year"] for row in found] == [row["day"].year for row in found]


@pytest.mark.parametrize("name", ["add-column", "nested-field", "list-of-struct"])
def test_schema_merge_performs_the_step(tmp_path, name):
    """Rows of a step written to the previous version add its new fields, at every depth."""
    version = next(at for at, step in enumerate(STEPS) if step.name == name)
    table = table_at(tmp_path, version - 1)
    before = table.snapshot()
    fields = json.dumps({"type": "struct", "fields": STEPS[version].fields})
    rows = pa.Table.from_pylist(
        good_rows(version), schema=to_arrow_schema(parse_schema(fields, where=name))
    )
    with pytest.raises(SchemaMismatchError, match="not in the table"):
        table.write(rows, mode="append")
    assert table.snapshot().version == before.version
    table.write(rows, mode="append", schema_mode="merge")
    after = table.snapshot()
    assert after.version == version
    # The new fields of a step may be in another position: compare in the order of the step.
    new = pa.Table.from_pylist(after.scan("id >= 1000").to_arrow().to_pylist(), schema=rows.schema)
    assert by_id(new.to_pylist()) == rows.to_pylist()
    old = after.scan("id < 1000").to_arrow().to_pylist()
    seen = [STEPS[version].evolve_row(row) for row in expected_rows(version - 1)]
    assert by_id(old) == by_id(seen)
