"""MERGE: names, clauses, rules of the table, schema evolution, memory, files and races."""

from __future__ import annotations

import logging
from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import lazydelta as ld
from lazydelta.errors import (
    AppendOnlyError,
    ColumnNotFoundError,
    CommitConflictError,
    ConfigError,
    ConstraintViolationError,
    MultipleMatchesError,
    PredicateError,
    SchemaMismatchError,
)
from lazydelta.operations.dml.merge import tuning
from lazydelta.operations.dml.verb import Verb

VECTORS = {"delta.enableDeletionVectors": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}


def make(directory, count=6, properties=VECTORS, files=1, **options):
    step = count // files
    for start in range(0, count, step):
        ids = list(range(start, start + step))
        rows = {"id": ids, "name": [f"n{i}" for i in ids], "v": [float(i) for i in ids]}
        ld.write(directory, rows, properties=None if start else properties, **options)
    return ld.Table.open(directory)


def rows_of(table, key="id"):
    return sorted(table.to_arrow().to_pylist(), key=lambda row: (row[key] is None, row[key]))


def ids_of(table):
    return [row["id"] for row in rows_of(table)]


def files_of(table):
    return sorted(f for f in Path(table.url).rglob("*") if f.is_file() and f.suffix != ".crc")


# --- sources -------------------------------------------------------------------------------------


def sources(tmp_path):
    rows = {"id": [1, 9], "name": ["x", "y"], "v": [0.0, 0.0]}
    table = pa.table(rows)
    ld.write(tmp_path / "source", table)
    yield rows
    yield table
    yield table.to_reader()
    yield (batch for batch in table.to_batches(max_chunksize=1))
    yield [{"id": [1], "name": ["x"], "v": [0.0]}, {"id": [9], "name": ["y"], "v": [0.0]}]
    yield table.to_pandas()
    yield table.set_column(1, "name", table["name"].dictionary_encode())
    yield table.cast(pa.schema([("id", pa.int32()), ("name", pa.large_string()), ("v", "f4")]))
    yield ld.Table.open(tmp_path / "source")
    yield ld.Table.open(tmp_path / "source").snapshot()
    yield ld.Table.open(tmp_path / "source").scan(where="id >= 1")


def test_a_source_is_anything_that_can_be_written(tmp_path):
    for number, source in enumerate(sources(tmp_path)):
        table = make(tmp_path / str(number), 3)
        merge = table.merge(source, "t.id = s.id")
        assert merge.when_matched_update("*").explain().key == ("t.id = s.id",) or number == 7
        merge.when_matched_update("*").when_not_matched_insert("*").execute()
        assert [(r["id"], r["name"]) for r in rows_of(table)] == [
            (0, "n0"), (1, "x"), (2, "n2"), (9, "y"),
        ]  # fmt: skip


def test_an_empty_source_changes_nothing_but_rows_that_it_does_not_match(tmp_path):
    table = make(tmp_path)
    empty = table.to_arrow().slice(0, 0)
    upsert = table.merge(empty, "t.id = s.id").when_matched_update("*")
    assert upsert.when_not_matched_insert("*").execute().version == 0
    result = table.merge(empty, "t.id = s.id").when_not_matched_by_source_delete().execute()
    assert result.metrics["numTargetRowsNotMatchedBySourceDeleted"] == 6
    assert table.count() == 0


def test_a_table_merges_into_itself(tmp_path):
    table = make(tmp_path)
    table.merge(table, "t.id = s.id + 1").when_matched_update({"name": "s.name"}).execute()
    assert [row["name"] for row in rows_of(table)] == ["n0", "n0", "n1", "n2", "n3", "n4"]


