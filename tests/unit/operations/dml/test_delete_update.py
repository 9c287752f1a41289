"""DELETE and UPDATE against plain rows, for every way in which rows leave their files."""

from __future__ import annotations

import shutil
from pathlib import Path

import orjson
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lazydelta as ld
from lazydelta.errors import (
    AppendOnlyError,
    ColumnNotFoundError,
    ConfigError,
    ConstraintViolationError,
    PredicateError,
    TableNotFoundError,
)

VECTORS = {"delta.enableDeletionVectors": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}
MAPPED = {"delta.columnMapping.mode": "name"}
TABLES = {
    "rewritten": {},
    "vectors": VECTORS,
    "vectors-feed": {**VECTORS, **FEED},
    "rewritten-feed": FEED,
    "mapped": {**VECTORS, **MAPPED},
}
SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string()), ("v", pa.float64())])


def make(directory, rows, properties=None, partition_by=(), files=2):
    half = max(1, len(rows) // files)
    for start in range(0, len(rows), half):
        part = pa.Table.from_pylist(rows[start : start + half], SCHEMA)
        first = {"properties": properties or {}, "partition_by": list(partition_by)}
        ld.write(directory, part, **({} if start else first))
    return ld.Table.open(directory)


def numbered(count):
    return [{"id": i, "p": "ab"[i % 2], "v": float(i)} for i in range(count)]


def rows_of(table, version=None):
    return plain(table.snapshot(version).scan().to_arrow().to_pylist())


def plain(rows):
    """Rows that compare equal if their values do, NaN included."""
    return sorted(repr([row[name] for name in SCHEMA.names]) for row in rows)


def data_files(table):
    return [f for f in Path(table.url).rglob("*") if f.is_file() and "_delta_log" not in f.parts]


# --- against plain rows ------------------------------------------------------------------------

values = st.one_of(st.none(), st.integers(-3, 3).map(float), st.just(float("nan")))
table_rows = st.lists(
    st.fixed_dictionaries({
        "id": st.one_of(st.none(), st.integers(0, 9)),
        "p": st.sampled_from(["a", "b", None]),
        "v": values,
    }),
    min_size=1, max_size=24,
)  # fmt: skip
PREDICATES = {
    "id = 3": lambda r: r["id"] == 3,
    "id > 4": lambda r: r["id"] is not None and r["id"] > 4,
    "id IS NULL": lambda r: r["id"] is None,
    "p = 'a'": lambda r: r["p"] == "a",
    "p = 'a' AND id < 5": lambda r: r["p"] == "a" and r["id"] is not None and r["id"] < 5,
    "p IS NULL OR v = 1": lambda r: r["p"] is None or r["v"] == 1,
    "NOT (id = 3)": lambda r: r["id"] is not None and r["id"] != 3,
    "true": lambda _: True,
}
SETS = {
    "id": ("id + 1", lambda r: None if r["id"] is None else r["id"] + 1),
    "p": ("'c'", lambda _: "c"),
    "v": ("0.5", lambda _: 0.5),
}
steps = st.lists(
    st.tuples(st.sampled_from(sorted(PREDICATES)), st.sampled_from(["delete", *SETS])),
    min_size=1, max_size=4,
)  # fmt: skip


def changed(rows, predicate, verb):
    matches = PREDICATES[predicate]
    if verb == "delete":
        return [row for row in rows if not matches(row)]
    return [{**row, verb: SETS[verb][1](row)} if matches(row) else row for row in rows]


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", TABLES)
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=table_rows, steps=steps, partitioned=st.booleans())
def test_rows_and_change_feed_are_those_of_plain_rows(tmp_path, kind, rows, steps, partitioned):
    directory = tmp_path / "t"
    shutil.rmtree(directory, ignore_errors=True)
    table = make(directory, rows, TABLES[kind], ("p",) if partitioned else ())
    for predicate, verb in steps:
        before, version = rows, table.version
        rows = changed(rows, predicate, verb)
        matched = sum(map(PREDICATES[predicate], before))
        if verb == "delete":
            result = table.delete(predicate)
            assert result.metrics["numDeletedRows"] == matched
        else:
            result = table.update({verb: SETS[verb][0]}, predicate)
            assert result.metrics["numUpdatedRows"] == matched
        assert result.version == version + bool(matched)
        assert rows_of(table) == plain(rows)
        assert table.count() == len(rows)
        assert table.check().checksum.status == "matches"
        if matched and "feed" in kind:
            replayed = replay(table, result.version, before)
            assert replayed == plain(rows)


