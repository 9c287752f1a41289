"""Every rung of the schema ladder, read at its own version: schema, rows, pruning, time travel."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from lazydelta import Table
from lazydelta.errors import ColumnNotFoundError
from lazydelta.schema import schema_to_json
from tests.schema_evolution.build import build, expected_rows, live_files
from tests.schema_evolution.steps import RUNGS

GOLDEN = Path(__file__).parent / "golden"
VERSIONS = pytest.mark.parametrize(
    "version", range(len(RUNGS)), ids=[f"v{at}-{rung.name}" for at, rung in enumerate(RUNGS)]
)
ASKS = [
    pytest.param(version, ask, id=f"v{version}-{ask.where}")
    for version, rung in enumerate(RUNGS)
    for ask in rung.asks
]


@pytest.fixture(scope="module", params=["commits", "checkpoint"])
def table(request, tmp_path_factory):
    """The whole ladder: as commits alone, and upon a checkpoint of its middle."""
    directory = tmp_path_factory.mktemp("ladder")
    build(directory, checkpoint_at=7 if request.param == "checkpoint" else None)
    return Table.open(directory)


def by_id(rows):
    return sorted(rows, key=lambda row: row["id"])


def described(schema):
    """Return an Arrow schema as a golden file has it: a line for each field, nested ones whole."""
    return [f"{f.name}: {f.type}{'' if f.nullable else ' not null'}" for f in schema]


@VERSIONS
def test_the_schema_is_that_of_the_version(table, version):
    snapshot = table.snapshot(version)
    golden = json.loads((GOLDEN / f"v{version:02}-{RUNGS[version].name}.json").read_text())
    assert json.loads(schema_to_json(snapshot.schema)) == golden["delta"]
    assert described(snapshot.scan().presentation().schema) == golden["arrow"]
    assert list(snapshot.partition_columns) == golden["partition_columns"]
    assert dict(snapshot.metadata.configuration) == golden["configuration"]


@VERSIONS
def test_the_golden_file_is_what_the_rung_says(version):
    """So that nobody corrects a golden file to what the reader says."""
    rung = RUNGS[version]
    golden = json.loads((GOLDEN / f"v{version:02}-{rung.name}.json").read_text())
    assert golden["delta"]["fields"] == rung.fields
    assert golden["configuration"] == rung.configuration


@VERSIONS
def test_the_rows_are_those_of_the_version(table, version):
    scan = table.snapshot(version).scan()
    found = scan.to_arrow()
    found.validate(full=True)
    assert found.schema == scan.presentation().schema
    expected = pa.Table.from_pylist(by_id(expected_rows(version)), schema=found.schema)
    assert by_id(found.to_pylist()) == expected.to_pylist()


@VERSIONS
def test_a_column_alone_is_what_it_is_among_others(table, version):
    snapshot = table.snapshot(version)
    whole = by_id(snapshot.scan().to_arrow().to_pylist())
    for name in snapshot.schema.names:
        found = by_id(
            snapshot.scan(columns=list(dict.fromkeys([name, "id"]))).to_arrow().to_pylist()
        )
        assert [row[name] for row in found] == [row[name] for row in whole]


@pytest.mark.parametrize(("version", "ask"), ASKS)
def test_what_is_asked_reads_few_files_and_gives_all_rows(table, version, ask):
    snapshot = table.snapshot(version)
    scan = snapshot.scan(ask.where)
    assert {file.path for file in scan.files()} == ask.files
    rows = scan.to_arrow()
    wanted = [row for row in expected_rows(version) if ask.test(row)]
    expected = pa.Table.from_pylist(by_id(wanted), schema=rows.schema)
    assert by_id(rows.to_pylist()) == expected.to_pylist()
    told = scan.explain()["files"]
    assert told["scanned"] == len(ask.files)
    assert told["scanned"] + told["pruned"] == len(live_files(version))
    assert scan.count() == len(wanted)


@VERSIONS
def test_rows_are_counted_without_those_deleted(table, version):
    assert table.snapshot(version).scan().count() == len(expected_rows(version))


def test_a_name_that_is_gone_is_not_known(table):
    for version, gone in ((7, "name"), (7, "profile.age"), (8, "score"), (7, "day")):
        with pytest.raises(ColumnNotFoundError, match=gone.split(".", maxsplit=1)[0]):
            table.snapshot(version).scan(f"{gone} is null")
