"""DELETE, UPDATE and MERGE on Spark: the result is that of one process, row for row."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException

import lazydelta as ld
import lazydelta.spark as executors
from lazydelta.errors import (
    AppendOnlyError,
    ColumnNotFoundError,
    CommitConflictError,
    ConfigError,
    ConstraintViolationError,
    MultipleMatchesError,
    SchemaMismatchError,
)
from lazydelta.spark import tuning
from lazydelta.spark.arrow_conversion import spark_schema
from lazydelta.spark.dml import verb_run
from lazydelta.spark.spark_releases import collect_arrow, frame_of_arrow
from tests.spark.dml_tables import KINDS, SCHEMA, VECTORS, Twins, random_rows


def frame(spark, rows, schema=SCHEMA):
    return frame_of_arrow(spark, pa.Table.from_pylist(rows, schema), spark_schema(schema))


def rows_of(url):
    return sorted(ld.Table.open(url).scan().to_arrow().to_pylist(), key=repr)


def data_files(url):
    return sorted(f for f in Path(url).rglob("*") if f.is_file() and "_delta_log" not in f.parts)


# --- against one process -----------------------------------------------------------------------


@pytest.mark.sample(3)
@pytest.mark.parametrize("kind", KINDS)
def test_deleted_and_updated_rows_are_those_of_one_process(spark, tmp_path, kind):
    twins = Twins(tmp_path, kind, random_rows(kind, 90))
    for where in ("id % 7 = 3 OR v > 1", "p = 'a' AND `a-b` = 'é'"):
        twins.check(executors.delete(spark, twins.spark, where), twins.table.delete(where))
    assigned = {"v": "v + 1", "p": "'new'", "st.x": "id"}
    for where in ("id > 100 OR id IS NULL", None):
        found = executors.update(spark, twins.spark, assigned, where)
        twins.check(found, twins.table.update(assigned, where))


def upsert(merge):
    return merge("t.id = s.id").when_matched_update("*").when_not_matched_insert("*")


def clauses_in_order(merge):
    values = {"id": "s.id", "p": "coalesce(s.p, 'none')", "`a-b`": "s.`a-b`"}
    return (
        merge("t.id <=> s.id AND t.p <> 'b'")
        .when_matched_delete("t.v > s.v")
        .when_matched_update({"`a-b`": "concat(s.`a-b`, '!')"}, "s.id % 2 = 0")
        .when_matched_update({"v": "-s.v", "st.y": "'changed'"})
        .when_not_matched_insert(values, "s.v IS NOT NULL")
        .when_not_matched_insert({"id": "s.id", "v": "0"}, "s.id % 3 = 0")
    )


def not_matched_by_source(merge):
    return (
        merge("t.id = s.id")
        .when_matched_delete()
        .when_not_matched_by_source_update({"v": "99", "p": "'kept'"}, "t.id % 5 = 1")
        .when_not_matched_by_source_delete("t.id > 150")
    )


@pytest.mark.sample(3)
@pytest.mark.parametrize("kind", KINDS)
def test_merged_rows_are_those_of_one_process(spark, tmp_path, kind):
    twins = Twins(tmp_path, kind, random_rows(f"{kind} target", 80))
    unique = {row["id"]: row for row in random_rows(f"{kind} source", 70)}
    for merge in (clauses_in_order, upsert, not_matched_by_source):
        rows = list(unique.values())
        source = frame(spark, rows)
        found = merge(lambda on, s=source: executors.merge(spark, twins.spark, s, on)).execute()
        local = pa.Table.from_pylist(rows, SCHEMA)
        here = merge(lambda on, s=local: twins.table.merge(s, on)).execute()
        twins.check(found, here)
        unique = {row["id"]: row for row in random_rows(f"{kind} more", 60)}


# --- who evaluates, and what runs --------------------------------------------------------------


def test_partition_values_alone_decide_without_a_job_or_a_data_file(spark, tmp_path):
    rows = [{"id": n, "p": "ab"[n % 2]} for n in range(20)]
    ld.write(tmp_path, pa.Table.from_pylist(rows), partition_by=["p"])
    for file in data_files(tmp_path):
        file.unlink()
    spark.sparkContext.setJobGroup("partition", "a partition")
    try:
        result = executors.delete(spark, tmp_path, "p = 'a'")
        assert executors.delete(spark, tmp_path, "p = 'z'").version == result.version
    finally:
        for name in ("jobGroup.id", "job.description"):
            spark.sparkContext.setLocalProperty(f"spark.{name}", None)
    assert not spark.sparkContext.statusTracker().getJobIdsForGroup("partition")
    assert (result.metrics["numDeletedRows"], result.files_removed) == (10, 1)
    assert ld.Table.open(tmp_path).count() == 10


def test_sql_that_only_spark_knows(spark, tmp_path):
    ld.write(
        tmp_path, {"id": [*range(20)], "name": [f"n{n}" for n in range(20)]}, properties=VECTORS
    )
    expected = (
        spark.range(20).where("soundex(concat('n', id)) = 'N000' AND bit_count(id) = 1").count()
    )
    where = "soundex(name) = 'N000' AND bit_count(id) = 1"
    assert executors.delete(spark, tmp_path, where).metrics["numDeletedRows"] == expected == 5
    executors.update(spark, tmp_path, {"name": "reverse(format_string('%03d', id))"}, "id = 17")
    assert {"id": 17, "name": "710"} in rows_of(tmp_path)


def test_conditions_on_timestamps_use_the_time_zone_of_the_session(spark, tmp_path):
    hours = spark.sql("SELECT timestamp_seconds(id * 3600) at FROM range(48)")
    ld.write(tmp_path, collect_arrow(hours))
    other = spark.newSession()
    other.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    deleted = executors.delete(other, tmp_path, "at >= '1970-01-02 09:00:00'")
    assert deleted.metrics["numDeletedRows"] == 24


def test_a_session_whose_time_zone_was_never_set(spark, numbers):
    key = "spark.sql.session.timeZone"
    before = spark.conf.get(key)
    spark.conf.unset(key)
    try:
        assert executors.delete(spark, numbers, "id = 1").metrics["numDeletedRows"] == 1
    finally:
        spark.conf.set(key, before)


def test_the_driver_receives_descriptors_only(spark, tmp_path, monkeypatch):
    received = []
    collect = verb_run.collect_tables
    monkeypatch.setattr(verb_run, "collect_tables", lambda r: received.append(r) or collect(r))
    ld.write(tmp_path, {"id": [*range(200_000)]}, properties=VECTORS)
    result = executors.delete(spark, tmp_path, "id % 2 = 1 AND id > 50000")
    assert result.metrics["numDeletedRows"] == 75_000
    assert result.metrics["numDeletionVectorsAdded"] == 1
    assert 0 < sum(table.nbytes for table in received) < 2_000


# --- rules -------------------------------------------------------------------------------------


def test_the_rows_of_the_table_are_never_broadcast(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(tuning, "BROADCAST_SOURCE_BYTES", 0)
    rows = 200_000
    url = str(tmp_path / "t")
    ld.write(url, pa.table({"id": pa.array(range(rows)), "v": pa.array([1] * rows)}))
    source = spark.range(100).selectExpr("id * 4000 AS id", "2L AS v").limit(100)
    spark.conf.set("spark.sql.maxBroadcastTableSize", "1m")
    try:
        merge = executors.merge(spark, url, source, "t.id = s.id")
        inserted = merge.when_not_matched_insert("*").execute()
        merge = executors.merge(spark, url, source, "t.id = s.id").when_matched_update("*")
        merged = merge.when_not_matched_by_source_update({"v": "3"}, "t.id = 1").execute()
    finally:
        spark.conf.unset("spark.sql.maxBroadcastTableSize")
    assert inserted.metrics["numTargetRowsInserted"] == 50
    assert merged.metrics["numTargetRowsUpdated"] == 101
    assert len(rows_of(url)) == rows + 50


@pytest.fixture
def numbers(tmp_path):
    """A table of ten rows with a constraint, in two files."""
    url = tmp_path / "numbers"
    ld.write(url, {"id": [0, 1, 2, 3, 4], "v": [0, 10, 20, 30, 40]}, properties=VECTORS)
    ld.write(url, {"id": [5, 6, 7, 8, 9], "v": [50, 60, 70, 80, 90]})
    ld.Table.open(url).alter.add_constraint("small", "v < 1000")
    return str(url)


def source(spark, *rows):
    return spark.createDataFrame([*rows], "id bigint, v bigint")


def test_several_source_rows_for_one_row_are_an_error_that_names_the_key(spark, numbers):
    before = rows_of(numbers), data_files(numbers)
    twice = source(spark, (3, 1), (3, 2), (4, 1))
    merge = executors.merge(spark, numbers, twice, "t.id = s.id")
    with pytest.raises(MultipleMatchesError, match=r"t\.id = 3"):
        merge.when_matched_update("*").execute()
    with pytest.raises(MultipleMatchesError, match=r"t\.id = 3"):  # one row in two clauses
        merge.when_matched_delete("s.v = 1").when_matched_update("*").execute()
    assert (rows_of(numbers), data_files(numbers)) == before
    result = merge.when_matched_delete().execute()
    assert result.metrics["numTargetRowsDeleted"] == 2
    assert merge.when_matched_update("*", where="s.v = 2").execute().version == result.version


def test_an_application_transaction_is_applied_once(spark, numbers):
    rows, once = source(spark, (3, 7), (30, 1)), {"app_id": "stream", "app_version": 5}
    merge = executors.merge(spark, numbers, rows, "t.id = s.id", **once)
    merge = merge.when_matched_update({"v": "t.v + s.v"}).when_not_matched_insert("*")
    assert not merge.execute().already_applied
    after = rows_of(numbers)
    assert {"id": 3, "v": 37} in after
    for again in (merge.execute(), executors.delete(spark, numbers, **once),
        executors.update(spark, numbers, {"v": "0"}, **once)):  # fmt: skip
        assert again.already_applied
    assert rows_of(numbers) == after


@pytest.mark.spark4
def test_a_stream_that_starts_again_applies_each_batch_once(spark, numbers, tmp_path):
    ld.write(tmp_path / "feed", {"id": [3, 30], "v": [1, 1]})
    executors.register(spark)

    def upsert(batch, number, *, then=None):
        once = {"app_id": "upsert", "app_version": number}
        merge = executors.merge(batch.sparkSession, numbers, batch, "t.id = s.id", **once)
        merge.when_matched_update({"v": "t.v + s.v"}).when_not_matched_insert("*").execute()
        if then is not None:
            raise then

    def run(function):
        rows = spark.readStream.format("lazydelta").load(str(tmp_path / "feed"))
        writer = rows.writeStream.foreachBatch(function).trigger(availableNow=True)
        writer.option("checkpointLocation", str(tmp_path / "state")).start().awaitTermination()

    with pytest.raises(Exception, match="after the commit"):
        run(lambda batch, number: upsert(batch, number, then=RuntimeError("after the commit")))
    version = ld.Table.open(numbers).version
    run(upsert)
    assert ld.Table.open(numbers).version == version
    assert {row["id"]: row["v"] for row in rows_of(numbers)}[3] == 31


def test_nothing_matched_is_no_commit(spark, numbers):
    version, files = ld.Table.open(numbers).version, data_files(numbers)
    merge = executors.merge(spark, numbers, source(spark, (99, 1)), "t.id = s.id")
    results = [
        executors.delete(spark, numbers, "id = 100"),
        executors.update(spark, numbers, {"v": "1"}, "id = 100"),
        merge.when_matched_update("*").execute(),
        merge.when_not_matched_insert("*", where="s.v > 5").execute(),
    ]
    assert {result.version for result in results} == {version}
    assert data_files(numbers) == files


def test_a_dry_run_counts_and_writes_nothing(spark, numbers):
    files, rows = data_files(numbers), source(spark, (3, 1), (99, 1))
    merge = executors.merge(spark, numbers, rows, "t.id = s.id", dry_run=True)
    result = merge.when_matched_update("*").when_not_matched_insert("*").execute()
    assert result.dry_run
    assert result.metrics["numTargetRowsUpdated"] == result.metrics["numTargetRowsInserted"] == 1
    found = executors.delete(spark, numbers, "id < 2", dry_run=True)
    assert (found.metrics["numDeletedRows"], found.metrics["numDeletionVectorsAdded"]) == (2, 1)
    assert data_files(numbers) == files


def test_a_plan_without_a_job(spark, numbers):
    rows = source(spark, (3, 1))
    merge = executors.merge(spark, numbers, rows, "t.id = s.id AND t.id > 4 AND t.v < s.v")
    plan = merge.when_matched_update({"id": "s.id"}).explain()
    assert (plan.key, plan.target_condition) == (("t.id = s.id",), "id > 4")
    assert (plan.residual_condition, plan.files) == ("t.v < s.v", 1)
    assert plan.match_columns == ("id", "v")
    assert plan.deletion_vectors
    unknown = executors.merge(spark, numbers, rows, "soundex(string(t.id)) = soundex(string(s.id))")
    plan = unknown.when_matched_delete().explain()
    assert (plan.key, plan.residual_condition) == (
        (),
        "soundex(string(t.id)) = soundex(string(s.id))",
    )
    assert plan.files == 2


def test_rows_that_violate_a_constraint_are_a_typed_error(spark, numbers):
    before = rows_of(numbers), data_files(numbers)
    with pytest.raises(ConstraintViolationError, match="small"):
        executors.update(spark, numbers, {"v": "v * 100"})
    rows = source(spark, (99, 5000))
    with pytest.raises(ConstraintViolationError, match="small"):
        executors.merge(spark, numbers, rows, "t.id = s.id").when_not_matched_insert("*").execute()
    assert (rows_of(numbers), data_files(numbers)) == before


def test_values_are_cast_as_spark_assigns_them(spark, numbers):
    executors.update(spark, numbers, {"v": "1.9D"}, "id = 1")
    assert {"id": 1, "v": 1} in rows_of(numbers)
    with pytest.raises(SchemaMismatchError, match="the value is string"):
        executors.update(spark, numbers, {"v": "'1'"}, "id = 1")
    with pytest.raises(Exception, match="CAST_OVERFLOW"):
        executors.update(spark, numbers, {"v": "1e30D"}, "id = 1")


@pytest.mark.parametrize(
    ("on", "where"), [("t.nope = s.id", None), ("t.id = s.id", "s.nope"), ("t.id = s.id", "t.nope")]
)
def test_a_wrong_column_of_a_condition_is_found_before_the_source_is_computed(
    spark, numbers, on, where
):
    computed = source(spark, (1, 1)).selectExpr("id", "assert_true(id < 0) IS NULL AS v")
    merge = executors.merge(spark, numbers, computed, on).when_matched_delete(where)
    for call in (merge.explain, merge.execute):
        with pytest.raises(AnalysisException, match=r"`nope` cannot be resolved") as caught:
            call()
        assert "lazydelta" not in str(caught.value)


def test_requests_that_are_refused_before_any_job(spark, numbers):
    merge = executors.merge(spark, numbers, source(spark, (3, 1)), "t.id = s.id")
    with pytest.raises(ConfigError, match="needs a clause"):
        merge.execute()
    with pytest.raises(ColumnNotFoundError):
        merge.when_matched_update({"nope": "1"}).execute()
    with pytest.raises(ColumnNotFoundError):
        executors.update(spark, numbers, {"nope": "1"})
    lenient = spark.newSession()
    lenient.conf.set("spark.sql.ansi.enabled", "false")
    with pytest.raises(ConfigError, match=r'spark.conf.set\("spark.sql.ansi.enabled", "true"\)'):
        executors.delete(lenient, numbers, "id = 1")
    ld.Table.open(numbers).alter.set_properties({"delta.appendOnly": "true"})
    with pytest.raises(AppendOnlyError):
        merge.when_matched_delete().execute()
    assert merge.when_not_matched_insert("*").execute().metrics["numTargetRowsInserted"] == 0


@pytest.mark.sample(2)
@pytest.mark.parametrize("more", [{}, VECTORS], ids=["rewritten", "vectors"])
def test_rows_keep_their_row_ids(spark, tmp_path, more):
    ids = [*range(20)]
    properties = {"delta.enableRowTracking": "true", **more}
    ld.write(tmp_path, {"id": ids, "v": ids}, properties=properties)

    def row_ids():
        options = ld.ReadOptions(row_id_column="row", row_commit_version_column="version")
        rows = ld.Table.open(tmp_path).scan().to_arrow(options=options).to_pylist()
        return {row["id"]: (row["row"], row["version"]) for row in rows}

    before = row_ids()
    executors.delete(spark, tmp_path, "id < 3")
    executors.update(spark, tmp_path, {"v": "-v"}, "id IN (5, 6)")
    merge = executors.merge(spark, tmp_path, source(spark, (6, 1), (7, 1), (99, 1)), "t.id = s.id")
    merge.when_matched_update("*").when_not_matched_insert("*").execute()
    after = row_ids()
    new = after.pop(99)
    assert (new[0] not in {row for row, _ in before.values()}, new[1]) == (True, 3)
    versions = {5: 2, 6: 3, 7: 3}
    assert after == {n: (before[n][0], versions.get(n, 0)) for n in ids if n >= 3}


def test_an_empty_table(spark, tmp_path):
    ld.Table.create(tmp_path, pa.schema([("id", pa.int64()), ("v", pa.int64())]))
    assert executors.delete(spark, tmp_path, "id = 1").version == 0
    merge = executors.merge(spark, tmp_path, source(spark, (1, 2)), "t.id = s.id")
    merge = merge.when_matched_update("*").when_not_matched_by_source_delete()
    assert merge.execute().version == 0
    assert merge.when_not_matched_insert("*").execute().metrics["numTargetRowsInserted"] == 1
    assert rows_of(tmp_path) == [{"id": 1, "v": 2}]


def test_a_concurrent_change_of_the_same_row_is_a_conflict(spark, numbers, monkeypatch):
    written = verb_run.VerbRun.write_deletion

    def meanwhile(run, files):
        ld.Table.open(numbers).delete("id = 4")
        return written(run, files)

    monkeypatch.setattr(verb_run.VerbRun, "write_deletion", meanwhile)
    with pytest.raises(CommitConflictError):
        executors.update(spark, numbers, {"v": "0"}, "id IN (3, 4)")
    assert {"id": 3, "v": 30} in rows_of(numbers)


def test_merge_schema_adds_the_columns_of_the_source(spark, numbers):
    rows = spark.sql("SELECT 3L id, 33L v, 'x' note UNION ALL SELECT 50L, 5L, 'y'")
    merge = executors.merge(spark, numbers, rows, "t.id = s.id", merge_schema=True)
    merge.when_matched_update("*").when_not_matched_insert("*").execute()
    found = {row["id"]: (row["v"], row["note"]) for row in rows_of(numbers)}
    assert (found[3], found[50], found[4]) == ((33, "x"), (5, "y"), (40, None))


def test_a_star_leaves_out_columns(spark, numbers):
    merge = executors.merge(spark, numbers, source(spark, (3, 33), (50, 5)), "t.id = s.id")
    merge = merge.when_matched_update("*", except_columns=["V"])
    merge.when_not_matched_insert("*").execute()
    found = {row["id"]: row["v"] for row in rows_of(numbers)}
    assert (found[3], found[50]) == (30, 5)


def test_nested_fields_that_the_source_lacks(spark, tmp_path):
    kind = pa.struct([("x", pa.int64()), ("y", pa.int64())])
    ld.write(tmp_path, pa.table({"id": [1, 2], "st": pa.array([{"x": 1, "y": 1}] * 2, kind)}))
    rows = spark.sql("SELECT 1L id, named_struct('x', 5L, 'z', 6L) st UNION ALL SELECT 3L, NULL")
    merge = executors.merge(spark, tmp_path, rows, "t.id = s.id").when_matched_update("*")
    with pytest.raises(SchemaMismatchError, match=r"st\.[yz]"):
        merge.execute()
    merge = executors.merge(spark, tmp_path, rows, "t.id = s.id", merge_schema=True)
    merge.when_matched_update("*").when_not_matched_insert("*").execute()
    assert [row["st"] for row in rows_of(tmp_path)] == [
        {"x": 5, "y": 1, "z": 6}, {"x": 1, "y": 1, "z": None}, None,
    ]  # fmt: skip


def test_generated_columns_and_defaults_are_computed(spark, tmp_path):
    twice = pa.field("twice", pa.int64(), metadata={"delta.generationExpression": "v * 2"})
    columns = pa.schema([("id", pa.int64()), ("v", pa.int64()), twice])
    table = ld.Table.create(tmp_path, columns)
    table.write({"id": [1, 2], "v": [10, 20]})
    rows = source(spark, (1, 11), (3, 30))
    merge = executors.merge(spark, tmp_path, rows, "t.id = s.id")
    merge.when_matched_update({"v": "s.v"}).when_not_matched_insert(
        {"id": "s.id", "v": "s.v"}
    ).execute()
    executors.update(spark, tmp_path, {"v": "v + 1"}, "id = 2")
    assert [tuple(row.values()) for row in rows_of(tmp_path)] == [
        (1, 11, 22),
        (2, 21, 42),
        (3, 30, 60),
    ]


def test_a_source_that_changes_when_it_is_computed_again_is_evaluated_once(spark, numbers):
    rows = (
        spark.range(0, 400, 1, 4).selectExpr("id", "cast(rand() * 100 AS bigint) v").where("v < 50")
    )
    merge = executors.merge(spark, numbers, rows, "t.id = s.id")
    merge = merge.when_matched_update("*").when_not_matched_insert("*")
    metrics = merge.execute().metrics
    counted = metrics["numTargetRowsUpdated"] + metrics["numTargetRowsInserted"]
    assert counted == metrics["numSourceRows"]
    assert len({row["id"] for row in rows_of(numbers)}) == len(rows_of(numbers))
    assert len(rows_of(numbers)) == 10 + metrics["numTargetRowsInserted"]