@pytest.mark.parametrize("memory", [100_000, 1 << 29])
def test_a_source_of_many_chunks_gives_the_same_rows(tmp_path, memory):
    table = make(tmp_path, 3000, files=3)
    source = {"id": list(range(0, 6000, 2)), "name": ["x" * 50] * 3000, "v": [1.0] * 3000}
    config = ld.Config(operation_memory=memory, max_deleted_rows_ratio=1.0)
    batches = pa.table(source).to_batches(max_chunksize=700)
    merge = table.merge(batches, "t.id = s.id AND t.name != s.name", config=config)
    merge = merge.when_matched_update({"v": "t.v + 0.5", "name": "s.name"})
    result = merge.when_not_matched_insert("*").execute()
    assert result.metrics["numTargetRowsUpdated"] == 1500
    assert result.metrics["numTargetRowsInserted"] == 1500
    assert result.metrics["numTargetDeletionVectorsAdded"] == 3
    rows = rows_of(table)
    assert [row["id"] for row in rows] == sorted({*range(3000), *range(0, 6000, 2)})
    assert all(row["v"] == row["id"] + 0.5 * (row["id"] % 2 == 0) for row in rows[:3000])


# --- names and conditions ------------------------------------------------------------------------


def test_names_are_resolved_by_alias_or_if_only_one_side_has_them(tmp_path):
    table = make(tmp_path)
    source = {"key": [2], "NAME": ["x"], "extra": [7.0], "T": [1]}
    merge = table.merge(source, "Target.ID = key", target_alias="target", source_alias="src")
    merge.when_matched_update({"v": "v + extra + src.t", "target.name": "SRC.name"}).execute()
    assert rows_of(table)[2] == {"id": 2, "name": "x", "v": 10.0}


def test_an_alias_hides_a_column_of_its_name(tmp_path):
    ld.write(tmp_path, {"id": [1, 2], "s": ["x", "y"], "t": [5, 6]})
    table = ld.Table.open(tmp_path)
    merge = table.merge({"id": [1], "t": [7]}, "t.id = s.id AND t.s = 'x'")
    merge.when_matched_update({"s": "concat(t.s, '!')", "t": "t.t + s.t"}).execute()
    assert rows_of(table) == [{"id": 1, "s": "x!", "t": 12}, {"id": 2, "s": "y", "t": 6}]


@pytest.mark.parametrize(
    ("on", "error", "message"),
    [
        ("id = s.id", PredicateError, "both sides have a column 'id': write t.id or s.id"),
        ("t.nothing = s.id", ColumnNotFoundError, "nothing"),
        ("t.id = s.id +", PredicateError, "t.id"),
        ("t.id + s.id", PredicateError, "t.id"),
        (None, PredicateError, "needs a condition"),
        ("t.id = s.name", PredicateError, "CAST"),
    ],
)
def test_bad_conditions_are_refused(tmp_path, on, error, message):
    table = make(tmp_path)
    merge = table.merge({"id": [1], "name": ["x"]}, on).when_matched_delete()
    for run in (merge.execute, merge.explain):
        with pytest.raises(error, match=message):
            run()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m, "needs a clause"),
        (lambda m: m.when_matched_update({}), "at least one column"),
        (lambda m: m.when_matched_update("id"), "at least one column"),
        (lambda m: m.when_not_matched_by_source_update("*"), "at least one column"),
        (lambda m: m.when_matched_update({"v": "1", "V": "2"}), "twice"),
        (lambda m: m.when_matched_update({"v": "1", "t.v": "2"}), "twice"),
    ],
)
def test_bad_clauses_are_refused(tmp_path, call, message):
    table = make(tmp_path)
    with pytest.raises(ConfigError, match=message):
        call(table.merge({"id": [1]}, "t.id = s.id")).execute()


def test_clauses_see_only_the_rows_that_they_have(tmp_path):
    table = make(tmp_path)
    merge = table.merge({"id": [1]}, "t.id = s.id")
    with pytest.raises(ColumnNotFoundError):
        merge.when_not_matched_insert({"id": "t.id"}).execute()
    with pytest.raises(ColumnNotFoundError):
        merge.when_not_matched_by_source_update({"id": "s.id"}).execute()


