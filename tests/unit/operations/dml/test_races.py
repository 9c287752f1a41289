"""DELETE and UPDATE that lose a race: as if they ran after the winners, or a typed conflict."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lazydelta as ld
from lazydelta.errors import (
    CommitConflictError,
    ConcurrentAppendError,
    ConcurrentDeleteReadError,
    MetadataChangedError,
)
from lazydelta.operations.dml.verb import Verb
from tests.unit.operations.dml.test_delete_update import (
    FEED,
    MAPPED,
    PREDICATES,
    SCHEMA,
    SETS,
    VECTORS,
    changed,
    make,
    numbered,
    plain,
    replay,
    rows_of,
)

TRACKED = {"delta.enableRowTracking": "true"}
TABLES = {
    "vectors": VECTORS,
    "vectors-feed": {**VECTORS, **FEED},
    "rewritten": {},
    "mapped-tracked": {**VECTORS, **MAPPED, **TRACKED},
}
WITH_IDS = ld.ReadOptions(row_id_column="row_id", row_commit_version_column="version")
RELAXED = {"delta.isolationLevel": "WriteSerializable"}


def race(monkeypatch, *winners):
    """Let other writers commit just before the next verb does."""
    commit = Verb.commit

    def lose(verb, *arguments, **more):
        monkeypatch.undo()
        for winner in winners:
            winner()
        return commit(verb, *arguments, **more)

    monkeypatch.setattr(Verb, "commit", lose)


def append(table, rows):
    return table.write(pa.Table.from_pylist(rows, SCHEMA))


def ids(table):
    return sorted(table.to_arrow()["id"].to_pylist())


# --- against plain rows ------------------------------------------------------------------------------

verbs = st.tuples(st.sampled_from(sorted(PREDICATES)), st.sampled_from(["delete", *SETS]))
winners = st.lists(st.one_of(st.just("append"), verbs), min_size=1, max_size=2)
table_rows = st.lists(
    st.fixed_dictionaries({
        "id": st.integers(0, 9), "p": st.sampled_from(["a", "b", None]), "v": st.just(1.0),
    }),
    min_size=4, max_size=16,
)  # fmt: skip
APPENDED = [{"id": 3, "p": "a", "v": 1.0}, {"id": 5, "p": "b", "v": 1.0}]


def run(table, verb):
    if verb == "append":
        return append(table, APPENDED)
    predicate, what = verb
    if what == "delete":
        return table.delete(predicate)
    return table.update({what: SETS[what][0]}, predicate)


def after(rows, verb):
    return [*rows, *APPENDED] if verb == "append" else changed(rows, *verb)


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", TABLES)
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=table_rows, winners=winners, mine=verbs, partitioned=st.booleans())
def test_a_lost_race_is_a_serial_order_or_a_conflict(
    tmp_path, monkeypatch, kind, rows, winners, mine, partitioned
):
    directory = tmp_path / "t"
    shutil.rmtree(directory, ignore_errors=True)
    table = make(directory, rows, TABLES[kind], ("p",) if partitioned else (), files=1)
    other = ld.Table.open(directory)
    race(monkeypatch, *[lambda one=one: run(other, one) for one in winners])
    try:
        result = run(table, mine)
    except CommitConflictError:
        result = None
    monkeypatch.undo()  # a verb without a match does not commit
    before = rows
    for winner in winners:
        before = after(before, winner)
    matched = sum(map(PREDICATES[mine[0]], before))
    if result is None:
        assert rows_of(other) == plain(before)
        return
    if any(map(PREDICATES[mine[0]], rows)):
        assert rows_of(table) == plain(after(before, mine))
        key = "numDeletedRows" if mine[1] == "delete" else "numUpdatedRows"
        assert result.metrics[key] == matched
        if "feed" in kind:
            assert replay(table, result.version, before) == plain(after(before, mine))
    assert table.check().ok
    if "tracked" in kind:
        row_ids = table.to_arrow(WITH_IDS)["row_id"].to_pylist()
        assert len(set(row_ids)) == len(row_ids)
        assert None not in row_ids


# --- MERGE against plain rows ---------------------------------------------------------------------------

MERGES = {
    # clauses of a MERGE: (where of a matched update, or None without one; whether it inserts)
    "upsert": ("true", True),
    "update": ("true", False),
    "insert": (None, True),
    "some": ("t.p = 'a'", True),
}
merges = st.tuples(st.sampled_from(sorted(MERGES)), st.sets(st.integers(0, 12), min_size=1))


def run_merge(table, merge):
    kind, keys = merge
    where, inserts = MERGES[kind]
    source = [{"id": key, "p": "m", "v": 2.0} for key in sorted(keys)]
    planned = table.merge(pa.Table.from_pylist(source, SCHEMA), "t.id = s.id")
    if where is not None:
        planned = planned.when_matched_update({"v": "s.v"}, None if where == "true" else where)
    return (planned.when_not_matched_insert("*") if inserts else planned).execute()


def after_merge(rows, merge):
    kind, keys = merge
    where, inserts = MERGES[kind]

    def is_changed(row):
        return where is not None and row["id"] in keys and (where == "true" or row["p"] == "a")

    new = [{"id": key, "p": "m", "v": 2.0} for key in keys - {row["id"] for row in rows}]
    changed_rows = [{**row, "v": 2.0} if is_changed(row) else row for row in rows]
    return changed_rows + (new if inserts else [])


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=table_rows, winner=st.one_of(st.just("append"), verbs, merges), mine=merges)
def test_a_merge_that_loses_a_race_is_a_serial_order_or_a_conflict(
    tmp_path, monkeypatch, rows, winner, mine
):
    directory = tmp_path / "t"
    shutil.rmtree(directory, ignore_errors=True)
    table, other = make(directory, rows, {**VECTORS, **FEED}), ld.Table.open(directory)
    is_merge = winner[0] in MERGES
    race(monkeypatch, lambda: (run_merge if is_merge else run)(other, winner))
    version = table.version
    try:
        result = run_merge(table, mine)
    except CommitConflictError:
        result = None
    monkeypatch.undo()
    raced = other.version - version  # a verb without a match does not commit, nor is it raced
    before = (after_merge if is_merge else after)(rows, winner) if raced else rows
    if result is None:
        assert rows_of(other) == plain(before)
    elif result.version > version:
        assert rows_of(table) == plain(after_merge(before, mine))
        assert replay(table, result.version, before) == plain(after_merge(before, mine))


# --- one file, two writers -----------------------------------------------------------------------------


@pytest.mark.parametrize("winner", ["delete", "update"])
@pytest.mark.parametrize("mine", ["delete", "update"])
def test_different_rows_of_one_file_are_changed_by_both(tmp_path, monkeypatch, mine, winner):
    table = make(tmp_path, numbered(8), {**VECTORS, **TRACKED}, files=1)
    before = {row["id"]: row["row_id"] for row in table.to_arrow(WITH_IDS).to_pylist()}
    calls = {
        "delete": lambda writer, key: writer.delete(f"id = {key}"),
        "update": lambda writer, key: writer.update({"v": "-1"}, f"id = {key}"),
    }
    other = ld.Table.open(tmp_path)
    race(monkeypatch, lambda: calls[winner](other, 5), lambda: calls[winner](other, 6))
    result = calls[mine](table, 3)
    assert (result.version, result.metrics["numDeletionVectorsUpdated"]) == (3, 1)
    found = {row["id"]: row for row in table.to_arrow(WITH_IDS).to_pylist()}
    touched = {5: winner, 6: winner, 3: mine}
    assert sorted(found) == [key for key in range(8) if touched.get(key) != "delete"]
    for key, row in found.items():
        assert row["v"] == (-1 if key in touched else key)
        assert row["row_id"] == before[key]
    if mine == "update":
        assert found[3]["version"] == 3


@pytest.mark.parametrize("mine", ["delete", "update"])
def test_the_same_row_is_a_conflict(tmp_path, monkeypatch, mine):
    table, other = make(tmp_path, numbered(8), VECTORS, files=1), ld.Table.open(tmp_path)
    race(monkeypatch, lambda: other.delete("id IN (3, 5)"))
    with pytest.raises((ConcurrentAppendError, ConcurrentDeleteReadError)):
        table.delete("id = 3") if mine == "delete" else table.update({"v": "0"}, "id IN (2, 3)")
    assert ids(table) == [0, 1, 2, 4, 6, 7]
    assert table.delete("id = 2").metrics["numDeletedRows"] == 1


def test_a_rewritten_file_is_a_conflict(tmp_path, monkeypatch):
    table, other = make(tmp_path, numbered(8), {}, files=1), ld.Table.open(tmp_path)
    race(monkeypatch, lambda: other.delete("id = 5"))
    with pytest.raises(CommitConflictError):
        table.delete("id = 3")
    assert table.delete("id = 3").metrics["numDeletedRows"] == 1


def test_rows_that_come_back_are_a_conflict(tmp_path, monkeypatch):
    """A winner that shortens a vector restores rows, which may match."""
    table = make(tmp_path, numbered(8), VECTORS, files=1)
    first = (tmp_path / "_delta_log" / f"{0:020}.json").read_text().splitlines()
    table.delete("id = 7")
    marked = (tmp_path / "_delta_log" / f"{1:020}.json").read_text().splitlines()

    def restore():
        (add,) = [line for line in first if '"add"' in line]
        (remove,) = [line for line in marked if '"add"' in line]
        lines = ['{"commitInfo":{"timestamp":1,"operation":"RESTORE"}}', add]
        lines.append(remove.replace('{"add":', '{"remove":').replace('"stats"', '"ignored"'))
        (tmp_path / "_delta_log" / f"{2:020}.json").write_text("\n".join([*lines, ""]))

    race(monkeypatch, restore)
    with pytest.raises(CommitConflictError):
        table.delete("id IN (2, 7)")
    assert ids(ld.Table.open(tmp_path)) == list(range(8))


def test_row_level_concurrency_can_be_turned_off(tmp_path, monkeypatch):
    make(tmp_path, numbered(8), VECTORS, files=1)
    config = ld.Config(row_level_concurrency=False)
    table, other = ld.Table.open(tmp_path, config=config), ld.Table.open(tmp_path)
    race(monkeypatch, lambda: other.delete("id = 5"))
    with pytest.raises(CommitConflictError):
        table.delete("id = 3")


# --- files that the winner added -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("properties", "expected"), [({}, []), (RELAXED, [3])], ids=["serializable", "relaxed"]
)
def test_appended_rows_that_match_are_deleted_under_serializable(
    tmp_path, monkeypatch, properties, expected
):
    table, other = make(tmp_path, numbered(8), {**VECTORS, **properties}), ld.Table.open(tmp_path)
    race(monkeypatch, lambda: append(other, numbered(5)))
    result = table.delete("id = 3")
    assert [key for key in ids(table) if key == 3] == expected
    assert result.metrics["numDeletedRows"] == 2 - len(expected)


def test_only_added_files_are_searched_again(tmp_path, monkeypatch):
    table, other = make(tmp_path, numbered(8), VECTORS), ld.Table.open(tmp_path)
    before = [file for file in tmp_path.iterdir() if file.suffix == ".parquet"]

    def append_and_lose_the_old_files():
        append(other, numbered(5))
        for file in before:
            file.unlink()

    race(monkeypatch, append_and_lose_the_old_files)
    assert table.delete("id = 3").metrics["numDeletedRows"] == 2


def test_appends_to_a_deleted_partition_are_deleted_without_a_read(tmp_path, monkeypatch):
    table = make(tmp_path, numbered(8), FEED, ("p",))
    other = ld.Table.open(tmp_path)

    def append_unreadable():
        before = set(tmp_path.rglob("*.parquet"))
        append(other, numbered(4))
        for file in set(tmp_path.rglob("*.parquet")) - before:
            file.write_bytes(b"")

    race(monkeypatch, append_unreadable)
    result = table.delete("p = 'a'")
    assert (result.metrics["numDeletedRows"], result.files_removed) == (6, 3)


def test_changed_metadata_is_a_conflict(tmp_path, monkeypatch):
    table, other = make(tmp_path, numbered(8), VECTORS, files=1), ld.Table.open(tmp_path)

    def alter_and_delete():
        other.alter.add_columns("extra INT")
        other.delete("id = 5")

    race(monkeypatch, alter_and_delete)
    with pytest.raises(MetadataChangedError):
        table.delete("id = 3")


def test_row_ids_after_a_race_are_new(tmp_path, monkeypatch):
    """A delete of whole files has no rows to number, until a race leaves it a file to rewrite."""
    table = make(tmp_path, numbered(8), TRACKED, files=1)
    append(table, numbered(10)[8:])
    table.delete("id >= 8")

    def restore():
        appended = (tmp_path / "_delta_log" / f"{1:020}.json").read_text().splitlines()
        (add,) = [line for line in appended if line.startswith('{"add"')]
        lines = ['{"commitInfo":{"timestamp":1,"operation":"RESTORE"}}', add, ""]
        (tmp_path / "_delta_log" / f"{3:020}.json").write_text("\n".join(lines))

    race(monkeypatch, restore)
    assert table.delete("id < 9").metrics["numDeletedRows"] == 9
    append(table, numbered(2))
    assert table.to_arrow(WITH_IDS)["row_id"].to_pylist() == [11, 12, 9]
