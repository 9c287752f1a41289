"""MERGE: files, history, and races with other writers."""

from __future__ import annotations

import pytest

import lazydelta as ld
from lazydelta.errors import (
    CommitConflictError,
)
from lazydelta.operations.dml.verb import Verb
from tests.unit.operations.dml.merge_tables import files_of, ids_of, make, rows_of

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
