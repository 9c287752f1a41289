"""MERGE: sources, names, conditions and keys."""

from __future__ import annotations

import logging
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest

import lazydelta as ld
from lazydelta.errors import (
    ColumnNotFoundError,
    ConfigError,
    MultipleMatchesError,
    PredicateError,
)
from lazydelta.operations.dml.merge import tuning
from tests.unit.operations.dml.merge_tables import VECTORS, files_of, ids_of, make, rows_of

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


def test_a_key_without_statistics_warns(tmp_path, caplog):
    table = make(tmp_path, 6, {"delta.dataSkippingStatsColumns": "v"}, files=2)
    source = {"id": [1], "v": [0.0], "name": ["x"]}
    merge = table.merge(source, "t.id = s.id").when_matched_update("*")
    with caplog.at_level(logging.WARNING):
        result = merge.execute()
    (warning,) = result.warnings
    assert warning.startswith("MERGE reads the key of all 2 files: the log has no statistics of")
    assert warning in caplog.text
    for on in ("t.v = s.v", "t.id = s.id AND t.v < 100"):
        merge = table.merge(source, on, dry_run=True).when_matched_delete()
        assert merge.execute().warnings == ()


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