def test_aliases_must_differ(tmp_path):
    merge = make(tmp_path).merge({"id": [1]}, "x.id = X.id", target_alias="x", source_alias="X")
    with pytest.raises(ConfigError, match="source_alias"):
        merge.when_matched_delete().execute()


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2, None], pa.int16()),
        (["a", "", None], pa.string()),
        ([b"a", b"\0", None], pa.binary()),
        ([Decimal("1.10"), Decimal("-2.00"), None], pa.decimal128(9, 2)),
        ([date(2020, 1, 1), date(1, 1, 1), None], pa.date32()),
        ([True, False, None], pa.bool_()),
        ([0.0, float("nan"), None], pa.float32()),
    ],
)
def test_keys_of_any_type_match(tmp_path, values, kind):
    target = pa.table({"key": pa.array(values, kind), "v": [0, 0, 0]})
    ld.write(tmp_path, target, properties=VECTORS)
    table = ld.Table.open(tmp_path)
    source = {"key": pa.array(values[:1] + values[2:], kind), "v": [1, 1]}
    result = table.merge(source, "t.key = s.key").when_matched_update({"v": "s.v"}).execute()
    assert result.metrics["numTargetRowsUpdated"] == 1
    result = table.merge(source, "t.key <=> s.key").when_matched_update({"v": "s.v"}).execute()
    assert result.metrics["numTargetRowsUpdated"] == 2


def test_keys_of_different_types_match_in_their_common_type(tmp_path):
    table = make(tmp_path, files=3)
    for on in ("t.id = s.k", "s.k = t.id", "t.v = s.k", "t.name = concat('n', s.n)"):
        source = {"k": pa.array([4], pa.int8()), "n": ["4"]}
        result = table.merge(source, on, dry_run=True).when_matched_delete().execute()
        assert result.metrics["numTargetRowsDeleted"] == 1


def test_a_condition_without_an_equality_warns(tmp_path, caplog):
    table = make(tmp_path)
    merge = table.merge({"low": [2], "high": [4]}, "t.id BETWEEN s.low AND s.high")
    with caplog.at_level(logging.WARNING):
        result = merge.when_matched_delete().execute()
    assert "no equality" in result.warnings[0]
    assert "no equality" in caplog.text
    assert ids_of(table) == [0, 1, 5]


def test_several_source_rows_for_one_row_are_refused(tmp_path):
    table = make(tmp_path)
    before = files_of(table)
    source = {"id": [1, 4, 4], "v": [1.0, 2.0, 3.0]}
    for memory in (1024, 1 << 29):
        merge = table.merge(source, "t.id = s.id", config=ld.Config(operation_memory=memory))
        for bad in (
            merge.when_matched_update({"v": "s.v"}),
            merge.when_matched_delete("s.v > 0"),
            merge.when_matched_update({"v": "s.v"}, "s.v < 3").when_matched_delete(),
        ):
            with pytest.raises(MultipleMatchesError, match=r"t\.id = 4 \(ON t\.id = s\.id\)"):
                bad.execute()
    assert files_of(table) == before


def test_source_rows_for_which_no_clause_holds_do_not_count(tmp_path):
    table = make(tmp_path)
    source = {"id": [4, 4], "v": [2.0, 3.0]}
    table.merge(source, "t.id = s.id").when_matched_update({"v": "s.v"}, "s.v > 2").execute()
    assert rows_of(table)[4]["v"] == 3.0
    merge = table.merge(source, "t.id = s.id").when_matched_delete()
    assert merge.execute().metrics["numTargetRowsDeleted"] == 1
    result = table.merge(source, "t.id = s.id").when_not_matched_insert({"id": "s.id"}).execute()
    assert result.metrics["numTargetRowsInserted"] == 2


