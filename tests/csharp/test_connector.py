"""A stand-in for a Kusto connector, in C#, against Azurite (docs/how-to/kusto.md)."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import lazydelta
from lazydelta import Table
from tests.csharp.conftest import driver_of
from tests.emulators import servers

pytestmark = pytest.mark.emulator


@pytest.fixture(scope="module")
def azurite():
    try:
        with servers.azurite() as emulator:
            yield emulator
    except servers.Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def connector():
    return driver_of("Connector")


@pytest.fixture(scope="module")
def local_table(tmp_path_factory):
    """Twelve files with deleted rows in some, of which a checkpoint has eight."""
    directory = tmp_path_factory.mktemp("kusto") / "trips"
    properties = {"delta.enableDeletionVectors": "true", "delta.checkpointInterval": "1000"}
    for number in range(12):
        rows = {"id": range(10 * number, 10 * number + 10), "city": [f"city {number}"] * 10}
        lazydelta.write(directory, rows, properties=properties if number == 0 else None)
        if number == 5:
            Table.open(directory).delete("id % 7 = 3")
        if number == 7:
            Table.open(directory).checkpoint()
    Table.open(directory).delete("id in (81, 82, 119)")
    return directory


@pytest.fixture
def scan(azurite, connector, local_table):
    """A function that uploads the table, changed, and reads it like Kusto."""

    def scan(name, take=-1, predicate=None, changed=None):
        url = f"{azurite.url}/{name}"
        store = servers.upload_table(url, azurite.options, local_table)
        for path, data in (changed or {}).items():
            store.write(path, data, overwrite=True)
        reader = Path(__file__).with_name("parquet_rows.py")
        settings = {
            "table": url,
            "store": azurite.options,
            "take": take,
            "reader": [sys.executable, str(reader), json.dumps(azurite.options)],
        }
        settings |= {} if predicate is None else {"predicate": predicate}
        *rows, end = connector.lines(settings)
        return [json.loads(row) for row in rows], end

    return scan


def test_kusto_reads_the_rows_of_the_table(scan, local_table):
    rows, end = scan("whole")
    expected = Table.open(local_table).to_arrow().to_pylist()
    assert sorted(row["id"] for row in rows) == sorted(row["id"] for row in expected)
    assert len(rows) == 120 - 9 - 3
    assert end == f"done {len(rows)} rows of 12 files"


@pytest.mark.long
def test_kusto_reads_only_files_that_may_match(scan):
    rows, end = scan("filtered", predicate='[["id", ">=", 95], ["id", "<", 115]]')
    assert {row["id"] for row in rows} >= set(range(95, 115))
    assert end.endswith("of 3 files")


def test_take_reads_commits_only(scan, local_table):
    """The checkpoint is unreadable here, so that a read of it would be an error."""
    (checkpoint,) = (local_table / "_delta_log").glob("*.checkpoint.parquet")
    damage = {f"_delta_log/{checkpoint.name}": b"x" * checkpoint.stat().st_size}
    rows, end = scan("take", take=25, changed=damage)
    assert len(rows) == 25
    assert end == "done 25 rows of 3 files"


@pytest.mark.long
def test_damage_is_a_permanent_failure(scan, local_table):
    log = local_table / "_delta_log"
    commits = {f"_delta_log/{file.name}": b"{" for file in log.glob("*.json")}
    _, end = scan("damaged", changed=commits)
    assert end.startswith("permanent DataLoss")
