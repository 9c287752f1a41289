"""Names of columns: case is ignored, and near matches are suggested."""

from __future__ import annotations

import pyarrow as pa
import pytest

import lazydelta as ld
from lazydelta.errors import ColumnNotFoundError, ConfigError


@pytest.fixture
def table(tmp_path):
    rows = {"Id": [1, 2], "Fare": [1.5, 2.5]}
    properties = {"delta.enableChangeDataFeed": "true"}
    ld.write(tmp_path, rows, partition_by=["Id"], properties=properties)
    return ld.Table.open(tmp_path)


def test_case_is_ignored_and_the_table_spells_the_output(table):
    found = table.scan("fare > 2", columns=["FARE", "id"]).to_arrow()
    assert found.to_pylist() == [{"Fare": 2.5, "Id": 2}]
    assert table.scan(columns=["fare"]).columns == ("Fare",)
    feed = table.changes(columns=["_COMMIT_VERSION", "iD"], where="FARE < 2")
    assert feed.to_arrow().to_pylist() == [{"_commit_version": 0, "Id": 1}]
    shown = ld.ReadOptions(schema=pa.schema({"Fare": pa.float64()}))
    assert table.scan(columns=["fare"]).to_arrow(shown).column_names == ["Fare"]


def test_one_column_in_two_spellings_is_refused(table):
    for ask in (table.scan, table.changes):
        with pytest.raises(ConfigError, match="'Fare' more than once"):
            ask(columns=["fare", "FARE"])


@pytest.mark.parametrize(
    "ask",
    [
        lambda table: table.scan(columns=["fair"]),
        lambda table: table.scan("fair > 1"),
        lambda table: table.scan().min_max("fair"),
        lambda table: table.changes(columns=["fair"]),
        lambda table: table.changes(where="fair > 1"),
        lambda table: ld.write(f"{table.url}/new", {"Fare": [1]}, partition_by="fair"),
        lambda table: ld.Table.create(f"{table.url}/new", "Fare int", partition_by=["fair"]),
    ],
)
def test_near_matches_are_suggested(table, ask):
    with pytest.raises(ColumnNotFoundError, match=r"'fair' \(did you mean 'Fare'\?\)"):
        ask(table)
