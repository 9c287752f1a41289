"""Every schema evolution step read at its version: schema, rows, pruning, time travel."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from lazydelta import Table
from lazydelta.errors import ColumnNotFoundError
from lazydelta.schema import schema_to_json
from tests.schema_evolution.build import build, expected_rows, live_files
from tests.schema_evolution.steps import STEPS

GOLDEN = Path(__file__).parent / "golden"
VERSIONS = pytest.mark.parametrize(
    "version", range(len(STEPS)), ids=[f"v{at}-{step.name}" for at, step in enumerate(STEPS)]
)
QUERIES = [
    pytest.param(version, query, id=f"v{version}-{query.where}")
    for version, step in enumerate(STEPS)
    for query in step.queries
]


@pytest.fixture(scope="module", params=["commits", "checkpoint"])
def table(request, tmp_path_factory):
    """The table of all steps: commits only, and with a checkpoint in the middle."""
    directory = tmp_path_factory.mktemp("ladder")
    build(directory, checkpoint_at=7 if request.param == "checkpoint" else None)
    return Table.open(directory)


def by_id(rows):
    return sorted(rows, key=lambda row: row["id"])


def described(schema):
    """Return an Arrow schema in golden file form: one line per top-level field."""
    return [f"{f.name}: {f.type}{'' if f.nullable else ' not null'}" for f in schema]


@VERSIONS
def test_schema_at_version(table, version):
    snapshot = table.snapshot(version)
    golden = json.loads((GOLDEN / f"v{version:02}-{STEPS[version].name}.json").read_text())
    assert json.loads(schema_to_json(snapshot.schema)) == golden["delta"]
    assert described(snapshot.scan().output_schema().schema) == golden["arrow"]
    assert list(snapshot.partition_columns) == golden["partition_columns"]
    assert dict(snapshot.metadata.configuration) == golden["configuration"]


@VERSIONS
def test_golden_file_matches_the_step(version):
    """Golden files must not be regenerated from the reader's output."""
    step = STEPS[version]
    golden = json.loads((GOLDEN / f"v{version:02}-{step.name}.json").read_text())
    assert golden["delta"]["fields"] == step.fields
    assert golden["configuration"] == step.configuration


@VERSIONS
def test_rows_at_version(table, version):
    scan = table.snapshot(version).scan()
    found = scan.to_arrow()
    found.validate(full=True)
    assert found.schema == scan.output_schema().schema
    expected = pa.Table.from_pylist(by_id(expected_rows(version)), schema=found.schema)
    assert by_id(found.to_pylist()) == expected.to_pylist()


@VERSIONS
def test_projection_of_each_column(table, version):
    snapshot = table.snapshot(version)
    whole = by_id(snapshot.scan().to_arrow().to_pylist())
    for name in snapshot.schema.names:
        found = by_id(
            snapshot.scan(columns=list(dict.fromkeys([name, "id"]))).to_arrow().to_pylist()
        )
        assert [row[name] for row in found] == [row[name] for row in whole]


@pytest.mark.parametrize(("version", "query"), QUERIES)
def test_queries_prune_files_and_return_all_matching_rows(table, version, query):
    snapshot = table.snapshot(version)
    scan = snapshot.scan(query.where)
    assert {file.path for file in scan.files()} == query.files
    rows = scan.to_arrow()
    wanted = [row for row in expected_rows(version) if query.test(row)]
    expected = pa.Table.from_pylist(by_id(wanted), schema=rows.schema)
    assert by_id(rows.to_pylist()) == expected.to_pylist()
    serialized = scan.explain()["files"]
    assert serialized["scanned"] == len(query.files)
    assert serialized["scanned"] + serialized["pruned"] == len(live_files(version))
    assert scan.count() == len(wanted)


@VERSIONS
def test_count_excludes_deleted_rows(table, version):
    assert table.snapshot(version).scan().count() == len(expected_rows(version))


def test_a_dropped_column_is_unknown(table):
    for version, gone in ((7, "name"), (7, "profile.age"), (8, "score"), (7, "day")):
        with pytest.raises(ColumnNotFoundError, match=gone.split(".", maxsplit=1)[0]):
            table.snapshot(version).scan(f"{gone} is null")