def test_frequent_keys_are_matched_in_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(tuning, "PAIRS_PER_BLOCK", 7)
    rows = {"id": list(range(12)), "key": ["a", "a", "b"] * 4}
    ld.write(tmp_path, rows, properties=VECTORS)
    table = ld.Table.open(tmp_path)
    source = {"key": ["a"] * 5 + ["b", "c"], "id": [0, 1, 3, 4, 99, 5, 7]}
    merge = table.merge(source, "t.key = s.key AND t.id = s.id + 3", dry_run=True)
    assert merge.when_matched_delete().execute().metrics["numTargetRowsDeleted"] == 5
    merge = table.merge(source, "t.key = s.key AND t.id > s.id")
    with pytest.raises(MultipleMatchesError, match=r"t\.key = a"):
        merge.when_matched_update({"id": "0"}).execute()
    assert merge.when_matched_delete().execute().metrics["numTargetRowsDeleted"] == 9
    assert ids_of(table) == [0, 2, 5]


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


NESTED = pa.schema([
    ("id", pa.int64()),
    ("a", pa.struct([("x", pa.int64()), ("y", pa.struct([("z", pa.string())]))])),
    ("l", pa.list_(pa.struct([("x", pa.int64()), ("y", pa.string())]))),
    ("m", pa.map_(pa.string(), pa.int64())),
])  # fmt: skip


def nested_table(directory):
    rows = [
        {"id": 1, "a": {"x": 1, "y": {"z": "q"}}, "l": [{"x": 1, "y": "b"}], "m": [("k", 1)]},
        {"id": 2, "a": None, "l": None, "m": None},
    ]
    ld.write(directory, pa.Table.from_pylist(rows, NESTED), properties=VECTORS)
    return ld.Table.open(directory)


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


# --- schema evolution ------------------------------------------------------------------------------


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


# --- files, history, races -------------------------------------------------------------------------


def test_keys_of_the_source_prune_files(tmp_path):
    table = make(tmp_path, 60, files=20)
    for file in table.scan().files():
        if file.stats["minValues"]["id"] not in (0, 30):
            (tmp_path / file.path).unlink()
    source = {"id": [1, 32], "name": ["x", "y"], "v": [0.0, 0.0]}
    result = table.merge(source, "t.id = s.id").when_matched_update("*").execute()
    assert result.metrics["numTargetRowsUpdated"] == 2


def test_vectors_write_only_changed_rows(tmp_path):
    table = make(tmp_path, 3000, files=3)
    before = files_of(table)
    source = {"id": [5, 1500, 9000], "name": ["x"] * 3, "v": [0.0] * 3}
    merge = table.merge(source, "t.id = s.id").when_matched_update("*")
    result = merge.when_not_matched_insert("*").execute()
    new = [f for f in files_of(table) if f not in before and "_delta_log" not in f.parts]
    assert len(new) == 2  # one data file, one of deletion vectors
    assert (result.files_added, result.files_removed) == (1, 0)
    assert result.metrics["numTargetDeletionVectorsAdded"] == 2
    assert result.metrics["numTargetRowsCopied"] == 0
    assert table.count() == 3001


def test_history_has_the_operation_of_delta_spark(tmp_path):
    table = make(tmp_path)
    merge = table.merge({"id": [1]}, "t.id = s.id", commit_metadata={"userMetadata": "nightly"})
    merge = merge.when_matched_delete("t.v > 0").when_not_matched_insert({"id": "s.id"})
    merge.when_not_matched_by_source_update({"v": "0"}, "t.v = 3").execute()
    entry = table.history()[0]
    assert entry.operation == "MERGE"
    assert entry.raw["operationParameters"] == {
        "predicate": '["t.id = s.id"]',
        "matchedPredicates": '[{"predicate":"t.v > 0","actionType":"delete"}]',
        "notMatchedPredicates": '[{"actionType":"insert"}]',
        "notMatchedBySourcePredicates": '[{"predicate":"t.v = 3","actionType":"update"}]',
    }
    assert entry.raw["userMetadata"] == "nightly"
    metrics = entry.raw["operationMetrics"]
    assert {k: v for k, v in metrics.items() if not k.endswith(("Ms", "Bytes")) and v != "0"} == {
        "numSourceRows": "1", "numTargetRowsUpdated": "1", "numTargetRowsDeleted": "1",
        "numTargetRowsMatchedDeleted": "1", "numTargetRowsNotMatchedBySourceUpdated": "1",
        "numOutputRows": "1", "numTargetDeletionVectorsAdded": "1", "numTargetFilesAdded": "1",
        "numTargetBytesAdded": metrics["numTargetBytesAdded"],
    }  # fmt: skip


