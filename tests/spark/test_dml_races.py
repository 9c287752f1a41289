"""Verbs on Spark that lose a race: as if they ran after the winner, or a typed conflict."""

from __future__ import annotations

import pytest

import lazydelta as ld
import lazydelta.spark as executors
from lazydelta.errors import CommitConflictError, ConcurrentAppendError
from lazydelta.operations.dml import Verb
from tests.spark.dml_tables import FEED, VECTORS

TRACKED = {"delta.enableRowTracking": "true"}
KINDS = {"vectors": VECTORS, "feed": {**VECTORS, **FEED}, "tracked": {**VECTORS, **TRACKED}}


@pytest.fixture
def lose(monkeypatch):
    """Let other writers commit just before the next verb does."""

    def to(*winners):
        commit = Verb.commit

        def after(verb, *arguments, **more):
            monkeypatch.undo()
            for winner in winners:
                winner()
            return commit(verb, *arguments, **more)

        monkeypatch.setattr(Verb, "commit", after)

    return to


def make(directory, properties=VECTORS):
    for ids in (range(10), range(10, 20)):
        rows = {"id": [*ids], "v": [n * 10 for n in ids]}
        ld.write(directory, rows, properties=properties if ids.start == 0 else None)
    return ld.Table.open(directory)


def values_of(table):
    return {row["id"]: row["v"] for row in table.to_arrow().to_pylist()}


def replayed(table):
    """The rows of each version equal the rows before it and its changes."""
    rows = {}
    for version in range(table.version + 1):
        feed = table.changes(starting_version=version, ending_version=version).to_arrow()
        for kind in (("delete", "update_preimage"), ("insert", "update_postimage")):
            for row in feed.to_pylist():
                if row["_change_type"] in kind:
                    if kind[0] == "delete":
                        assert rows.pop(row["id"]) == row["v"]
                    else:
                        rows[row["id"]] = row["v"]
    return rows


@pytest.mark.parametrize("kind", KINDS)
def test_other_rows_of_a_file_and_added_rows_do_not_conflict(spark, tmp_path, lose, kind):
    table = make(tmp_path, KINDS[kind])
    winners = [
        lambda: table.delete("id IN (4, 12)"),
        lambda: table.update({"v": "1"}, "id IN (3, 13)"),
        lambda: table.write({"id": [23, 24], "v": [0, 0]}),
    ]
    lose(*winners)
    where = (
        "id % 5 = 0" if kind == "vectors" else "id % 5 = 0 AND soundex(concat('n', id)) = 'N000'"
    )
    result = executors.update(spark, tmp_path, {"v": "v + 7"}, where)
    assert result.version == table.version == 5
    expected = {n: n * 10 for n in range(20) if n not in (4, 12)} | {3: 1, 13: 1, 23: 0, 24: 0}
    expected |= {n: n * 10 + 7 for n in (0, 5, 10, 15)}
    assert values_of(table) == expected
    assert result.metrics["numUpdatedRows"] == 4
    lose(lambda: table.delete("id = 1"), lambda: table.write({"id": [30, 31], "v": [9, 9]}))
    result = executors.delete(spark, tmp_path, "id IN (2, 30) OR id < 0")
    assert result.metrics["numDeletedRows"] == 2
    expected = {n: v for n, v in expected.items() if n not in (1, 2)} | {31: 9}
    assert values_of(table) == expected
    assert table.check().checksum.status == "matches"
    if kind == "feed":
        assert replayed(table) == expected


def test_the_same_row_is_a_conflict(spark, tmp_path, lose):
    table = make(tmp_path)
    lose(lambda: table.delete("id IN (3, 5)"))
    with pytest.raises(CommitConflictError):
        executors.delete(spark, tmp_path, "id = 5")
    assert 4 in values_of(table)


def test_merges_of_other_keys_do_not_conflict(spark, tmp_path, lose):
    table = make(tmp_path)
    source = spark.createDataFrame([(2, -2), (40, -40)], "id bigint, v bigint")
    merge = executors.merge(spark, tmp_path, source, "t.id = s.id")
    merge = merge.when_matched_update("*").when_not_matched_insert("*")
    here = table.merge({"id": [3, 41], "v": [-3, -41]}, "t.id = s.id")
    lose(lambda: here.when_matched_update("*").when_not_matched_insert("*").execute())
    merge.execute()
    changed = {2: -2, 3: -3, 40: -40, 41: -41}
    assert values_of(table) == {n: n * 10 for n in range(20)} | changed
    lose(lambda: table.write({"id": [40], "v": [0]}))
    with pytest.raises(ConcurrentAppendError):
        merge.execute()


def test_row_level_concurrency_can_be_turned_off(spark, tmp_path, lose):
    table = make(tmp_path)
    lose(lambda: table.delete("id = 4"))
    with pytest.raises(CommitConflictError):
        executors.delete(spark, tmp_path, "id = 5", config=ld.Config(row_level_concurrency=False))