def replay(table, version, before):
    """Apply the change feed of one version to rows."""
    rows = plain(before)
    feed = table.changes(starting_version=version, ending_version=version).to_arrow().to_pylist()
    kinds = {"delete": rows.remove, "update_preimage": rows.remove}
    for change in sorted(feed, key=lambda c: c["_change_type"] not in kinds):
        (row,) = plain([change])
        kinds.get(change["_change_type"], rows.append)(row)
    return sorted(rows)


# --- what is read and written ------------------------------------------------------------------


def test_deleting_a_partition_opens_no_data_file(tmp_path):
    table = make(tmp_path, numbered(40), VECTORS, ("p",))
    for file in data_files(table):
        file.unlink()
    result = table.delete("p = 'a'")
    assert result.files_removed == 2
    assert result.metrics["numDeletedRows"] == 20
    assert table.delete().metrics["numDeletedRows"] == 20
    assert table.count() == 0


def test_vectors_rewrite_no_data_and_share_a_file(tmp_path):
    table = make(tmp_path, numbered(1000), VECTORS, files=10)
    before = {file: file.stat().st_size for file in data_files(table)}
    result = table.delete("id % 100 = 7")
    (vectors,) = set(data_files(table)) - set(before)
    assert vectors.name.startswith("deletion_vector_")
    assert (result.files_added, result.bytes) == (0, 0)
    assert result.metrics["numDeletionVectorsAdded"] == 10
    assert table.count() == 990


def test_statistics_of_a_marked_file_are_wide(tmp_path):
    table = make(tmp_path, numbered(10), VECTORS, files=1)
    table.delete("id = 9")
    commit = (tmp_path / "_delta_log" / f"{1:020}.json").read_text().splitlines()
    (add,) = [action["add"] for line in commit if "add" in (action := orjson.loads(line))]
    stats = orjson.loads(add["stats"])
    assert (stats["numRecords"], stats["tightBounds"]) == (10, False)
    assert stats["maxValues"]["id"] == 9
    assert add["deletionVector"]["cardinality"] == 1


@pytest.mark.parametrize(("ratio", "added"), [(1.0, 0), (0.3, 1), (0.0, 1)])
def test_a_mostly_deleted_file_is_rewritten(tmp_path, ratio, added):
    make(tmp_path, numbered(10), VECTORS, files=1)
    table = ld.Table.open(tmp_path, config=ld.Config(max_deleted_rows_ratio=ratio))
    assert table.delete("id < 4").files_added == added
    assert table.count() == 6


def test_a_file_without_statistics_gets_its_row_count_from_the_footer(tmp_path):
    table = make(tmp_path, numbered(10), {**VECTORS, "delta.dataSkippingNumIndexedCols": "0"})
    for commit in (tmp_path / "_delta_log").glob("*.json"):
        actions = [orjson.loads(line) for line in commit.read_text().splitlines()]
        for action in actions:
            action.get("add", {}).pop("stats", None)
        commit.write_bytes(b"\n".join(map(orjson.dumps, actions)))
    for checksum in (tmp_path / "_delta_log").glob("*.crc"):
        checksum.unlink()
    table.delete("id = 3")
    assert rows_of(table) == plain(r for r in numbered(10) if r["id"] != 3)
    assert table.count() == 9


def test_a_dry_run_writes_nothing(tmp_path):
    table = make(tmp_path, numbered(10), VECTORS)
    before = data_files(table)
    for result in (
        table.delete("id < 3", dry_run=True),
        table.update({"v": "1"}, "id < 3", dry_run=True),
    ):
        assert result.dry_run
        assert 3 in result.metrics.values()
        assert result.version == table.version == 1
    assert data_files(table) == before


def test_history_has_the_operations_of_delta_spark(tmp_path):
    table = make(tmp_path, numbered(10))
    table.delete("id = 1", commit_metadata={"job": {"name": "nightly"}})
    table.update({"v": "v + 1"}, "id = 2")
    update, delete, *_ = table.history()
    assert (update.operation, delete.operation) == ("UPDATE", "DELETE")
    assert delete.raw["operationParameters"] == {"predicate": '["id = 1"]'}
    assert update.raw["operationParameters"] == {"predicate": "id = 2"}
    assert int(update.raw["operationMetrics"]["numCopiedRows"]) == 3


