"""MERGE: schema evolution."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lazydelta.errors import (
    ColumnNotFoundError,
    SchemaMismatchError,
)
from tests.unit.operations.dml.merge_tables import FEED, make, nested_table, rows_of


def test_merge_schema_adds_columns_of_the_source(tmp_path):
    table = make(tmp_path, 3)
    source = {"id": [1, 9], "extra": ["x", "y"], "v": [0.5, 0.5]}
    merge = table.merge(source, "t.id = s.id", merge_schema=True).when_matched_update("*")
    assert merge.explain().new_columns == ("extra",)
    merge.when_not_matched_insert("*").execute()
    assert rows_of(table) == [
        {"id": 0, "name": "n0", "v": 0.0, "extra": None},
        {"id": 1, "name": "n1", "v": 0.5, "extra": "x"},
        {"id": 2, "name": "n2", "v": 2.0, "extra": None},
        {"id": 9, "name": None, "v": 0.5, "extra": "y"},
    ]


def test_merge_schema_adds_only_columns_that_are_assigned(tmp_path):
    table = make(tmp_path, 2)
    source = {"id": [1], "a": [1], "b": [2]}
    with pytest.raises(ColumnNotFoundError, match="'b'"):
        table.merge(source, "t.id = s.id").when_matched_update({"b": "s.b"}).execute()
    merge = table.merge(source, "t.id = s.id", merge_schema=True)
    merge.when_matched_update({"b": "s.b + s.a"}).execute()
    assert rows_of(table)[1] == {"id": 1, "name": "n1", "v": 1.0, "b": 3}


@pytest.mark.parametrize("properties", [{}, {**FEED, "delta.columnMapping.mode": "name"}])
def test_merge_schema_adds_nested_fields_by_name(tmp_path, properties):
    table = nested_table(tmp_path)
    if properties:
        table.alter.set_properties(properties)
    source = pa.Table.from_pylist([
        {"id": 2, "a": {"new": 5, "x": 6}, "l": [{"w": 1.5, "y": "n"}]},
        {"id": 3, "a": {"new": 7, "x": 8}, "l": [{"w": 2.5, "y": "m"}]},
    ])  # fmt: skip
    merge = table.merge(source, "t.id = s.id", merge_schema=True)
    merge.when_matched_update("*").when_not_matched_insert("*").execute()
    assert rows_of(table) == [
        {
            "id": 1, "a": {"x": 1, "y": {"z": "q"}, "new": None},
            "l": [{"x": 1, "y": "b", "w": None}], "m": [("k", 1)],
        },
        {"id": 2, "a": {"x": 6, "y": None, "new": 5}, "l": [{"x": None, "y": "n", "w": 1.5}],
         "m": None},
        {"id": 3, "a": {"x": 8, "y": None, "new": 7}, "l": [{"x": None, "y": "m", "w": 2.5}],
         "m": None},
    ]  # fmt: skip


def test_fields_that_the_source_lacks_are_kept_by_a_star_only(tmp_path):
    table = nested_table(tmp_path)
    source = pa.Table.from_pylist([{"id": 1, "a": {"X": 5, "y": {"new": 6}}}])
    merge = table.merge(source, "t.id = s.id")
    for bad in (
        merge.when_matched_update({"a": "s.a"}),
        merge.when_matched_update({"a.y": "s.a.y"}),
    ):
        with pytest.raises(SchemaMismatchError, match=r"a\.y\.new|a\.y\.z"):
            bad.execute()
    merge = table.merge(source, "t.id = s.id", merge_schema=True)
    merge.when_matched_update("*").execute()
    assert rows_of(table)[0] == {
        "id": 1, "a": {"x": 5, "y": {"z": "q", "new": 6}}, "l": [{"x": 1, "y": "b"}],
        "m": [("k", 1)],
    }  # fmt: skip
    merge.when_matched_update({"a": "s.a"}).execute()
    assert rows_of(table)[0]["a"] == {"x": 5, "y": {"z": None, "new": 6}}


def test_a_column_that_a_star_leaves_out_is_not_added(tmp_path):
    table = make(tmp_path, 2)
    source = {"id": [1, 9], "v": [0.5, 0.5], "a": [1, 1], "b": [2, 2]}
    merge = table.merge(source, "t.id = s.id", merge_schema=True)
    merge = merge.when_matched_update("*", except_columns=["V", "a"])
    merge.when_not_matched_insert({"id": "s.id"}).execute()
    assert rows_of(table) == [
        {"id": 0, "name": "n0", "v": 0.0, "b": None},
        {"id": 1, "name": "n1", "v": 1.0, "b": 2},
        {"id": 9, "name": None, "v": None, "b": None},
    ]