def test_a_dry_run_and_an_explanation_write_nothing(tmp_path):
    table = make(tmp_path, 300, files=3)
    before = files_of(table)
    merge = table.merge({"id": [1, 500]}, "t.id = s.id AND t.id < 100", dry_run=True)
    merge = merge.when_matched_update({"v": "t.v + 1"}).when_not_matched_insert({"id": "s.id"})
    plan = merge.explain()
    assert (plan.files, plan.deletion_vectors) == (1, True)
    assert (plan.match_columns, plan.update_columns) == (("id",), ("id", "name", "v"))
    assert plan.target_condition == "id < 100"
    result = merge.execute()
    assert result.dry_run
    assert result.metrics["numTargetRowsUpdated"] == 1
    assert result.metrics["numTargetRowsInserted"] == 1
    assert files_of(table) == before


def test_application_transactions_apply_once(tmp_path):
    table = make(tmp_path)
    for applied in (False, True):
        merge = table.merge({"id": [1]}, "t.id = s.id", app_id="job", app_version=1)
        result = merge.when_matched_update({"v": "t.v + 1"}).execute()
        assert result.already_applied is applied
    assert rows_of(table)[1]["v"] == 2.0


def race(monkeypatch, change):
    commit = Verb.commit

    def raced(verb, *arguments, **more):
        monkeypatch.undo()
        change()
        return commit(verb, *arguments, **more)

    monkeypatch.setattr(Verb, "commit", raced)


def test_a_concurrent_append_beyond_the_keys_of_the_source_does_not_conflict(tmp_path, monkeypatch):
    table, other = make(tmp_path), ld.Table.open(tmp_path)
    source = {"id": [1, 9], "name": ["x", "y"], "v": [0.0, 0.0]}
    upsert = table.merge(source, "t.id = s.id").when_matched_update("*")
    race(monkeypatch, lambda: other.write({"id": [10], "name": ["z"], "v": [0.0]}))
    upsert.when_not_matched_insert("*").execute()
    assert ids_of(table) == [0, 1, 2, 3, 4, 5, 9, 10]
    race(monkeypatch, lambda: other.write({"id": [11], "name": ["z"], "v": [0.0]}))
    with pytest.raises(CommitConflictError):
        upsert.when_not_matched_by_source_update({"v": "1"}).execute()


def test_a_concurrent_append_of_rows_that_may_match_conflicts(tmp_path, monkeypatch):
    table, other = make(tmp_path), ld.Table.open(tmp_path)
    source = {"id": [1, 9], "name": ["x", "y"], "v": [0.0, 0.0]}
    merge = table.merge(source, "t.id = s.id AND t.id < 100").when_matched_update("*")
    merge = merge.when_not_matched_insert("*")
    race(monkeypatch, lambda: other.write({"id": [9], "name": ["z"], "v": [0.0]}))
    with pytest.raises(CommitConflictError):
        merge.execute()
    assert merge.execute().metrics["numTargetRowsUpdated"] == 2
    race(monkeypatch, lambda: other.write({"id": [900], "name": ["z"], "v": [0.0]}))
    source = {"id": [1], "name": ["new"], "v": [0.0]}
    merge = table.merge(source, "t.id = s.id AND t.id < 100").when_matched_update("*")
    assert merge.execute().metrics["numTargetRowsUpdated"] == 1