# --- rules of the table --------------------------------------------------------------------------


def test_application_transactions_apply_once(tmp_path):
    table = make(tmp_path, numbered(4))
    first = table.update({"id": "id + 10"}, "id < 4", app_id="job", app_version=1)
    again = table.update({"id": "id + 10"}, app_id="job", app_version=1)
    assert not first.already_applied
    assert again.already_applied
    assert sorted(table.to_arrow()["id"].to_pylist()) == [10, 11, 12, 13]


def test_generated_columns_are_computed_anew(tmp_path):
    ld.Table.create(tmp_path, "id BIGINT, twice BIGINT GENERATED ALWAYS AS (id * 2)")
    table = ld.Table.open(tmp_path)
    table.write({"id": [1, 2]})
    table.update({"id": "id + 10"}, "id = 2")
    assert sorted(table.to_arrow().column("twice").to_pylist()) == [2, 24]
    with pytest.raises(ConstraintViolationError, match="twice"):
        table.update({"twice": "7"})


def test_a_violated_constraint_leaves_nothing(tmp_path):
    table = make(tmp_path, numbered(4))
    table.alter.add_constraint("positive", "v >= 0")
    before, version = data_files(table), table.version
    with pytest.raises(ConstraintViolationError, match="positive"):
        table.update({"v": "v - 2"})
    assert (data_files(table), table.version) == (before, version)


def test_expressions_read_the_old_row(tmp_path):
    table = make(tmp_path, numbered(2), files=1)
    table.update({"id": "cast(v AS BIGINT) + 5", "v": "cast(id AS DOUBLE)", "p": ld.lit("z")})
    assert table.scan().to_arrow().to_pylist() == [
        {"id": 5, "p": "z", "v": 0.0},
        {"id": 6, "p": "z", "v": 1.0},
    ]


@pytest.mark.parametrize(
    ("assignments", "error"),
    [
        ({}, ConfigError),
        ({"nothing": "1"}, ColumnNotFoundError),
        ({"id": "p"}, PredicateError),
        ({"id": "1", "ID": "2"}, ConfigError),
        ({"id": object()}, PredicateError),
        ({"v": "1 / (id - 2)"}, ConstraintViolationError),
    ],
)
def test_bad_assignments_are_refused(tmp_path, assignments, error):
    table = make(tmp_path, numbered(4))
    before, version = data_files(table), table.version
    with pytest.raises(error):
        table.update(assignments)
    assert (data_files(table), table.version) == (before, version)


def test_tables_that_refuse_deletes(tmp_path):
    appends = make(tmp_path / "appends", numbered(4), {"delta.appendOnly": "true"})
    with pytest.raises(AppendOnlyError, match="DELETE"):
        appends.delete("id = 1")
    with pytest.raises(TableNotFoundError):
        ld.Table.open(tmp_path / "nothing").delete()


@pytest.mark.parametrize("properties", [{}, VECTORS], ids=["rewritten", "vectors"])
def test_results_and_history_have_the_metrics_of_delta_spark(tmp_path, properties):
    ld.write(tmp_path, {"id": [*range(10)], "v": [*range(10)]}, properties=properties)
    table = ld.Table.open(tmp_path)
    common = {"numAddedBytes", "numAddedFiles", "numCopiedRows", "numRemovedBytes",
        "numRemovedFiles", "numDeletionVectorsAdded", "scanTimeMs", "rewriteTimeMs",
        "executionTimeMs"}  # fmt: skip
    for verb, rows in (
        (lambda: table.delete("id = 1"), "numDeletedRows"),
        (lambda: table.update({"v": "0"}, "id = 2"), "numUpdatedRows"),
    ):
        result = verb()
        assert common | {rows} <= result.metrics.keys()
        assert result.metrics[rows] == 1
        phases = result.metrics["scanTimeMs"] + result.metrics["rewriteTimeMs"]
        assert 0 <= phases <= result.metrics["executionTimeMs"]
        (latest,) = table.history(1)
        assert {
            name: int(n) for name, n in latest.raw["operationMetrics"].items()
        } == result.metrics
