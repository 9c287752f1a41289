"""MERGE: assignments, and the rules of the table for new rows."""

from __future__ import annotations

import pyarrow as pa
import pytest

import lazydelta as ld
from lazydelta.errors import (
    AppendOnlyError,
    ColumnNotFoundError,
    ConfigError,
    ConstraintViolationError,
    PredicateError,
    SchemaMismatchError,
)
from tests.unit.operations.dml.merge_tables import (
    FEED,
    VECTORS,
    files_of,
    make,
    nested_table,
    rows_of,
)

# --- assignments ---------------------------------------------------------------------------------


def test_expressions_and_literals_are_assigned(tmp_path):
    table = make(tmp_path)
    merge = table.merge({"id": [1, 8], "w": [0.5, 0.25]}, "t.id = s.id")
    merge = merge.when_matched_update({"name": ld.lit("z"), "v": "t.v + s.w"})
    merge.when_not_matched_insert({"id": ld.col("s.id"), "name": "concat('new', '!')"}).execute()
    rows = rows_of(table)
    assert rows[1] == {"id": 1, "name": "z", "v": 1.5}
    assert rows[6] == {"id": 8, "name": "new!", "v": None}


def test_a_star_needs_all_columns_and_ignores_others(tmp_path):
    table = make(tmp_path)
    for call in ("when_matched_update", "when_not_matched_insert"):
        merge = getattr(table.merge({"id": [1], "v": [1.0]}, "t.id = s.id"), call)("*")
        with pytest.raises(ColumnNotFoundError, match="merge_schema"):
            merge.execute()
    source = {"V": [9.0], "more": ["?"], "name": ["x"], "id": [1]}
    table.merge(source, "t.id = s.id").when_matched_update("*").execute()
    assert rows_of(table)[1] == {"id": 1, "name": "x", "v": 9.0}
    assert table.schema.names == ("id", "name", "v")


def test_nested_fields_are_assigned_one_by_one(tmp_path):
    table = nested_table(tmp_path)
    merge = table.merge({"id": [1, 2], "w": [10, 20]}, "t.id = s.id")
    merge.when_matched_update({"a.x": "s.w", "t.a.y.z": "'new'"}).execute()
    assert [row["a"] for row in rows_of(table)] == [
        {"x": 10, "y": {"z": "new"}},
        {"x": 20, "y": {"z": "new"}},
    ]
    table.update({"a.x": "a.x + id"}, "id = 2")
    assert rows_of(table)[1]["a"] == {"x": 22, "y": {"z": "new"}}
    with pytest.raises(ConfigError, match="and a field of it"):
        table.update({"a.y": "a.y", "a.y.z": "'x'"})


def test_nested_columns_are_copied_by_name(tmp_path):
    table = nested_table(tmp_path)
    source = pa.table({
        "id": [2, 3],
        "l": pa.array([[{"y": "new", "x": 5}], []], pa.list_(pa.struct([("y", "str"), ("x", "i4")]))),
        "a": pa.array([{"y": {"z": "s"}, "x": 7}, None]),
        "m": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int32())),
    })  # fmt: skip
    merge = table.merge(source, "t.id = s.id").when_matched_update("*")
    merge.when_not_matched_insert({"id": "s.id", "l": "s.l"}).execute()
    assert rows_of(table)[1:] == [
        {"id": 2, "a": {"x": 7, "y": {"z": "s"}}, "l": [{"x": 5, "y": "new"}], "m": [("a", 1)]},
        {"id": 3, "a": None, "l": [], "m": None},
    ]


def test_values_that_do_not_fit_are_refused(tmp_path):
    table = make(tmp_path)
    bad = table.merge({"id": [1], "w": ["text"]}, "t.id = s.id")
    with pytest.raises(PredicateError, match="string, not double"):
        bad.when_matched_update({"v": "s.w"}).execute()
    with pytest.raises(ConstraintViolationError, match="cannot be computed"):
        bad.when_matched_update({"v": "1 / (t.id - 1)"}).execute()
    assert table.version == 0


# --- rules of the table ----------------------------------------------------------------------------


@pytest.mark.parametrize("properties", [{}, VECTORS], ids=["rewritten", "vectors"])
def test_constraints_hold_for_every_new_row(tmp_path, properties):
    table = make(tmp_path, properties=properties)
    table.alter.add_constraint("small", "v < 100")
    before = files_of(table)
    source = {"id": [1, 9], "name": ["x", "y"], "v": [1.0, 100.0]}
    upsert = table.merge(source, "t.id = s.id").when_matched_update("*")
    with pytest.raises(ConstraintViolationError, match="small"):
        upsert.when_not_matched_insert("*").execute()
    with pytest.raises(ConstraintViolationError, match="small"):
        table.merge(source, "t.id = s.id").when_matched_update({"v": "s.v + 200"}).execute()
    assert files_of(table) == before