def test_concurrent_deletes_of_other_rows_of_a_file_do_not_conflict(tmp_path, monkeypatch):
    table, other = make(tmp_path), ld.Table.open(tmp_path)
    source = {"id": [1, 9], "name": ["x", "y"], "v": [0.0, 0.0]}
    upsert = table.merge(source, "t.id = s.id").when_matched_update("*")
    race(monkeypatch, lambda: other.delete("id = 5"))
    upsert.when_not_matched_insert("*").execute()
    assert ids_of(table) == [0, 1, 2, 3, 4, 9]
    race(monkeypatch, lambda: other.delete("id = 1"))
    with pytest.raises(CommitConflictError):
        upsert.execute()


def test_a_concurrent_delete_of_a_matched_row_conflicts_even_if_no_clause_held(
    tmp_path, monkeypatch
):
    table, other = make(tmp_path), ld.Table.open(tmp_path)
    source = {"id": [1, 2], "name": ["x", "y"], "v": [0.0, 0.0]}
    merge = table.merge(source, "t.id = s.id").when_matched_update("*", "s.id = 1")
    race(monkeypatch, lambda: other.delete("id = 2"))  # its source row would be inserted now
    with pytest.raises(CommitConflictError):
        merge.when_not_matched_insert("*").execute()


def test_a_concurrent_append_between_the_keys_of_the_source_does_not_conflict(
    tmp_path, monkeypatch
):
    table, other = make(tmp_path), ld.Table.open(tmp_path)
    source = {"id": [1, 9], "name": ["x", "y"], "v": [0.0, 0.0]}
    upsert = table.merge(source, "t.id = s.id").when_matched_update("*")
    upsert = upsert.when_not_matched_insert("*")
    race(monkeypatch, lambda: other.write({"id": [7], "name": ["z"], "v": [0.0]}))
    assert upsert.execute().metrics["numTargetRowsInserted"] == 1
    assert ids_of(table) == [0, 1, 2, 3, 4, 5, 7, 9]


def test_concurrent_merges_of_other_keys_do_not_conflict(tmp_path, monkeypatch):
    table, other = make(tmp_path), ld.Table.open(tmp_path)

    def upsert(writer, *ids):
        source = {"id": list(ids), "name": ["new"] * len(ids), "v": [9.0] * len(ids)}
        merge = writer.merge(source, "t.id = s.id").when_matched_update("*")
        return merge.when_not_matched_insert("*").execute()

    race(monkeypatch, lambda: upsert(other, 2, 7, 11))
    upsert(table, 1, 3, 9, 12)
    found = {row["id"] for row in rows_of(table) if row["name"] == "new"}
    assert found == {1, 2, 3, 7, 9, 11, 12}
    assert ids_of(table) == [0, 1, 2, 3, 4, 5, 7, 9, 11, 12]
    race(monkeypatch, lambda: upsert(other, 20))
    with pytest.raises(CommitConflictError):
        upsert(table, 19, 20)


def test_an_insert_of_new_keys_conflicts_with_removed_files_only(tmp_path, monkeypatch):
    table, other = make(tmp_path), ld.Table.open(tmp_path)

    def insert(*ids):
        source = {"id": list(ids), "name": ["new"] * len(ids), "v": [9.0] * len(ids)}
        return table.merge(source, "t.id = s.id").when_not_matched_insert("*").execute()

    race(monkeypatch, lambda: other.write({"id": [7], "name": ["z"], "v": [0.0]}))
    assert insert(1, 8).metrics["numTargetRowsInserted"] == 1
    race(monkeypatch, lambda: other.delete("id <= 5"))  # whole files; 1 would be inserted now
    with pytest.raises(CommitConflictError):
        insert(1, 10)
    assert insert(1, 10).metrics["numTargetRowsInserted"] == 2
