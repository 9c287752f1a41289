"""Auto compaction after writes."""

from __future__ import annotations

import pytest

import lazydelta as ld
from tests.unit.operations.optimize.support import actions, rows_of, theirs

COMPACT, OLDER = "delta.autoOptimize.autoCompact", "delta.autoOptimize"


@pytest.mark.parametrize(
    "properties",
    [{COMPACT: "true"}, {COMPACT: "auto"}, {COMPACT: "false", OLDER: "true"}],
    ids=["true", "auto", "older-property"],
)
def test_partitions_with_many_small_files_are_compacted(tmp_path, properties, monkeypatch):
    monkeypatch.setattr("lazydelta.operations.auto_compaction._SMALL_FILES", 8)
    for number in range(11):
        ps = ["a", "b"] if number < 3 else ["a"]
        rows = {"id": [number] * len(ps), "p": ps}
        ld.write(tmp_path, rows, partition_by="p", **({} if number else {"properties": properties}))
    table = ld.Table.open(tmp_path)
    assert table.version == 11
    (info,) = actions(table, 11, "commitInfo")
    assert info["operation"] == "OPTIMIZE"
    assert info["operationParameters"]["auto"] == "true"
    assert len(list(table.scan(where="p = 'a'").files())) == 1
    assert len(list(table.scan(where="p = 'b'").files())) == 3
    assert table.count() == 14
    assert rows_of(table) == theirs(table)


@pytest.mark.parametrize("properties", [{}, {COMPACT: "false"}, {OLDER: "false"}], ids=str)
def test_other_tables_are_left_alone(tmp_path, properties, monkeypatch):
    monkeypatch.setattr("lazydelta.operations.auto_compaction._SMALL_FILES", 8)
    for number in range(11):
        ld.write(tmp_path, {"id": [number]}, **({} if number else {"properties": properties}))
    assert ld.Table.open(tmp_path).version == 10


def test_few_small_files_are_left_alone(tmp_path):
    for number in range(11):
        properties = {"properties": {COMPACT: "true"}}
        ld.write(tmp_path, {"id": [number]}, **({} if number else properties))
    assert ld.Table.open(tmp_path).version == 10


def test_the_setting_can_be_switched(tmp_path, monkeypatch):
    monkeypatch.setattr("lazydelta.operations.auto_compaction._SMALL_FILES", 8)
    for number in range(9):
        ld.write(tmp_path, {"id": [number]})
    table = ld.Table.open(tmp_path)
    table.alter.set_properties({COMPACT: "true"})
    assert table.write({"id": [9]}).version == 10
    assert table.version == 11
    assert len(list(table.scan().files())) == 1
    assert table.count() == 10


def test_a_failure_is_a_warning_of_the_write(tmp_path, monkeypatch):
    for number in range(10):
        properties = {"properties": {"delta.autoOptimize.autoCompact": "true"}}
        ld.write(tmp_path, {"id": [number]}, **({} if number else properties))

    def fail(*_, **__):
        raise OSError("no space")

    monkeypatch.setattr("lazydelta.operations.optimize.optimize_table", fail, raising=False)
    result = ld.write(tmp_path, {"id": [10]})
    assert result.version == 10
    assert any("no space" in warning for warning in result.warnings)