def test_generated_default_and_identity_columns_are_filled(tmp_path):
    ld.Table.create(
        tmp_path,
        "key BIGINT GENERATED ALWAYS AS IDENTITY (START WITH 10), id BIGINT NOT NULL, "
        "twice BIGINT GENERATED ALWAYS AS (id * 2), kind STRING DEFAULT 'new', code VARCHAR(3)",
        properties=VECTORS,
    )
    table = ld.Table.open(tmp_path)
    table.write({"id": [1, 2], "code": ["a", "b"]})
    source = {"id": [2, 3, 4], "code": ["x", "y", "z"]}
    merge = table.merge(source, "t.id = s.id").when_matched_update({"id": "t.id + 10"})
    merge.when_not_matched_insert({"id": "s.id", "code": "s.code"}).execute()
    assert [tuple(row.values()) for row in rows_of(table, "key")] == [
        (10, 1, 2, "new", "a"), (11, 12, 24, "new", "b"),
        (12, 3, 6, "new", "y"), (13, 4, 8, "new", "z"),
    ]  # fmt: skip
    table.write({"id": [5], "code": ["c"]})
    assert max(table.to_arrow()["key"].to_pylist()) == 14
    with pytest.raises(ConfigError, match="identity"):
        table.merge(source, "t.id = s.id").when_matched_update({"key": "1"}).execute()
    with pytest.raises(ConstraintViolationError, match="varchar"):
        table.merge(source, "t.id = s.id").when_matched_update({"code": "'long'"}).execute()
    with pytest.raises(SchemaMismatchError, match="NOT NULL"):
        table.merge(source, "t.id = s.id").when_not_matched_insert({"code": "'a'"}).execute()


def test_rows_move_between_partitions(tmp_path):
    ld.write(tmp_path, {"id": [1, 2], "p": ["a", "b"]}, partition_by=["p"], properties=VECTORS)
    table = ld.Table.open(tmp_path)
    table.merge({"id": [1]}, "t.id = s.id").when_matched_update({"p": "'b'"}).execute()
    assert table.count("p = 'b'") == 2
    assert {f.partition_values["p"] for f in table.scan().files()} == {"b"}


def test_a_merge_that_only_inserts_may_append_only(tmp_path):
    table = make(tmp_path, properties={"delta.appendOnly": "true"})
    source = {"id": [1, 9], "name": ["x", "y"], "v": [0.0, 0.0]}
    merge = table.merge(source, "t.id = s.id").when_not_matched_insert("*")
    assert merge.execute().metrics["numTargetRowsInserted"] == 1
    assert merge.execute().version == table.version == 1
    with pytest.raises(AppendOnlyError, match="MERGE"):
        merge.when_matched_delete().execute()


@pytest.mark.parametrize("properties", [{}, VECTORS, FEED], ids=["rewritten", "vectors", "feed"])
def test_rows_keep_their_ids(tmp_path, properties):
    table = make(tmp_path, properties={**properties, "delta.enableRowTracking": "true"})
    options = ld.ReadOptions(row_id_column="row_id", row_commit_version_column="version")
    before = {row["id"]: row["row_id"] for row in table.scan().to_arrow(options).to_pylist()}
    source = {"id": [1, 9], "name": ["x", "y"], "v": [0.0, 0.0]}
    merge = table.merge(source, "t.id = s.id").when_matched_update("*")
    merge = merge.when_not_matched_insert("*").when_not_matched_by_source_delete("t.id = 4")
    merge.when_not_matched_by_source_update({"v": "7"}, "t.id = 5").execute()
    rows = {row["id"]: row for row in table.scan().to_arrow(options).to_pylist()}
    assert {key: row["row_id"] for key, row in rows.items() if key != 9} == {
        key: row_id for key, row_id in before.items() if key != 4
    }
    assert rows[9]["row_id"] not in before.values()
    assert {key for key, row in rows.items() if row["version"] == 1} == {1, 5, 9}


def test_the_change_feed_of_inserts_needs_no_change_files(tmp_path):
    table = make(tmp_path, properties={**VECTORS, **FEED})
    source = {"id": [1, 9], "name": ["x", "y"], "v": [0.0, 0.0]}
    merge = table.merge(source, "t.id = s.id").when_not_matched_insert("*")
    assert merge.execute().metrics["numTargetChangeFilesAdded"] == 0
    (change,) = table.changes(starting_version=1).to_arrow().to_pylist()
    assert (change["id"], change["_change_type"]) == (9, "insert")
