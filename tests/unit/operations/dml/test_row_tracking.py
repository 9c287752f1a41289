"""Row ids and row commit versions of rows that DELETE, UPDATE and overwrites move to new files."""

from __future__ import annotations

import shutil
from pathlib import Path

import orjson
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lazydelta as ld
from lazydelta.errors import SchemaError

TRACKED = {"delta.enableRowTracking": "true"}
VECTORS = {"delta.enableDeletionVectors": "true"}
TABLES = {
    "rewritten": {},
    "vectors": VECTORS,
    "rewritten-feed": {"delta.enableChangeDataFeed": "true"},
    "mapped-by-name": {"delta.columnMapping.mode": "name"},
    "mapped-by-id": {**VECTORS, "delta.columnMapping.mode": "id"},
}
WITH_IDS = ld.ReadOptions(row_id_column="row_id", row_commit_version_column="version")


def numbered(first, count):
    ids = range(first, first + count)
    return {"id": list(ids), "p": ["ab"[i % 2] for i in ids], "v": [0] * count}


def make(directory, properties, partition_by=()):
    first = {"properties": {**TRACKED, **properties}, "partition_by": list(partition_by)}
    ld.write(directory, numbered(0, 8), **first)
    ld.write(directory, numbered(8, 8))
    return ld.Table.open(directory)


def tracked(table):
    """Return value, row id and row commit version by key."""
    rows = table.to_arrow(WITH_IDS).to_pylist()
    found = {row["id"]: (row["v"], row["row_id"], row["version"]) for row in rows}
    assert len(found) == len(rows) == len({row["row_id"] for row in rows})
    return found


def commit_of(table):
    path = Path(table.url, "_delta_log", f"{table.version:020}.json")
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


# --- against a model ---------------------------------------------------------------------------------


def delete(table, rows, low, high):
    table.delete(f"id >= {low} AND id < {high}")
    return {key: row for key, row in rows.items() if not low <= key < high}


def update(table, rows, low, high):
    table.update({"v": "v + 1"}, f"id >= {low} AND id < {high}")
    changed = {key: rows[key] for key in rows if low <= key < high}
    new = {key: (value + 1, row_id, table.version) for key, (value, row_id, _) in changed.items()}
    return {**rows, **new}


def replace(table, rows, low, high):
    given = numbered(low, high - low)
    table.write(given, "overwrite", where=f"id >= {low} AND id < {high}")
    fresh = tracked(table)
    replaced = {key: fresh[key] for key in given["id"]}
    known = {row_id for _, row_id, _ in rows.values()}
    assert known.isdisjoint(row_id for _, row_id, _ in replaced.values())
    assert {version for _, _, version in replaced.values()} <= {table.version}
    return {**{key: row for key, row in rows.items() if not low <= key < high}, **replaced}


def merge(table, rows, low, high):
    source = {"id": list(range(low, high)), "p": ["a"] * (high - low), "v": [7] * (high - low)}
    merging = table.merge(source, on="t.id = s.id").when_matched_update({"v": "s.v"})
    merging.when_not_matched_insert("*").when_not_matched_by_source_delete("id = 0").execute()
    version, fresh = table.version, tracked(table)
    changed = {key: (7, rows[key][1], version) for key in rows if low <= key < high}
    inserted = {key: fresh[key] for key in source["id"] if key not in rows}
    known = {row_id for _, row_id, _ in rows.values()}
    assert known.isdisjoint(row_id for _, row_id, _ in inserted.values())
    assert {version for _, _, version in inserted.values()} <= {version}
    kept = {key: row for key, row in rows.items() if key != 0 or low == 0}
    return {**kept, **changed, **inserted}


steps = st.lists(
    st.tuples(st.sampled_from([delete, update, replace, merge]), st.integers(0, 15), st.integers(1, 6)),
    min_size=1, max_size=4,
)  # fmt: skip


@pytest.mark.sample(3)
@pytest.mark.parametrize("kind", TABLES)
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=steps, partitioned=st.booleans())
def test_ids_are_stable_and_versions_are_of_the_last_change(tmp_path, kind, steps, partitioned):
    directory = tmp_path / "t"
    shutil.rmtree(directory, ignore_errors=True)
    table = make(directory, TABLES[kind], ("p",) if partitioned else ())
    rows = tracked(table)
    for step, low, count in steps:
        rows = step(table, rows, low, low + count)
        assert tracked(table) == rows
        assert table.count() == len(rows)
        assert table.check().ok


# --- what is written ----------------------------------------------------------------------------------


def test_neither_schema_nor_statistics_have_the_materialized_columns(tmp_path):
    table = make(tmp_path, {"delta.dataSkippingNumIndexedCols": "-1"})
    table.delete("id = 3")
    (add,) = [action["add"] for action in commit_of(table) if "add" in action]
    stored = pq.read_schema(tmp_path / add["path"]).names
    assert [name.partition("-col-")[0] for name in stored[3:]] == ["_row-id", "_row-commit-version"]
    assert set(orjson.loads(add["stats"])["nullCount"]) == {"id", "p", "v"}
    assert table.to_arrow().schema.names == ["id", "p", "v"]
    assert add["baseRowId"] == 16  # fresh ids do not collide with those that are stored


@pytest.mark.parametrize("verb", ["delete", "update", "replace", "mark"])
def test_the_commit_states_that_ids_are_preserved(tmp_path, verb):
    table = make(tmp_path, VECTORS if verb == "mark" else {})
    if verb == "update":
        table.update({"v": "1"}, "id = 3")
    elif verb == "replace":
        table.write(numbered(3, 1), "overwrite", where="id = 3")
    else:
        table.delete("id = 3")
    assert commit_of(table)[0]["commitInfo"]["tags"]["delta.rowTracking.preserved"] == "true"


def test_a_marked_file_keeps_its_row_tracking_fields(tmp_path):
    table = make(tmp_path, VECTORS)
    table.delete("id = 11")
    (remove,) = [action["remove"] for action in commit_of(table) if "remove" in action]
    (add,) = [action["add"] for action in commit_of(table) if "add" in action]
    for action in (remove, add):
        assert (action["baseRowId"], action["defaultRowCommitVersion"]) == (8, 1)


def test_rows_get_fresh_ids_where_row_tracking_is_supported_but_not_enabled(tmp_path):
    ld.write(tmp_path, numbered(0, 8), properties={"delta.feature.rowTracking": "supported"})
    table = ld.Table.open(tmp_path)
    table.delete("id = 3")
    (add,) = [action["add"] for action in commit_of(table) if "add" in action]
    assert pq.read_schema(tmp_path / add["path"]).names == ["id", "p", "v"]
    assert (add["baseRowId"], add["defaultRowCommitVersion"]) == (8, 1)


def test_rows_without_tracking_have_no_ids(tmp_path):
    ld.write(tmp_path, numbered(0, 8))
    table = ld.Table.open(tmp_path)
    table.update({"v": "1"}, "id = 3")
    for action in commit_of(table):
        assert "baseRowId" not in action.get("add", {})


def test_a_table_that_names_no_column_for_ids_is_refused(tmp_path):
    table = make(tmp_path, {})
    commit = tmp_path / "_delta_log" / f"{0:020}.json"
    commit.write_text(commit.read_text().replace("materializedRowIdColumnName", "other"))
    for checksum in (tmp_path / "_delta_log").glob("*.crc"):
        checksum.unlink()
    with pytest.raises(SchemaError, match="materializedRowIdColumnName"):
        ld.Table.open(tmp_path).delete("id = 3")
    assert table.version == 1
